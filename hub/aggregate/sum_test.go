package aggregate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// example is a CloneSet of 6 on two members, at rest on order 5 with the template of order 4.
func example() (*apps.CloneSet, *Facts) {
	cs := &apps.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Generation: 2},
		Spec: apps.CloneSetSpec{Replicas: new(int32(6)), ProgressDeadlineSeconds: new(int32(600)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	f := &Facts{
		Key: wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}, HubID: "hub",
		Outcome: placement.Outcome{Generation: 2, Federated: metav1.ConditionTrue, Reason: decision.Placed, Decided: true},
		Placement: &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{
			Workload: topology.WorkloadReference{Generation: 2}, Revision: "new", Replicas: 6, Placed: 6, Sequence: 5,
			RevisionSequence: 4,
			Limits:           []topology.SubsetLimits{{Budget: topology.Budget{Updated: 6, Unavailable: 1}}},
			Cells:            []topology.Cell{{Cluster: "east", Replicas: 4, Sequence: 5}, {Cluster: "west", Replicas: 2, Sequence: 4}},
		}},
		Works: map[string]*work.Work{"east": report(5, 4, 4), "west": report(4, 2, 2)}, NotReady: map[string]bool{},
	}
	f.observe(cs)
	return cs, f
}

func report(sequence int64, total, updated int32) *work.Work {
	w := &work.Work{}
	w.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionTrue,
		Reason: work.ReasonApplied}}
	w.Status.Report = &work.Report{HubID: "hub", Sequence: sequence, InUse: []work.SubsetUse{{
		Desired: total, Total: total, Ready: total, Available: total, Updated: updated, UpdatedReady: updated,
		UpdatedAvailable: updated,
	}}}
	return w
}

func TestCloneSetStatus(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*apps.CloneSet, *Facts)
		replicas int32
		updated  int32
		ready    corev1.ConditionStatus
		reason   string
		stalled  bool
		current  string
	}{
		{"at rest", func(*apps.CloneSet, *Facts) {}, 6, 6, "True", "AllAvailable", false, "web-new"},
		{"a member has not answered the new template: its updated pods do not count", func(cs *apps.CloneSet, f *Facts) {
			cs.Status.CurrentRevision = "web-old"
			f.Works["west"] = report(3, 2, 2)
		}, 6, 4, "False", "Updating", false, "web-old"},
		{"pods of a member have not come yet", func(_ *apps.CloneSet, f *Facts) { f.Works["east"] = report(5, 1, 1) }, 3, 3,
			"False", "Scaling", false, "web-new"},
		{"a Work is missing", func(_ *apps.CloneSet, f *Facts) { delete(f.Works, "west") }, 4, 4, "False", "Scaling", false,
			"web-new"},
		{"the report of another hub", func(_ *apps.CloneSet, f *Facts) { f.Works["west"].Status.Report.HubID = "other" }, 4,
			4, "False", "Scaling", false, "web-new"},
		{"the sum is right by chance", func(_ *apps.CloneSet, f *Facts) {
			f.Works["east"], f.Works["west"] = report(4, 3, 3), report(4, 3, 3)
		}, 6, 6, "False", "MembersNotAnswered", false, "web-new"},
		{"a member has not answered an order that asks for nothing but another break", func(_ *apps.CloneSet, f *Facts) {
			f.Placement.Spec.Sequence, f.Placement.Spec.Cells[0].Sequence, f.Placement.Spec.Cells[0].TaskSequence = 6, 6, 5
		}, 6, 6, "True", "AllAvailable", false, "web-new"},
		{"nor one that asks for more", func(_ *apps.CloneSet, f *Facts) {
			f.Placement.Spec.Sequence, f.Placement.Spec.Cells[0].Sequence, f.Placement.Spec.Cells[0].TaskSequence = 6, 6, 6
		}, 6, 6, "False", "MembersNotAnswered", false, "web-new"},
		{"a member still has pods of a subset that is gone", func(_ *apps.CloneSet, f *Facts) {
			use := &f.Works["west"].Status.Report.InUse
			*use = append(*use, work.SubsetUse{Subset: "gone", Total: 1})
		}, 6, 6, "False", "MembersNotAnswered", false, "web-new"},
		{"a member is not Ready", func(_ *apps.CloneSet, f *Facts) { f.NotReady["west"] = true }, 6, 6, "Unknown",
			"MembersNotReady", false, "web-new"},
		{"a foreign object stands in the way", func(_ *apps.CloneSet, f *Facts) {
			f.Works["west"].Status.Conditions[0] = metav1.Condition{Type: work.ConditionApplied, Status: metav1.ConditionFalse,
				Reason: work.ReasonConflict, Message: "not ours"}
		}, 6, 6, "False", "Conflict", true, "web-new"},
		{"frozen", func(_ *apps.CloneSet, f *Facts) {
			f.Outcome = placement.Outcome{Generation: 2, Federated: metav1.ConditionFalse, Reason: decision.PolicyMissing,
				Stalled: true}
		}, 6, 6, "False", "PolicyMissing", true, "web-new"},
		{"too large", func(_ *apps.CloneSet, f *Facts) { f.Undelivered = &kinds.Rejection{Reason: "TooLarge"} }, 6, 6,
			"False", "TooLarge", true, "web-new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, f := example()
			tt.change(cs, f)
			sum := Summarise(f)
			got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
			if got.Replicas != tt.replicas || got.UpdatedReplicas != tt.updated || got.ObservedGeneration != 2 ||
				got.CurrentRevision != tt.current || got.LabelSelector != "app=web" {
				t.Errorf("status %+v", got)
			}
			for _, c := range got.Conditions {
				switch {
				case string(c.Type) == apps.ConditionReady && (c.Status != tt.ready || c.Reason != tt.reason),
					string(c.Type) == apps.ConditionStalled && (c.Status == "True") != tt.stalled:
					t.Errorf("condition %+v", c)
				}
				if c.LastUpdateTime.IsZero() {
					t.Errorf("condition %s has no update time", c.Type)
				}
			}
			cs.Status = got
			if again := cloneSetStatus(cs, f, &sum, time.Unix(200, 0)); !sameStatus(again, got) {
				t.Errorf("the same facts give another status:\n%+v\n%+v", got, again)
			}
		})
	}
}

