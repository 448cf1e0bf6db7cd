package aggregate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestStatusOfOthersWakes: a status that somebody else wrote onto a user's object is summed again, and the hub's own is
// not.
func TestStatusOfOthersWakes(t *testing.T) {
	p := statusEdited(kinds.Workloads()[apps.CloneSetKind.GroupKind()], func(key wire.Key, version string) bool {
		return key == wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"} && version == "7"
	})
	object := func(version string, replicas int32) *apps.CloneSet {
		cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: version}}
		cs.Status.Replicas = replicas
		return cs
	}
	for name, tc := range map[string]struct {
		after *apps.CloneSet
		wakes bool
	}{
		"ours":           {object("7", 3), false},
		"somebody's":     {object("8", 3), true},
		"the same again": {object("8", 2), false},
	} {
		if wakes := p.Update(event.UpdateEvent{ObjectOld: object("6", 2), ObjectNew: tc.after}); wakes != tc.wakes {
			t.Errorf("%s: wakes %t", name, wakes)
		}
	}
}

// TestWithdrawnIsAtRest: a workload that is out of all members is not on its way, and one whose orders are still there
// is.
func TestWithdrawnIsAtRest(t *testing.T) {
	f := &Facts{Outcome: placement.Outcome{Federated: metav1.ConditionFalse, Reason: decision.Withdrawn,
		Message: "it is withdrawn"}}
	for _, tc := range []struct {
		withdrawn                       bool
		ready, reconciling, progressing string
	}{
		{true, "False Withdrawn: it is withdrawn", "False Withdrawn: it is withdrawn",
			"True CloneSetPaused: CloneSet is paused"},
		{false, "False Withdrawn: it is withdrawn", "True Withdrawn: it is withdrawn",
			"True CloneSetUpdated: CloneSet is progressing"},
	} {
		f.Withdrawn = tc.withdrawn
		s := Summarise(f)
		cs := &apps.CloneSet{}
		cs.Spec.Replicas, cs.Spec.ProgressDeadlineSeconds = new(int32(3)), new(int32(600))
		status := cloneSetStatus(cs, f, &s, time.Unix(0, 0))
		for condition, want := range map[string]string{"Ready": tc.ready, "Reconciling": tc.reconciling,
			"Progressing": tc.progressing} {
			if got := shown(status, condition); got != want {
				t.Errorf("withdrawn %t: %s is %q, want %q", tc.withdrawn, condition, got, want)
			}
		}
	}
}
