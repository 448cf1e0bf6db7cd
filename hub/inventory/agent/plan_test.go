package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/contact"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
)

func member(name string, change ...func(*topology.MemberCluster)) *topology.MemberCluster {
	m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topology.MemberClusterSpec{Accepted: true}}
	m.Status.ClusterID = "id-" + name
	for _, c := range change {
		c(m)
	}
	return m
}

func TestAccepted(t *testing.T) {
	tests := []struct {
		name   string
		facts  facts
		reason string
		text   string
		pin    string
	}{
		{"nobody accepted it", facts{member: member("east", func(m *topology.MemberCluster) { m.Spec.Accepted = false })},
			topology.ReasonNotAccepted, "flotilla accept east", ""},
		{"somebody took it out", facts{member: member("east",
			func(m *topology.MemberCluster) { m.Spec.Accepted, m.Spec.ClusterID = false, "id-east" })},
			topology.ReasonNotAccepted, "set spec.accepted to true", ""},
		{"its agent never came", facts{member: member("east", func(m *topology.MemberCluster) { m.Status.ClusterID = "" })},
			topology.ReasonNeverConnected, "east", ""},
		{"it takes part", facts{member: member("east")}, topology.ReasonAccepted, "", "id-east"},
		{"pinned already", facts{member: member("east", func(m *topology.MemberCluster) { m.Spec.ClusterID = "id-east" })},
			topology.ReasonAccepted, "", ""},
		{"the hub itself", facts{member: member("east", func(m *topology.MemberCluster) { m.Status.ClusterID = "hub" })},
			topology.ReasonHubIsMember, "id hub", ""},
		{"a twin", facts{member: member("east"), twin: "west"}, topology.ReasonDuplicateClusterID, "older MemberCluster west",
			""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.hubID = "hub"
			pin, conditions := plan(tt.facts)
			c := meta.FindStatusCondition(conditions, topology.MemberAccepted)
			if c.Reason != tt.reason || !strings.Contains(c.Message, tt.text) || pin != tt.pin ||
				(c.Status == metav1.ConditionTrue) != (tt.reason == topology.ReasonAccepted) {
				t.Errorf("condition %+v, pin %q", c, pin)
			}
		})
	}
}

func TestRefusedClusterIsTold(t *testing.T) {
	m := member("east", func(m *topology.MemberCluster) {
		m.Spec.ClusterID, m.Status.RefusedClusterID = "id-east", "id-thief"
	})
	_, conditions := plan(facts{member: m, hubID: "hub"})
	if c := meta.FindStatusCondition(conditions, topology.MemberIdentity); c == nil ||
		c.Reason != topology.ReasonClusterIDMismatch || !strings.Contains(c.Message, "id-thief") {
		t.Errorf("condition %+v", c)
	}
	if !meta.IsStatusConditionTrue(conditions, topology.MemberAccepted) {
		t.Error("the rightful member lost its acceptance")
	}

	m.Status.Conditions, m.Status.RefusedClusterID = conditions, ""
	_, conditions = plan(facts{member: m, hubID: "hub"})
	if c := meta.FindStatusCondition(conditions, topology.MemberIdentity); c == nil || c.Status != metav1.ConditionTrue ||
		c.Reason != topology.ReasonPinned {
		t.Errorf("after the refusal: %+v", c)
	}
	_, conditions = plan(facts{member: member("west"), hubID: "hub"})
	if c := meta.FindStatusCondition(conditions, topology.MemberIdentity); c != nil {
		t.Errorf("before any refusal: %+v", c)
	}
}

func TestYoungerTwinIsRefused(t *testing.T) {
	same := func(age time.Duration, pinned string) func(*topology.MemberCluster) {
		return func(m *topology.MemberCluster) {
			m.Status.ClusterID, m.Spec.ClusterID = "one", pinned
			m.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0).Add(-age))
		}
	}
	old, young := member("old", same(time.Hour, "")), member("young", same(time.Minute, ""))
	if olderTwin(old, []topology.MemberCluster{*old, *young}) != "" ||
		olderTwin(young, []topology.MemberCluster{*old, *young}) != "old" {
		t.Error("the older one is to stay")
	}
	pinned := member("young", same(time.Minute, "one"))
	if olderTwin(old, []topology.MemberCluster{*old, *pinned}) != "young" ||
		olderTwin(pinned, []topology.MemberCluster{*old, *pinned}) != "" {
		t.Error("the pinned one is to stay")
	}
	waiting := member("old", same(time.Hour, ""), func(m *topology.MemberCluster) { m.Spec.Accepted = false })
	if olderTwin(young, []topology.MemberCluster{*waiting, *young}) != "" {
		t.Error("one that nobody accepted takes nothing away")
	}
}