// Of a member that is lost one subset was replaced, and another has nowhere else to go: what was replaced counts no
// more.
func TestWhatIsReplacedCountsNoMore(t *testing.T) {
	_, f := example()
	uses := func(w *work.Work, of map[string]int32) *work.Work {
		w.Status.Report.InUse = nil
		for subset, n := range of {
			w.Status.Report.InUse = append(w.Status.Report.InUse,
				work.SubsetUse{Subset: subset, Desired: n, Total: n, Ready: n, Available: n, Updated: n, UpdatedReady: n,
					UpdatedAvailable: n})
		}
		return w
	}
	f.Placement.Spec.Limits = []topology.SubsetLimits{
		{Subset: "b", Budget: topology.Budget{Updated: 2}}, {Subset: "c", Budget: topology.Budget{Updated: 2}},
	}
	f.Placement.Spec.Cells = []topology.Cell{
		{Cluster: "east", Subset: "b", Replicas: 2, Sequence: 5},
		{Cluster: "west", Subset: "b", Replicas: 1, Replaced: 1, Sequence: 4},
		{Cluster: "west", Subset: "c", Replicas: 2, Sequence: 4},
	}
	f.Works["east"] = uses(report(5, 0, 0), map[string]int32{"b": 2})
	f.Works["west"] = uses(report(4, 0, 0), map[string]int32{"b": 1, "c": 2})
	for _, tt := range []struct {
		name     string
		lost     bool
		replicas int32
	}{{"while it is not heard of", true, 4}, {"when it is back, until its pods are gone", false, 5}} {
		t.Run(tt.name, func(t *testing.T) {
			f.NotReady["west"] = tt.lost
			sum := Summarise(f)
			if sum.Whole.Replicas != tt.replicas || sum.Whole.Ready != tt.replicas || sum.Whole.Desired != 4 {
				t.Errorf("%+v, want %d pods of 4", sum.Whole, tt.replicas)
			}
		})
	}
}

// A member that refuses a change keeps its pods of before, which are all well: what it says must be seen all the same.
func TestRefusedChangeIsTold(t *testing.T) {
	cs, f := example()
	f.Works["west"].Status.Conditions[0] = metav1.Condition{Type: work.ConditionApplied, Status: metav1.ConditionFalse,
		Reason: work.ReasonApplyFailed, Message: "refused: no such field"}
	f.Works["west"].Status.Report.Sequence = 3
	f.Placement.Spec.RevisionSequence = 3
	sum := Summarise(f)
	const said = "members have not all carried out what the placement asks: west: refused: no such field"
	got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
	if ready, reconciling := shown(got, "Ready"), shown(got,
		"Reconciling"); ready != "False MembersNotAnswered: 6 of 6 pods are available; "+said ||
		reconciling != "True MembersNotAnswered: "+said {
		t.Errorf("Ready %q, Reconciling %q", ready, reconciling)
	}
}

