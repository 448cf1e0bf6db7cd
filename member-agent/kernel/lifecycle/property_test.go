package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

type intent int

const (
	wantKeep intent = iota
	wantDelete
	wantUpdate
)

// world is one pod, its workload's hooks, and what was done to it.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	pod     *corev1.Pod
	l       *v1beta1.Lifecycle
	facts   lifecycle.Facts
	others  []string
	history []string
	// asked tells that a pass of this intent found the hook held, and that its answer was written.
	asked bool
	gone  bool
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(w.history, "\n"))
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// pass does what a controller does with the intent; some of its writes are lost if losses is set. It tells whether the
// intent is reached.
func (w *world) pass(i intent, losses bool) bool {
	var step lifecycle.Step
	var hook *v1beta1.LifecycleHook
	waitsIn := preparingDelete
	l := w.l
	if l == nil {
		l = &v1beta1.Lifecycle{}
	}
	switch i {
	case wantDelete:
		step, hook = lifecycle.Delete(w.pod, w.l), l.PreDelete
	case wantUpdate:
		step, hook, waitsIn = lifecycle.Update(w.pod, w.l), l.InPlaceUpdate, preparingUpdate
	default:
		step = lifecycle.Keep(w.pod, w.l, w.facts)
	}
	w.note("pass %d in %q with %v: %+v", i, lifecycle.State(w.pod), w.pod.Finalizers, step)
	if step.Proceed && lifecycle.Blocks(hook, w.pod) {
		w.fail("proceeds though the hook blocks")
	}
	if step.Proceed && w.asked && lifecycle.State(w.pod) != waitsIn {
		w.fail("proceeds in %q without having waited in %s", lifecycle.State(w.pod), waitsIn)
	}
	if step.Proceed == (step.Wait != "") && i != wantKeep {
		w.fail("an intent either proceeds or says what it waits for")
	}
	metadata, status, err := lifecycle.Patch(w.pod, step, now)
	if err != nil {
		w.fail("patch: %v", err)
	}
	if !losses || w.rng.IntN(3) > 0 {
		w.pod = applied(w.t, w.pod, status)
		w.checkOthers()
	}
	if losses && w.rng.IntN(3) == 0 {
		w.note("the write of the state is lost")
		return false
	}
	w.pod = applied(w.t, w.pod, metadata)
	w.asked = w.asked || lifecycle.Blocks(hook, w.pod)
	switch {
	case !step.Proceed:
		return i == wantKeep && step == lifecycle.Step{}
	case i == wantDelete:
		w.gone = true
	default:
		w.facts.InPlaceDone = false
	}
	return true
}

// checkOthers makes sure that nobody else's entry was lost or changed.
func (w *world) checkOthers() {
	c := condition(w.pod)
	for _, other := range w.others {
		if !strings.Contains(c.Message, other) {
			w.fail("entry %s is lost from %q", other, c.Message)
		}
	}
	if c.Status == corev1.ConditionTrue && len(w.others) > 0 {
		w.fail("True though %v do not want it", w.others)
	}
}

// set puts a hook's label or finalizer on the pod or takes it off.
func (w *world) set(name string, label, on bool) {
	w.note("outside: %s, label %v, on %v", name, label, on)
	finalizer := "example.io/" + name
	w.pod.Finalizers = slices.DeleteFunc(w.pod.Finalizers, func(f string) bool { return !label && f == finalizer })
	switch {
	case label && on:
		w.pod.Labels[name] = "held"
	case label:
		delete(w.pod.Labels, name)
	case on:
		w.pod.Finalizers = append(w.pod.Finalizers, finalizer)
	}
}

// disturb does something at random that the outside may do.
func (w *world) disturb() {
	yes := w.rng.IntN(2) == 0
	switch w.rng.IntN(8) {
	case 0:
		w.l = nil
		w.note("the hooks are removed from the spec")
	case 1:
		w.l = w.hooks()
		w.note("the hooks are changed")
	case 2:
		w.facts.InPlaceDone, w.facts.Scheduled = true, true
	case 3:
		w.others = nil
		if yes && condition(w.pod).Type != "" {
			w.others = []string{odd, foreign}
		}
		w.writeOthers()
	default:
		w.set([]string{"delete", "update", "normal"}[w.rng.IntN(3)], w.rng.IntN(2) == 0, yes)
	}
}

