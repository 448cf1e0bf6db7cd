package delivery

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestBudgetGoesToAgentsThatReadIt orders a kind that is sent with a budget. An agent that reads budgets gets one
// beside the user's limits. Every other agent gets the amounts in the spec.
func TestBudgetGoesToAgentsThatReadIt(t *testing.T) {
	cs, p := &apps.CloneSet{}, &topology.WorkloadPlacement{}
	readEarlier(t, "cloneset", cs)
	readEarlier(t, "cloneset-placement", p)
	kind := kindFor(cs)
	kind.Budget, kind.Render = true, func(o kinds.Object, order *kinds.Order) (kinds.Manifest, error) {
		if order.Budget != nil {
			return kinds.Manifest{Spec: o.(*apps.CloneSet).Spec}, nil
		}
		return kindFor(cs).Render(o, order)
	}
	key := wire.KeyOfPlacement(p)
	member := func(name string, status topology.MemberClusterStatus) *topology.MemberCluster {
		m := &topology.MemberCluster{Status: status}
		m.Name = name
		return m
	}
	formats := &topology.OrderFormats{Session: 7, Names: []string{topology.OrderFormatBudget}}
	new := member("east", topology.MemberClusterStatus{Session: 7, OrderFormats: formats})
	old := member("south", topology.MemberClusterStatus{Session: 7})
	// An agent of the version before follows the one that wrote the formats: it has a session of its own.
	downgraded := member("west", topology.MemberClusterStatus{Session: 8, OrderFormats: formats})
	c := hubClient(t, new, old, downgraded, p)
	rules := kinds.Table{key.GroupKind(): kind}
	r := NewReconciler(c, c, rules, clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub", placement.NewOutcomes())
	budgets, err := inputs{r.client}.budgets(t.Context(), kind, p)
	if err != nil {
		t.Fatal(err)
	}
	works, rejection, err := plan(kind, key, "hub", cs, p, additions{budgets: budgets})
	if err != nil || rejection != nil || len(works) != 3 {
		t.Fatalf("%d Works, %v, %v", len(works), rejection, err)
	}
	for i, want := range []struct {
		budget                              string
		partition, maxUnavailable, maxSurge any
	}{
		{`{"updated":2,"unavailable":0,"surge":0,"paused":true}`, int64(3), int64(2), int64(1)},
		{"", int64(1), int64(1), int64(1)},
		{"", int64(1), int64(1), int64(0)},
	} {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(works[i].Spec.Workload.Manifests[0].Raw); err != nil {
			t.Fatal(err)
		}
		rolling, _, err := unstructured.NestedMap(object.Object, "spec", "updateStrategy", "rollingUpdate")
		if err != nil {
			t.Fatal(err)
		}
		if got := object.GetAnnotations()[topology.AnnotationBudget]; got != want.budget {
			t.Errorf("%s: the budget is %q, want %q", works[i].Namespace, got, want.budget)
		}
		if rolling["partition"] != want.partition || rolling["maxUnavailable"] != want.maxUnavailable ||
			rolling["maxSurge"] != want.maxSurge {
			t.Errorf("%s: the limits are %v, want %+v", works[i].Namespace, rolling, want)
		}
	}

	if keys := r.budgeted(t.Context(), old); len(keys) != 1 || keys[0] != key {
		t.Errorf("a member whose agent changes wakes %v", keys)
	}
	if keys := r.budgeted(t.Context(), member("north", topology.MemberClusterStatus{})); len(keys) != 0 {
		t.Errorf("a member without a cell wakes %v", keys)
	}
	for _, test := range []struct {
		what     string
		from, to client.Object
		passes   bool
	}{
		{"an upgraded agent", old, new, true}, {"a downgraded agent", new, downgraded, true},
		{"an agent as before", new, new, false}, {"two agents of the version before", old, downgraded, false},
	} {
		if formatsChanged().Update(event.UpdateEvent{ObjectOld: test.from, ObjectNew: test.to}) != test.passes {
			t.Errorf("%s: passes %t", test.what, !test.passes)
		}
	}
}

// TestKindsOfTheVersionBeforeHaveNoBudget: their orders stay as agents of both versions read them.
func TestKindsOfTheVersionBeforeHaveNoBudget(t *testing.T) {
	cs, p := &apps.CloneSet{}, &topology.WorkloadPlacement{}
	readEarlier(t, "cloneset-placement", p)
	r := NewReconciler(nil, nil, kinds.Workloads(), clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub",
		placement.NewOutcomes())
	if budgets, err := (inputs{r.client}).budgets(t.Context(), kindFor(cs), p); budgets != nil || err != nil {
		t.Errorf("%v, %v", budgets, err)
	}
}
