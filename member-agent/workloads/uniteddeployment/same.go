package uniteddeployment

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// meaning is a hash that is equal for child specs that mean the same.
type meaning [sha256.Size]byte

// workloadDefaults are the values, by path, that the API server gives to what a child leaves out. Defaults of pod
// templates are history's. Numbers are float64, as decoded JSON has them.
func workloadDefaults(k kind) []fieldDefault {
	all := []fieldDefault{{[]string{"replicas"}, 1.0}, {[]string{"revisionHistoryLimit"}, 10.0}}
	if k == deploymentKind {
		return append(all,
			fieldDefault{[]string{"progressDeadlineSeconds"}, 600.0},
			fieldDefault{[]string{"strategy", "type"}, "RollingUpdate"},
			fieldDefault{[]string{"strategy", "rollingUpdate", "maxUnavailable"}, "25%"},
			fieldDefault{[]string{"strategy", "rollingUpdate", "maxSurge"}, "25%"},
		)
	}
	all = append(all,
		fieldDefault{[]string{"updateStrategy", "type"}, "RollingUpdate"},
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "partition"}, 0.0},
	)
	if k == statefulSetKind {
		return append(all,
			fieldDefault{[]string{"updateStrategy", "rollingUpdate", "maxUnavailable"}, 1.0},
			fieldDefault{[]string{"podManagementPolicy"}, "OrderedReady"},
			fieldDefault{[]string{"persistentVolumeClaimRetentionPolicy", "whenDeleted"}, "Retain"},
			fieldDefault{[]string{"persistentVolumeClaimRetentionPolicy", "whenScaled"}, "Retain"},
		)
	}
	return append(all,
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "maxUnavailable"}, "20%"},
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "maxSurge"}, 0.0},
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "podUpdatePolicy"}, "ReCreate"},
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"}, map[string]any{}},
		fieldDefault{[]string{"scaleStrategy"}, map[string]any{}},
	)
}

type fieldDefault struct {
	path  []string
	value any
}

// drop removes the field at path if it has that value, and parents that are empty then.
func drop(fields map[string]any, path []string, value any) {
	if len(path) == 1 {
		if have, ok := fields[path[0]]; ok && reflect.DeepEqual(have, value) {
			delete(fields, path[0])
		}
		return
	}
	inner, ok := fields[path[0]].(map[string]any)
	if !ok {
		return
	}
	drop(inner, path[1:], value)
	if len(inner) == 0 {
		delete(fields, path[0])
	}
}

// meaningOf returns what the spec of a child object means.
func meaningOf(k kind, object client.Object) (meaning, error) {
	raw, err := json.Marshal(specOf(object))
	if err != nil {
		return meaning{}, fmt.Errorf("encode the spec of %s: %w", k, err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return meaning{}, fmt.Errorf("decode the spec of %s: %w", k, err)
	}
	for _, d := range workloadDefaults(k) {
		drop(fields, d.path, d.value)
	}
	if claims, ok := fields["volumeClaimTemplates"].([]any); ok && k == statefulSetKind {
		dropClaimDefaults(claims)
	}
	canonical, err := history.Canonical(fields)
	if err != nil {
		return meaning{}, fmt.Errorf("compare the spec of %s: %w", k, err)
	}
	return sha256.Sum256(canonical), nil
}

// dropClaimDefaults removes what the API server fills into the claim templates of a StatefulSet.
func dropClaimDefaults(claims []any) {
	for _, item := range claims {
		claim, ok := item.(map[string]any)
		if !ok {
			continue
		}
		delete(claim, "apiVersion")
		delete(claim, "kind")
		delete(claim, "status")
		drop(claim, []string{"spec", "volumeMode"}, "Filesystem")
	}
}

// contains tells whether all of want is in have.
func contains(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}
