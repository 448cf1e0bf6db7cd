package delivery

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// indexer gives the hub's indexes to a fake client.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(o, field, extract)
	return nil
}

// TestStaleDecisionRemovesNothing lets a cache show a placement that is older than the Works: what it does not name is no
// reason to remove a Work.
func TestStaleDecisionRemovesNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apps.AddToScheme, topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	build := func(objects ...client.Object) client.WithWatch {
		builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
		if err := wire.Index(t.Context(), indexer{builder}); err != nil {
			t.Fatal(err)
		}
		return builder.Build()
	}
	key := wire.Key{Kind: "CloneSet", Namespace: "shop", Name: "web"}
	object := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "object", Generation: 1}}
	decision := func(generation int64, clusters ...string) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.Placement().Name, UID: "placement", Generation: generation}}
		p.Spec.Workload = topology.WorkloadReference{Kind: "CloneSet", Name: "web", UID: "object", Generation: 1}
		for _, cluster := range clusters {
			p.Spec.Cells = append(p.Spec.Cells, topology.Cell{Cluster: cluster, Replicas: 1, Sequence: 1})
		}
		return p
	}
	works, refusal, err := plan(key, "hub", object, decision(2, "east", "south"), additions{})
	if err != nil || refusal != nil {
		t.Fatal(err, refusal)
	}
	standing := build(object, decision(2, "east"), works[0], works[1])
	south := func() bool {
		w := &work.Work{}
		if err := standing.Get(t.Context(), key.Work("south"), w); err != nil {
			t.Fatal(err)
		}
		return w.DeletionTimestamp == nil
	}
	look := func(live client.Reader) time.Duration {
		r := NewReconciler(standing, live, clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub", placement.NewVerdicts())
		result, err := r.Reconcile(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if again := look(build(decision(3, "east", "south"))); again == 0 || !south() {
		t.Errorf("a newer decision stands: look again after %s, the Work of south stands: %t", again, south())
	}
	if again := look(build()); again == 0 || !south() {
		t.Errorf("no decision stands any more: look again after %s, the Work of south stands: %t", again, south())
	}
	if again := look(standing); again != 0 || south() {
		t.Errorf("the decision stands: look again after %s, the Work of south stands: %t", again, south())
	}
}
