package hub_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// TestStatefulSets places a UnitedDeployment of StatefulSets in two members: the partition holds over both together,
// also while the workload is scaled, and updated pods do not go back. Then its children become advanced StatefulSets.
func TestStatefulSets(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	f.ledger()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ud := &apps.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "db"},
		Spec: apps.UnitedDeploymentSpec{
			Replicas: new(int32(8)), Selector: selector,
			Template: apps.SubsetTemplate{StatefulSetTemplate: &apps.StatefulSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec: apps.NativeStatefulSetSpec{StatefulSetSpec: appsv1.StatefulSetSpec{
					ServiceName: "db", Selector: selector, Template: podTemplate("db:1"),
				}},
			}},
			Topology: apps.Topology{Subsets: []apps.Subset{{Name: "b", NodeSelectorTerm: zone("b")}}},
		},
	}
	must(t, f.client.Create(f.ctx, ud))
	rest := func(what string, replicas, updated int32) {
		t.Helper()
		f.eventually(what, func() error {
			if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
				return err
			}
			for _, c := range ud.Status.Conditions {
				if string(c.Type) == "Ready" && c.Status == corev1.ConditionTrue && ud.Status.ObservedGeneration == ud.Generation &&
					ud.Status.Replicas == replicas && ud.Status.UpdatedReplicas == updated {
					return nil
				}
			}
			return fmt.Errorf("status %+v", ud.Status)
		})
	}
	f.placed("UnitedDeployment", "db", map[string]int32{"b/east": 4, "b/west": 4})
	rest("8 pods", 8, 8)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":5}}},
		"template":{"statefulSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"db:2"}]}}}}}}`)
	rest("3 of 8 are updated", 8, 3)
	f.patch(ud, `{"replicas":10,"updateStrategy":{"manualUpdate":{"partitions":{"b":7}}}}`)
	rest("3 of 10 are updated", 10, 3)
	f.placed("UnitedDeployment", "db", map[string]int32{"b/east": 5, "b/west": 5})
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":9}}}}`)
	rest("none of them goes back", 10, 3)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":0}}}}`)
	rest("all are updated", 10, 10)
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}

	f.patch(ud, `{"template":{"statefulSetTemplate":null,"advancedStatefulSetTemplate":{"spec":{"serviceName":"db","selector":{"matchLabels":{"app":"web"}},
		"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"db:2"}]}}}}}}`)
	rest("advanced StatefulSets take their place", 10, 10)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":7}}},
		"template":{"advancedStatefulSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"db:3"}]}}}}}}`)
	rest("3 of 10 are updated again", 10, 3)
	f.placed("UnitedDeployment", "db", map[string]int32{"b/east": 5, "b/west": 5})
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"b":0}}}}`)
	rest("all have the third template", 10, 10)
}
