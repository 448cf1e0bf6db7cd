package uniteddeployment

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// kind is the kind of a child.
type kind string

const (
	cloneSetKind    kind = "CloneSet"
	deploymentKind  kind = "Deployment"
	statefulSetKind kind = "StatefulSet" // of apps/v1
	// advancedKind is the StatefulSet of apps.kruise.io, as kubectl names it.
	advancedKind kind = "StatefulSet.apps.kruise.io"
)

// child is a child as it was observed. The object comes from the cache and must not be changed.
type child struct {
	kind     kind
	object   client.Object
	subset   string
	revision string // of the UnitedDeployment, by label
	replicas int32  // asked for
	observed bool   // its controller has seen its newest generation
	pods     counters
	// canGoBack: it has an old revision, to which a higher partition brings updated pods back.
	canGoBack bool
	// stalled and failed are what its controller says of it: that only a person can help, or that it tries again.
	stalled, failed *conditions.Cause
}

// counters are numbers of pods.
type counters struct {
	replicas, ready, available, updated, updatedReady, updatedAvailable int32
}

// hasOrdinals reports whether pods of the kind keep their names. The highest of them go first.
func (k kind) hasOrdinals() bool { return k == statefulSetKind || k == advancedKind }

func (c *child) terminating() bool { return c.object.GetDeletionTimestamp() != nil }

// empty tells that the child asks for no pods and has none.
func (c *child) empty() bool { return c.replicas == 0 && c.observed && c.pods.replicas == 0 }

// name returns "Kind name" for sentences.
func (c *child) name() string { return string(c.kind) + " " + c.object.GetName() }

func fromCloneSet(set *kruise.CloneSet) child {
	c := child{
		kind:     cloneSetKind,
		object:   set,
		subset:   subsetOf(set, set.Spec.Selector),
		revision: set.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(set.Spec.Replicas),
		observed: set.Status.ObservedGeneration >= set.Generation,
		pods: counters{
			replicas:     set.Status.Replicas,
			ready:        set.Status.ReadyReplicas,
			available:    set.Status.AvailableReplicas,
			updated:      set.Status.UpdatedReplicas,
			updatedReady: set.Status.UpdatedReadyReplicas,

			updatedAvailable: set.Status.UpdatedAvailableReplicas,
		},
		canGoBack: set.Status.CanGoBack(),
	}
	for i := range set.Status.Conditions {
		condition := &set.Status.Conditions[i]
		c.note(string(condition.Type), condition.Status, condition.Reason, condition.Message)
	}
	return c
}

// note keeps what the controller of a child says in a condition.
func (c *child) note(name string, status corev1.ConditionStatus, reason, message string) {
	if status != corev1.ConditionTrue {
		return
	}
	cause := &conditions.Cause{Reason: reason, Message: message}
	switch name {
	case string(kruise.ConditionStalled):
		c.stalled = cause
	case string(kruise.CloneSetConditionFailedScale), string(kruise.CloneSetConditionFailedUpdate),
		string(kruise.StatefulSetConditionFailedCreatePod), string(kruise.StatefulSetConditionFailedUpdatePod):
		c.failed = cause
	}
}

// fromAdvanced observes a StatefulSet of apps.kruise.io. It has no way back: a higher partition makes pods of the old
// revision only where pods are recreated.
func fromAdvanced(set *kruise.StatefulSet) child {
	status := &set.Status
	c := child{
		kind:     advancedKind,
		object:   set,
		subset:   subsetOf(set, set.Spec.Selector),
		revision: set.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(set.Spec.Replicas),
		observed: status.ObservedGeneration >= set.Generation,
		pods: counters{
			replicas:         status.Replicas,
			ready:            status.ReadyReplicas,
			available:        status.AvailableReplicas,
			updated:          status.UpdatedReplicas,
			updatedReady:     status.UpdatedReadyReplicas,
			updatedAvailable: status.UpdatedAvailableReplicas,
		},
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		c.note(string(condition.Type), condition.Status, condition.Reason, condition.Message)
	}
	return c
}

