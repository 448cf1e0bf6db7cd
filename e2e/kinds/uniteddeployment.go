package kinds

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// zones are those of the two subsets of a new UnitedDeployment.
func zones() []string { return []string{"b", "c"} }

// UnitedDeployment is the entry of UnitedDeployments; new ones are of CloneSets, with one subset in each of two zones.
func UnitedDeployment() Kind {
	return Kind{
		GroupVersionKind: apps.UnitedDeploymentKind,
		NewList:          func() client.ObjectList { return &apps.UnitedDeploymentList{} },
		Specs: [][]string{
			{"template", "cloneSetTemplate", "spec"},
			{"template", "deploymentTemplate", "spec"},
			{"template", "statefulSetTemplate", "spec"},
		},
		Spec: func(app string) map[string]any {
			spec := subsets(nil)
			labels := map[string]any{"labels": map[string]any{"app": app}}
			spec["template"] = map[string]any{"cloneSetTemplate": map[string]any{"metadata": labels}}
			return spec
		},
		Partition: func(quarters int) map[string]any {
			partitions := map[string]any{}
			for _, zone := range zones() {
				partitions["zone-"+zone] = int64(quarters)
			}
			return map[string]any{"updateStrategy": map[string]any{"type": "Manual",
				"manualUpdate": map[string]any{"partitions": partitions}}}
		},
		Subsets:  subsets,
		MinReady: minReady,
		Surges:   true,
		Desired: func(object client.Object) *judge.Desired {
			u := object.(*apps.UnitedDeployment)
			if u.Spec.Template.CloneSetTemplate == nil {
				return nil
			}
			d := desired(u, u.Spec.Replicas, &u.Spec.Template.CloneSetTemplate.Spec, u.Spec.UpdateStrategy.ManualUpdate)
			d.Numbers = numbersOf(u)
			return d
		},
	}
}

// subsets returns one subset for each zone, the first one with a number of replicas, or nil.
func subsets(replicas any) map[string]any {
	var all []any
	for _, zone := range zones() {
		in := map[string]any{"key": corev1.LabelTopologyZone, "operator": "In", "values": []any{zone}}
		subset := map[string]any{"name": "zone-" + zone, "nodeSelectorTerm": map[string]any{"matchExpressions": []any{in}}}
		if replicas != nil && len(all) == 0 {
			subset["replicas"] = replicas
		}
		all = append(all, subset)
	}
	return map[string]any{"topology": map[string]any{"subsets": all}}
}

// numbersOf reads how many replicas the subsets have that have a number: of a percentage a half rounds up.
func numbersOf(u *apps.UnitedDeployment) map[string]int32 {
	const whole = 100
	numbers := map[string]int32{}
	for i := range u.Spec.Topology.Subsets {
		s := &u.Spec.Topology.Subsets[i]
		if s.Replicas == nil {
			continue
		}
		if s.Replicas.Type == intstr.Int {
			numbers[s.Name] = s.Replicas.IntVal
			continue
		}
		if percent, err := strconv.Atoi(strings.TrimSuffix(s.Replicas.StrVal, "%")); err == nil {
			numbers[s.Name] = (ptr.Deref(u.Spec.Replicas, 1)*int32(percent) + whole/2) / whole
		}
	}
	return numbers
}