// world is a hub with one member and a clock that the test moves.
type world struct {
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	r      *Reconciler
	listed int // MemberClusters that were looked at beside the one that a reconcile is about
	// contact is since when the hub is in contact with its API server, live what reads past the cache; the client where
	// nil.
	contact time.Time
	live    client.Reader
}

// fakeIndexer gives the hub's indexes to a fake client.
type fakeIndexer struct{ builder *fake.ClientBuilder }

func (f fakeIndexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	f.builder.WithIndex(o, field, extract)
	return nil
}

func (w *world) heard() time.Time { return w.contact }

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, topology.AddToScheme,
		work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Unix(5000, 0))}
	count := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
		opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if members, ok := list.(*topology.MemberClusterList); ok {
			w.listed += len(members.Items)
		}
		return err
	}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(member("east")).WithStatusSubresource(&topology.MemberCluster{}).WithInterceptorFuncs(count)
	if err := store.Index(t.Context(), fakeIndexer{builder}); err != nil {
		t.Fatal(err)
	}
	w.client = builder.Build()
	w.restart()
	return w
}

func (w *world) restart() {
	live := w.live
	if live == nil {
		live = w.client
	}
	w.r = NewReconciler(w.client, live, kinds.Workloads(), w.clock, w.heard, "hub")
}

// renew sets the Lease's renewTime to a time of the member's own clock.
func (w *world) renew(at int64) {
	w.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "east",
		CreationTimestamp: metav1.NewTime(w.clock.Now())}}
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(lease), lease)
	lease.Spec.RenewTime, lease.Spec.HolderIdentity = new(metav1.NewMicroTime(time.Unix(at, 0))), new("id-east")
	if err != nil {
		err = w.client.Create(w.t.Context(), lease)
	} else {
		err = w.client.Update(w.t.Context(), lease)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// is reconciles and checks the reason of Ready, and whether that wrote.
func (w *world) is(reason string, wrote bool, why string) {
	w.t.Helper()
	before := w.get().ResourceVersion
	if _, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "east"}}); err != nil {
		w.t.Fatal(err)
	}
	m := w.get()
	if c := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady); c == nil || c.Reason != reason {
		w.t.Errorf("%s: Ready is %+v, want %s", why, c, reason)
	}
	if (m.ResourceVersion != before) != wrote {
		w.t.Errorf("%s: wrote %t, want %t", why, m.ResourceVersion != before, wrote)
	}
}