// TestCase2OverwrittenIsTold: the pods of a member in which another writer changes the object do not count as updated,
// and the workload says who writes what.
func TestCase2OverwrittenIsTold(t *testing.T) {
	cs, f := example()
	sum := Summarise(f)
	if sum.Whole.Updated != 6 || !sum.Done() {
		t.Fatalf("%+v, want 6 updated pods at rest", sum.Whole)
	}
	f.Works["west"].Status.Conditions[0] = metav1.Condition{
		Type: work.ConditionApplied, Status: metav1.ConditionFalse, Reason: work.ReasonOverwritten, Message: "written by x",
	}
	sum = Summarise(f)
	if sum.Whole.Updated != 4 || sum.Whole.UpdatedAvailable != 4 || sum.Whole.Available != 6 || sum.Done() {
		t.Errorf("%+v, done %t: want 4 updated of 6 available pods", sum.Whole, sum.Done())
	}
	got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
	if ready := shown(got, "Ready"); !strings.Contains(ready, "west: written by x") {
		t.Errorf("Ready %q does not name the member and the writer", ready)
	}
}

func sameStatus(a, b apps.CloneSetStatus) bool {
	cs, other := &apps.CloneSet{Status: a}, &apps.CloneSet{Status: b}
	if len(a.Conditions) != len(b.Conditions) {
		return false
	}
	for i := range cs.Status.Conditions {
		if cs.Status.Conditions[i] != other.Status.Conditions[i] {
			return false
		}
	}
	return a.Replicas == b.Replicas && a.UpdateRevision == b.UpdateRevision
}

func TestStaleMembersAreNamed(t *testing.T) {
	_, f := example()
	f.NotReady["west"], f.NotReady["east"] = true, true
	sum := Summarise(f)
	if m := sum.staleMessage(); !strings.HasPrefix(m, "members east, west not ready") {
		t.Errorf("message %q", m)
	}
}

func TestPace(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	p, key := newPace(clk), wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	step := func(d time.Duration) { clk.SetTime(clk.Now().Add(d)) }
	is := func(want time.Duration, order int64, done bool, why string) {
		t.Helper()
		if got := p.wait(key, order, done); got != want {
			t.Errorf("%s: wait %s, want %s", why, got, want)
		}
	}
	is(settle, 1, false, "work in progress waits after a new order")
	is(0, 1, true, "what is done is told at once")
	p.written(key, true)
	is(interval, 1, true, "just written")
	step(interval)
	is(0, 1, true, "a write each interval")
	p.written(key, true)
	step(time.Second)
	is(gatherDelay, 1, false, "a report of one member waits for those of the others")
	step(gatherDelay)
	is(0, 1, false, "but not for long")
	p.written(key, false)
	step(quietTime)
	is(0, 1, false, "news from rest are told at once")
	is(settle, 2, false, "the next order waits again")
	step(settle)
	is(0, 2, false, "but not for ever")
	is(0, 0, false, "nothing is placed: nobody answers")
	p.written(key, false)
	is(finalInterval, 3, true, "that an order is done waits for next to nothing")
	step(finalInterval)
	is(0, 3, true, "and is told then")
	p.written(key, true)
	is(interval, 3, true, "but once for each order: a pod that comes and goes makes no more writes than before")
}

// Others stand in for a part of what a lost member has: of that it counts no more than it is to keep, whatever it
// reported last.
func TestWhatIsReplacedInPartCountsInPart(t *testing.T) {
	for name, tt := range map[string]struct {
		lost                   bool
		west                   int32
		replicas, ready, whole int32
	}{
		"while it is not heard of":                  {true, 3, 6, 6, 6},
		"with fewer pods than it is to keep":        {true, 1, 5, 5, 6},
		"when it is back, until its pods are gone":  {false, 3, 7, 7, 6},
		"when it is back, and others are not there": {false, 2, 6, 6, 6},
	} {
		_, f := example()
		f.Placement.Spec.Cells = []topology.Cell{{Cluster: "east", Replicas: 4, Sequence: 5},
			{Cluster: "west", Replicas: 3, Replaced: 1, Sequence: 4}}
		f.Works["west"], f.NotReady["west"] = report(4, tt.west, tt.west), tt.lost
		sum := Summarise(f)
		if w := sum.Whole; w.Replicas != tt.replicas || w.Ready != tt.ready || w.Available != tt.ready ||
			w.UpdatedAvailable != tt.ready || w.Desired != tt.whole {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestPodsOfFencedMembersDoNotCount: what an unreachable member reported before it was fenced runs elsewhere.
func TestPodsOfFencedMembersDoNotCount(t *testing.T) {
	for kept, want := range map[int32]int32{0: 4, 1: 5} {
		_, f := example()
		f.Placement.Spec.Cells = []topology.Cell{
			{Cluster: "east", Replicas: 4, Sequence: 5},
			{Cluster: "west", Replicas: kept, Sequence: 6, Reason: topology.Reason{Code: decision.CellFenced}},
		}
		f.Works["west"], f.NotReady["west"] = report(4, 3, 3), true
		if w := Summarise(f).Whole; w.Replicas != want || w.Available != want || w.Desired != want {
			t.Errorf("it keeps %d: %+v, want %d pods", kept, w, want)
		}
	}
}
