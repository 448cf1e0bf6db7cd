package harness

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// pod is one as an API server shows it; restarts and ready are what its kubelet says.
func pod(uid, image string, restarts int32, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: image, RestartCount: restarts}},
		},
	}
}

// TestHistoryTellsWhatHappened: each thing that specs exclude is seen when it happens.
func TestHistoryTellsWhatHappened(t *testing.T) {
	w := &Watcher{zones: map[string]string{}, pods: map[types.UID]judge.PodView{}}
	w.record("east", pod("a", "web:1", 0, true), false)
	w.record("west", pod("b", "web:1", 0, true), false)
	start := map[types.UID]judge.PodView{"a": w.pods["a"], "b": w.pods["b"]}
	w.events = nil

	updating := pod("a", "web:2", 0, true)
	updating.Status.Conditions = append(updating.Status.Conditions,
		corev1.PodCondition{Type: apps.InPlaceUpdateReady, Status: corev1.ConditionFalse})
	w.record("east", updating, false) // ready, as its kubelet says, but in the middle of an update
	leaving := pod("b", "web:1", 0, true)
	leaving.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
	w.record("west", leaving, false)
	w.record("east", pod("a", "web:2", 1, true), false)
	w.record("west", pod("c", "web:2", 0, false), false)
	w.record("west", leaving, true)
	w.record("west", pod("c", "web:2", 0, true), false)
	w.record("west", pod("c", "web:2", 0, true), true)

	h := judge.History{Start: start, Events: w.events}
	for _, test := range []struct {
		what string
		pods []judge.PodView
		want string
	}{
		{"created, though gone again", h.Created(), "c"},
		{"restarted", h.Restarted(), "a"},
	} {
		if len(test.pods) != 1 || string(test.pods[0].UID) != test.want {
			t.Errorf("%s: %v, want %s", test.what, test.pods, test.want)
		}
	}
	if gone := h.Gone(); len(gone) != 2 {
		t.Errorf("gone: %v, want b and c", gone)
	}
	if most, when := h.Most(judge.Unavailable(2)); most != 2 {
		t.Errorf("at most %d of 2 were unavailable (%s), want 2: one was updating while the other was deleted", most, when)
	}
	if most, _ := h.Most(judge.WithImage("web:2")); most != 2 {
		t.Errorf("at most %d with the new image, want 2", most)
	}
	if most, _ := h.Most(judge.Existing); most != 2 {
		t.Errorf("at most %d existed, want 2", most)
	}
	if left := w.Left("ns"); left != 1 {
		t.Errorf("%d are left, want 1", left)
	}
}

// TestHistoryOfAProcessThatStoodStill: a pod of east is back before one of west goes, and the watch of west is read
// first.
func TestHistoryOfAProcessThatStoodStill(t *testing.T) {
	w := &Watcher{zones: map[string]string{}, pods: map[types.UID]judge.PodView{}}
	w.record("east", pod("a", "web:1", 0, false), false)
	w.record("west", pod("b", "web:1", 0, true), false)
	start := map[types.UID]judge.PodView{"a": w.pods["a"], "b": w.pods["b"]}
	w.events = nil
	w.record("west", pod("b", "web:2", 0, false), false)
	w.record("east", pod("a", "web:2", 1, true), false)
	begin := time.Unix(100, 0)
	for i := range w.events {
		w.events[i].At = begin.Add(time.Duration(i) * time.Millisecond)
	}
	for _, test := range []struct {
		what   string
		stalls []judge.Stall
		most   int
	}{
		{"as it came", nil, 2},
		{"after a standstill", []judge.Stall{{From: begin.Add(-3 * time.Second), To: begin.Add(3 * time.Second)}}, 1},
		{"the standstill was over", []judge.Stall{{From: begin.Add(-3 * time.Second), To: begin}}, 2},
		{"it came later", []judge.Stall{{From: begin.Add(time.Millisecond), To: begin.Add(time.Second)}}, 2},
	} {
		h := judge.History{Start: start, Events: w.events, Stalls: test.stalls}
		if most, when := h.Most(judge.Unavailable(2)); most != test.most {
			t.Errorf("%s: at most %d were unavailable (%s), want %d", test.what, most, when, test.most)
		}
	}
}

func TestTables(t *testing.T) {
	rows := Tables(`NAME        DESIRED   CLUSTERS         AGE
clone/api   9         east:5 south:4   1s
clone/new   3                          2s

NAME      READY
mc/east   True
`)
	for name, want := range map[string]Row{
		"clone/api": {"NAME": "clone/api", "DESIRED": "9", "CLUSTERS": "east:5 south:4", "AGE": "1s"},
		"clone/new": {"NAME": "clone/new", "DESIRED": "3", "CLUSTERS": "", "AGE": "2s"},
		"mc/east":   {"NAME": "mc/east", "READY": "True"},
	} {
		for column, cell := range want {
			if rows[name][column] != cell {
				t.Errorf("%s of %s is %q, want %q", column, name, rows[name][column], cell)
			}
		}
	}
	if len(rows) != 3 {
		t.Errorf("%d rows, want 3: %v", len(rows), rows)
	}
}