func (w *world) get() *topology.MemberCluster {
	w.t.Helper()
	m := &topology.MemberCluster{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "east"}, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

func TestReadyGoesByTheHubsOwnClock(t *testing.T) {
	w := newWorld(t)
	w.is(topology.ReasonNeverConnected, true, "before the first Lease")
	if w.get().Spec.ClusterID != "id-east" {
		t.Error("the id is not pinned")
	}
	w.is(topology.ReasonNeverConnected, false, "still")
	w.renew(9) // the member's clock is far behind
	w.is(topology.ReasonLeaseFresh, true, "a Lease")
	w.clock.Step(39 * time.Second)
	w.is(topology.ReasonLeaseFresh, false, "39 s")
	w.renew(19)
	w.is(topology.ReasonLeaseFresh, false, "renewed")
	w.clock.Step(40 * time.Second)
	w.is(topology.ReasonLeaseExpired, true, "40 s without a change")
	w.restart()
	w.is(topology.ReasonLeaseExpired, false, "a restarted hub knows nothing better")
	w.renew(29)
	w.is(topology.ReasonLeaseFresh, true, "renewed again")
	w.restart()
	w.clock.Step(time.Hour)
	w.is(topology.ReasonLeaseFresh, false, "a restarted hub waits before it judges")
	w.clock.Step(40 * time.Second)
	w.is(topology.ReasonLeaseExpired, true, "and then judges")
}

// TestALeaseOfAFormerMembership holds that a cluster that joins again under its name is not Ready by the Lease that it
// renewed before it left, whether or not this hub saw it leave.
func TestALeaseOfAFormerMembership(t *testing.T) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprintf("the hub saw it leave: %t", seen), func(t *testing.T) {
			w := newWorld(t)
			w.renew(9)
			w.is(topology.ReasonLeaseFresh, true, "the first membership")
			w.renew(19)
			w.is(topology.ReasonLeaseFresh, false, "renewed")
			if err := w.client.Delete(t.Context(), w.get()); err != nil {
				t.Fatal(err)
			}
			if seen {
				if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "east"}}); err != nil {
					t.Fatal(err)
				}
			}
			again := member("east", func(m *topology.MemberCluster) {
				m.UID, m.CreationTimestamp = "another", metav1.NewTime(w.clock.Now().Add(time.Second))
			})
			if err := w.client.Create(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			w.is(topology.ReasonNeverConnected, true, "it joined again, and its agent has not come")
			w.restart()
			w.clock.Step(time.Hour)
			w.is(topology.ReasonNeverConnected, false, "a restarted hub, an hour later")
			w.clock.Step(time.Hour)
			w.is(topology.ReasonNeverConnected, false, "and later still")
			w.renew(29)
			w.is(topology.ReasonLeaseFresh, true, "its agent renews the Lease that stayed")
			w.restart()
			w.is(topology.ReasonLeaseFresh, false, "a restarted hub goes by what was known")
		})
	}
}

// TestRenewalLooksAtOneMember holds that what a renewal costs does not grow with the number of members.
func TestRenewalLooksAtOneMember(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		other := member(fmt.Sprintf("other-%d", i))
		other.Status.ClusterID = "id-" + other.Name
		if err := w.client.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	w.renew(9)
	w.is(topology.ReasonLeaseFresh, true, "the first Lease")
	w.listed = 0
	w.renew(19)
	w.is(topology.ReasonLeaseFresh, false, "renewed")
	if w.listed > 1 {
		t.Errorf("a renewal looked at %d MemberClusters", w.listed)
	}
	twin := member("twin")
	twin.Status.ClusterID = "id-east"
	w.listed = 0
	if requests := sameCluster(t.Context(), w.client, twin); len(requests) != 2 || requests[1].Name != "east" ||
		w.listed > 1 {
		t.Errorf("the same cluster: %v of %d", requests, w.listed)
	}
}

func TestAHubThatWasCutOffListensBeforeItJudges(t *testing.T) {
	w := newWorld(t)
	w.renew(9)
	w.is(topology.ReasonLeaseFresh, true, "a Lease")
	w.clock.Step(time.Hour)
	w.contact = w.clock.Now()
	w.is(topology.ReasonLeaseFresh, false, "the API server was away for an hour")
	w.clock.Step(39 * time.Second)
	w.is(topology.ReasonLeaseFresh, false, "39 s after it came back")
	w.clock.Step(time.Second)
	w.is(topology.ReasonLeaseExpired, true, "40 s")
}

// TestNews: a renewal is news from when the hub saw the one before it, and was not cut off since: then it may be an old
// one.
func TestNews(t *testing.T) {
	w := newWorld(t) // the clocks of both go alike
	w.r.news = contact.NewNews()
	news := func(want time.Time, why string) {
		t.Helper()
		if got := w.r.news.Of("east"); !got.Equal(want) {
			t.Errorf("%s: heard last at %s, want %s", why, got, want)
		}
	}
	w.renew(5000)
	w.is(topology.ReasonLeaseFresh, true, "a Lease")
	news(time.Time{}, "the first one that is seen may be old")
	w.clock.Step(10 * time.Second)
	w.renew(5010)
	w.is(topology.ReasonLeaseFresh, false, "renewed")
	heard := w.clock.Now()
	news(heard, "renewed")
	w.clock.Step(time.Second)
	w.is(topology.ReasonLeaseFresh, false, "the same")
	news(heard, "the same renewal is no other news")
	w.clock.Step(time.Minute)
	w.contact = w.clock.Now()
	w.renew(5071)
	w.is(topology.ReasonLeaseFresh, false, "the hub was cut off")
	news(heard, "renewed at some time while the hub was cut off")
	w.clock.Step(10 * time.Second)
	w.renew(5081)
	w.is(topology.ReasonLeaseFresh, false, "renewed")
	news(w.clock.Now(), "renewed since")
}

