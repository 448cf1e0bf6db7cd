package delivery

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestStatefulSetsCarryTheOrdinalsOfTheirMember: each member gets its own ordinals, and the user's limits beside its
// budget. The headless Service comes first.
func TestStatefulSetsCarryTheOrdinalsOfTheirMember(t *testing.T) {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	set.Spec.Replicas, set.Spec.ServiceName = new(int32(5)), "db"
	set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateStatefulSetStrategy{
		Partition: new(int32(1)), MaxUnavailable: new(intstr.FromString("40%"))}
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "statefulset-db"}}
	p.Spec.Cells = []topology.Cell{
		{Cluster: "east", Replicas: 3, Granted: topology.Budget{Updated: 2, Unavailable: 1}, Sequence: 4},
		{Cluster: "west", Replicas: 2, Granted: topology.Budget{Updated: 2}, Waiting: true, Sequence: 4},
	}
	p.Spec.Ordinals = &topology.Ordinals{Next: 2000, Blocks: []topology.OrdinalBlock{
		{Cluster: "east", Ranges: []topology.OrdinalRange{{Start: 0, End: 999}}},
		{Cluster: "west", Ranges: []topology.OrdinalRange{{Start: 1000, End: 1999}}},
	}}
	p.Spec.Dependencies = []topology.Dependency{
		{DependencyReference: topology.DependencyReference{Kind: "Service", Name: "db"}},
	}
	key := wire.Key{Group: apps.StatefulSetKind.Group, Kind: apps.StatefulSetKind.Kind, Namespace: "shop", Name: "db"}
	works, rejection, err := plan(kinds.Workloads()[key.GroupKind()], key, "hub", set, p,
		additions{budgets: map[string]bool{"east": true}})
	if rejection != nil || err != nil || len(works) != 2 {
		t.Fatalf("%d Works, %v, %v", len(works), rejection, err)
	}
	want := []string{
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"annotations":` +
			`{"topology.flotilla.dev/budget":"{\"updated\":2,\"unavailable\":1,\"surge\":0}"},"name":"db","namespace":"shop"},"spec":{"replicas":3,` +
			`"serviceName":"db","template":{"spec":{"containers":null}},"updateStrategy":{"rollingUpdate":` +
			`{"maxUnavailable":"40%","partition":1}}}}`,
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"name":"db","namespace":"shop"},` +
			`"spec":{"ordinals":{"start":1000},"replicas":2,"serviceName":"db","template":{"spec":{"containers":null}},` +
			`"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"partition":0,"paused":true}}}}`,
	}
	for i, w := range works {
		var got, expected any
		if json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &got) != nil ||
			json.Unmarshal([]byte(want[i]), &expected) != nil {
			t.Fatal("no JSON")
		}
		prune(expected)
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s, want -, got +:\n%s", w.Namespace, diff)
		}
		if needs := w.Annotations[topology.AnnotationDependsOn]; needs != "shop.db.service" {
			t.Errorf("%s depends on %q", w.Namespace, needs)
		}
	}
}