// writeOthers replaces the entries of the other writers, and keeps ours.
func (w *world) writeOthers() {
	for i := range w.pod.Status.Conditions {
		c := &w.pod.Status.Conditions[i]
		if c.Type != lifecycle.KruisePodReady {
			continue
		}
		list := slices.Clone(w.others)
		for _, ours := range []string{ourDelete, ourUpdate} {
			if strings.Contains(c.Message, ours) {
				list = append(list, ours)
			}
		}
		c.Status, c.Message = corev1.ConditionTrue, "[]"
		if len(list) > 0 {
			c.Status, c.Message = corev1.ConditionFalse, "["+strings.Join(list, ",")+"]"
		}
	}
	w.note("others: %v", w.others)
}

func (w *world) hooks() *v1beta1.Lifecycle {
	l := &v1beta1.Lifecycle{}
	pick := func(name string) *v1beta1.LifecycleHook {
		if w.rng.IntN(4) == 0 {
			return nil
		}
		h := hook(name)
		h.MarkPodNotReady = w.rng.IntN(2) == 0
		return h
	}
	l.PreDelete, l.InPlaceUpdate, l.PreNormal = pick("delete"), pick("update"), pick("normal")
	return l
}

// answer lets the outside do its part for the pod's state: one half of a hook at a time, in any order.
func (w *world) answer() {
	name, on := "", false
	switch lifecycle.State(w.pod) {
	case preparingDelete:
		name = "delete"
	case preparingUpdate:
		name = "update"
	case updated:
		name, on = "update", true
	case preparingNormal:
		name, on = "normal", true
	}
	if name != "" {
		w.set(name, w.rng.IntN(2) == 0, on)
	}
	w.facts = lifecycle.Facts{Scheduled: true, InPlaceDone: true}
}

func TestEveryIntentIsReached(t *testing.T) {
	states := []v1beta1.LifecycleState{none, "Dancing", normal, preparingNormal, preparingUpdate, updating, updated,
		preparingDelete}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := &world{t: t, rng: rng, pod: podIn(states[rng.IntN(len(states))])}
		w.l = w.hooks()
		w.note("seed %d, state %q", seed, lifecycle.State(w.pod))
		if rng.IntN(4) > 0 {
			gated(w.pod, "True", "[]")
		}
		for range rng.IntN(20) {
			w.disturb()
			w.asked = false
			w.pass(intent(rng.IntN(3)), true)
			if w.gone {
				break
			}
		}
		w.settle(intent(rng.IntN(3)))
	}
}

// settle holds one intent until it is reached, and looks at the end.
func (w *world) settle(i intent) {
	if w.gone {
		return
	}
	w.asked = false
	// Three states may have to be answered, each by two halves that a coin chooses; 80 throws leave ample room, and the
	// seeds are fixed.
	const enough = 80
	reached := false
	for range enough {
		w.answer()
		if reached = w.pass(i, false); reached {
			break
		}
		w.checkMark()
	}
	if !reached {
		w.fail("intent %d is not reached", i)
	}
	if i == wantUpdate {
		w.settle(wantKeep)
		return
	}
	if i == wantDelete {
		return
	}
	if !lifecycle.Available(w.pod) {
		w.fail("kept, and not available in %q", lifecycle.State(w.pod))
	}
	if c := condition(w.pod); len(w.others) == 0 && c.Type != "" && c.Status != corev1.ConditionTrue ||
		strings.Contains(c.Message, "preparing") {
		w.fail("the mark stays: %+v", c)
	}
}

// checkMark makes sure that a held pod has the mark of its hook and no other, if it can be marked.
func (w *world) checkMark() {
	c := condition(w.pod)
	if c.Type == "" || w.l == nil {
		return
	}
	wantDeleteMark := lifecycle.State(w.pod) == preparingDelete && w.l.PreDelete != nil && w.l.PreDelete.MarkPodNotReady
	if strings.Contains(c.Message, ourDelete) != wantDeleteMark {
		w.fail("in %q the message is %s", lifecycle.State(w.pod), c.Message)
	}
	if lifecycle.State(w.pod) == preparingUpdate && strings.Contains(c.Message,
		ourUpdate) != w.l.InPlaceUpdate.MarkPodNotReady {
		w.fail("in %q the message is %s", lifecycle.State(w.pod), c.Message)
	}
}