func fromDeployment(d *appsv1.Deployment) child {
	status := &d.Status
	c := child{
		kind:     deploymentKind,
		object:   d,
		subset:   subsetOf(d, d.Spec.Selector),
		revision: d.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(d.Spec.Replicas),
		observed: status.ObservedGeneration >= d.Generation,
		pods: counters{
			replicas:  status.Replicas,
			ready:     status.ReadyReplicas,
			available: status.AvailableReplicas,
			updated:   status.UpdatedReplicas,

			updatedReady:     certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.ReadyReplicas),
			updatedAvailable: certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.AvailableReplicas),
		},
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			c.failed = &conditions.Cause{Reason: condition.Reason, Message: condition.Message}
		}
	}
	return c
}

// fromStatefulSet observes an apps/v1 StatefulSet. It has no way back: a higher partition makes pods of the old
// revision only where pods are recreated.
func fromStatefulSet(set *appsv1.StatefulSet) child {
	status := &set.Status
	return child{
		kind:     statefulSetKind,
		object:   set,
		subset:   subsetOf(set, set.Spec.Selector),
		revision: set.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(set.Spec.Replicas),
		observed: status.ObservedGeneration >= set.Generation,
		pods: counters{
			replicas:  status.Replicas,
			ready:     status.ReadyReplicas,
			available: status.AvailableReplicas,
			updated:   status.UpdatedReplicas,

			updatedReady:     certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.ReadyReplicas),
			updatedAvailable: certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.AvailableReplicas),
		},
	}
}

// certainlyUpdated returns how many of n pods must be updated ones: Deployments and StatefulSets do not say, so all old
// ones count as being among the n.
func certainlyUpdated(replicas, updated, n int32) int32 {
	return min(updated, max(0, n-(replicas-updated)))
}

// subsetOf returns the subset of a child: its selector says so and cannot be changed by hand as easily as its label.
func subsetOf(object client.Object, selector *metav1.LabelSelector) string {
	if selector != nil && selector.MatchLabels[kruise.LabelSubset] != "" {
		return selector.MatchLabels[kruise.LabelSubset]
	}
	return object.GetLabels()[kruise.LabelSubset]
}

// orOne returns replicas, or the 1 that the API means by leaving it out.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// specOf returns the spec of a child object.
func specOf(object client.Object) any {
	switch o := object.(type) {
	case *kruise.CloneSet:
		return &o.Spec
	case *kruise.StatefulSet:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec
	case *appsv1.StatefulSet:
		return &o.Spec
	}
	return nil
}

// emptyOf returns an empty object of the kind.
func emptyOf(k kind) client.Object {
	switch k {
	case deploymentKind:
		return &appsv1.Deployment{}
	case statefulSetKind:
		return &appsv1.StatefulSet{}
	case advancedKind:
		return &kruise.StatefulSet{}
	}
	return &kruise.CloneSet{}
}

// childOf observes an object of any kind of child.
func childOf(object client.Object) child {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return fromDeployment(o)
	case *appsv1.StatefulSet:
		return fromStatefulSet(o)
	case *kruise.StatefulSet:
		return fromAdvanced(o)
	}
	set, _ := object.(*kruise.CloneSet)
	return fromCloneSet(set)
}

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
	if k.hasOrdinals() {
		all = append(all,
			fieldDefault{[]string{"updateStrategy", "rollingUpdate", "maxUnavailable"}, 1.0},
			fieldDefault{[]string{"podManagementPolicy"}, "OrderedReady"},
			fieldDefault{[]string{"persistentVolumeClaimRetentionPolicy", "whenDeleted"}, "Retain"},
			fieldDefault{[]string{"persistentVolumeClaimRetentionPolicy", "whenScaled"}, "Retain"},
		)
	}
	if k == statefulSetKind {
		return all
	}
	all = append(all, fieldDefault{[]string{"updateStrategy", "rollingUpdate", "podUpdatePolicy"}, "ReCreate"})
	if k == advancedKind {
		return append(all,
			fieldDefault{[]string{"updateStrategy", "rollingUpdate", "minReadySeconds"}, 0.0},
			fieldDefault{[]string{"volumeClaimUpdateStrategy", "type"}, "OnDelete"},
		)
	}
	return append(all,
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "maxUnavailable"}, "20%"},
		fieldDefault{[]string{"updateStrategy", "rollingUpdate", "maxSurge"}, 0.0},
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
	if claims, ok := fields["volumeClaimTemplates"].([]any); ok && k.hasOrdinals() {
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

// contains reports whether all of want is in have.
func contains(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}
