package delivery

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// indexer gives the hub's indexes to a fake client.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(o, field, extract)
	return nil
}

// hubClient returns a client with the hub's indexes that has these objects.
func hubClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apps.AddToScheme, topology.AddToScheme,
		work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := store.Index(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

// TestStaleDecisionRemovesNothing lets a cache show a placement that is older than the Works: what it does not name is
// no reason to remove a Work.
func TestStaleDecisionRemovesNothing(t *testing.T) {
	build := func(objects ...client.Object) client.WithWatch { return hubClient(t, objects...) }
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	object := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "object", Generation: 1}}
	decision := func(generation int64, clusters ...string) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.Placement().Name,
			UID: "placement", Generation: generation}}
		p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web",
			UID: "object", Generation: 1}
		for _, cluster := range clusters {
			p.Spec.Cells = append(p.Spec.Cells, topology.Cell{Cluster: cluster, Replicas: 1, Sequence: 1})
		}
		return p
	}
	works, refusal, err := planOf(key, "hub", object, decision(2, "east", "south"), additions{})
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
		r := NewReconciler(standing, live, kinds.Workloads(), clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub",
			placement.NewOutcomes())
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

// TestCase14AMemberThatLeavesTakesNoWork: a Work that its member's namespace does not take, because the member leaves,
// is no error and is not tried again and again; the other members get theirs.
func TestCase14AMemberThatLeavesTakesNoWork(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, "web",
		errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	noKind := apierrors.NewNotFound(schema.GroupResource{Group: "work.karmada.io", Resource: "works"}, "")
	for name, tc := range map[string]struct {
		refusal error
		fails   bool
	}{
		"the namespace is being deleted": {terminating, false},
		"the namespace is gone": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"},
			"karmada-es-south"), false},
		"the kind is missing": {noKind, true},
		"something else": {apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, "web",
			errors.New("quota")), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.Placement().Name,
				UID: "placement", Generation: 1, Finalizers: []string{topology.PlacementFinalizer}}}
			p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web",
				UID: "new", Generation: 1}
			p.Spec.Cells = []topology.Cell{{Cluster: "east", Replicas: 1, Sequence: 1},
				{Cluster: "south", Replicas: 1, Sequence: 1}}
			object := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "new", Generation: 1}}
			api := hubClient(t, object, p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop"}})
			refusing := interceptor.NewClient(api, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch,
				o client.Object, opts ...client.CreateOption) error {
				if o.GetNamespace() == key.Work("south").Namespace {
					return tc.refusal
				}
				return c.Create(ctx, o, opts...)
			}})
			r := NewReconciler(refusing, api, kinds.Workloads(), clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub",
				placement.NewOutcomes())
			result, err := r.Reconcile(t.Context(), key)
			if (err != nil) != tc.fails || !tc.fails && result.RequeueAfter != leavingRetry {
				t.Errorf("again after %s, error %v", result.RequeueAfter, err)
			}
			if err := api.Get(t.Context(), key.Work("east"), &work.Work{}); err != nil {
				t.Errorf("the Work of east: %v", err)
			}
		})
	}
}

// TestNothingIsMadeOrDeletedForAPutBackHub lets caches show what a hub knew before it was put back to a backup, and
// asks what becomes of Works: a workload younger than the backup gets none, for that would soon be deleted and the
// agent deletes what runs; and a workload that was recreated after the backup loses none.
func TestNothingIsMadeOrDeletedForAPutBackHub(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	now := metav1.Now()
	object := func(uid types.UID) *apps.CloneSet {
		return &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, Generation: 1}}
	}
	decision := func(of types.UID, change func(*topology.WorkloadPlacement)) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.Placement().Name,
			UID: "placement", Generation: 2, Finalizers: []string{topology.PlacementFinalizer}}}
		p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web",
			UID: of, Generation: 1}
		p.Spec.Cells = []topology.Cell{{Cluster: "east", Replicas: 1, Sequence: 1}}
		if change != nil {
			change(p)
		}
		return p
	}
	deleted := func(p *topology.WorkloadPlacement) { p.DeletionTimestamp = &now }
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop"}}
	order := func() *work.Work {
		works, refusal, err := planOf(key, "hub", object("new"), decision("new", nil), additions{})
		if err != nil || refusal != nil {
			t.Fatal(err, refusal)
		}
		return works[0]
	}
	for _, tc := range []struct {
		name         string
		cached, live []client.Object
		// stands: there is a Work afterwards, without a deletion timestamp.
		stands bool
	}{
		{"as it is", []client.Object{object("new"), decision("new", nil)},
			[]client.Object{object("new"), decision("new", nil)}, true},
		{"neither workload nor decision is there any more", []client.Object{object("new"), decision("new", nil)}, nil, false},
		{"the workload is gone", []client.Object{object("new"), decision("new", nil)}, []client.Object{decision("new", nil)},
			false},
		{"another workload of that name", []client.Object{object("new"), decision("new", nil)},
			[]client.Object{object("old"), decision("new", nil)}, false},
		{"a decision of the same generation that says another thing", []client.Object{object("new"), decision("new", nil)},
			[]client.Object{object("new"), decision("new", func(p *topology.WorkloadPlacement) { p.Spec.Cells[0].Cluster = "west" })}, false},
		{"deleted after the backup", []client.Object{decision("new", deleted), order()},
			[]client.Object{namespace, object("new"), decision("new", nil)}, true},
		{"recreated after the backup", []client.Object{object("newer"), decision("new", deleted), order()},
			[]client.Object{namespace, object("new"), decision("new", deleted)}, true},
		{"deleted for good", []client.Object{decision("new", deleted), order()},
			[]client.Object{namespace, decision("new", deleted)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cached := hubClient(t, tc.cached...)
			r := NewReconciler(cached, hubClient(t, tc.live...), kinds.Workloads(),
				clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub", placement.NewOutcomes())
			if _, err := r.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			w := &work.Work{}
			err := cached.Get(t.Context(), key.Work("east"), w)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if stands := err == nil && w.DeletionTimestamp == nil; stands != tc.stands {
				t.Errorf("the Work stands: %t", stands)
			}
		})
	}
}

// TestNoCopyIsMadeForADecisionThatIsGone is the same for what goes along with a workload.
func TestNoCopyIsMadeForADecisionThatIsGone(t *testing.T) {
	key := wire.Key{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: "settings"},
		Data: map[string]string{"a": "b"}}
	decision := func(clusters ...string) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.cloneset",
			UID: "placement", Generation: 2}}
		p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web",
			UID: "object", Generation: 1}
		p.Spec.Dependencies = []topology.Dependency{{DependencyReference: topology.DependencyReference{Kind: "ConfigMap",
			Name: "settings"}}}
		for _, cluster := range clusters {
			p.Spec.Cells = append(p.Spec.Cells, topology.Cell{Cluster: cluster, Replicas: 1, Sequence: 1})
		}
		return p
	}
	cached := hubClient(t, decision("east", "west"))
	r := NewCopyReconciler(cached, hubClient(t, settings, decision("east")),
		clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub", placement.NewOutcomes(), store.NewWatching(),
		kinds.All(kinds.HubRunsBuiltIns))
	result, err := r.Reconcile(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]bool{"east": true, "west": false} {
		err := cached.Get(t.Context(), key.Work(member), &work.Work{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if made := err == nil; made != want {
			t.Errorf("a Work for %s: %t", member, made)
		}
	}
	if result.RequeueAfter == 0 {
		t.Error("nobody looks again")
	}
}