// freshLease answers each Get with a Lease that is renewed, whatever the cache holds.
type freshLease struct{ client.Reader }

func (freshLease) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if lease, ok := o.(*coordinationv1.Lease); ok {
		lease.Spec.RenewTime, lease.Spec.HolderIdentity = new(metav1.NewMicroTime(time.Unix(77, 0))), new("id-east")
	}
	return nil
}

func TestALeaseThatTheCacheLacksIsAsked(t *testing.T) {
	w := newWorld(t)
	w.live = freshLease{w.client}
	w.restart()
	w.renew(9)
	w.is(topology.ReasonLeaseFresh, true, "a Lease")
	w.clock.Step(40 * time.Second)
	w.is(topology.ReasonLeaseFresh, false, "the API server has a renewal that the cache lacks")
	w.clock.Step(40 * time.Second)
	w.is(topology.ReasonLeaseExpired, true, "no other one came")
}

func TestFailoverHeldIsTold(t *testing.T) {
	m := member("east")
	_, conditions := plan(facts{member: m})
	if c := meta.FindStatusCondition(conditions, topology.MemberFailoverHeld); c != nil {
		t.Errorf("before any failure: %+v", c)
	}
	_, conditions = plan(facts{member: m, together: 2})
	if c := meta.FindStatusCondition(conditions, topology.MemberFailoverHeld); c == nil ||
		c.Status != metav1.ConditionTrue ||
		c.Reason != topology.ReasonMassFailure || !strings.Contains(c.Message, "flotilla fence east --confirm") {
		t.Errorf("while it fails with others: %+v", c)
	}
	m.Status.Conditions = conditions
	_, conditions = plan(facts{member: m})
	if c := meta.FindStatusCondition(conditions, topology.MemberFailoverHeld); c == nil ||
		c.Status != metav1.ConditionFalse || c.Reason != topology.ReasonNoMassFailure {
		t.Errorf("afterwards: %+v", c)
	}
}

func TestAnotherHolderIsNoSignOfLife(t *testing.T) {
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("id-thief")}}
	if heldBy(lease, "id-east") || !heldBy(lease, "id-thief") || !heldBy(lease, "") {
		t.Error("the Lease is the holder's")
	}
}

// kubectl wait --for=condition=Ready compares the generation that a condition names with the object's, which the answer
// to a session raises.
func TestConditionsNameNoGeneration(t *testing.T) {
	m := member("east", func(m *topology.MemberCluster) { m.Generation, m.Status.RefusedClusterID = 7, "id-thief" })
	_, conditions := plan(facts{member: m, hubID: "hub", together: 2})
	m.Status.Conditions = []metav1.Condition{{
		Type: topology.MemberReady, Status: metav1.ConditionFalse, Reason: "NeverConnected", ObservedGeneration: 3,
		LastTransitionTime: metav1.NewTime(time.Unix(1, 0)),
	}}
	m.Status.Conditions[0].Message = meta.FindStatusCondition(conditions, topology.MemberReady).Message
	scheme := runtime.NewScheme()
	if err := topology.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithStatusSubresource(m).Build()
	r := &Reconciler{client: c, clock: clocktesting.NewFakeClock(time.Unix(100, 0))}
	if err := r.report(t.Context(), m, conditions); err != nil {
		t.Fatal(err)
	}
	got := &topology.MemberCluster{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), got); err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Conditions) != len(conditions) {
		t.Errorf("%d conditions were written of %d", len(got.Status.Conditions), len(conditions))
	}
	for _, c := range got.Status.Conditions {
		if c.ObservedGeneration != 0 {
			t.Errorf("condition %s names generation %d", c.Type, c.ObservedGeneration)
		}
	}
}
