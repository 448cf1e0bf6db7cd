package inplace

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Next returns the writes that carry on an update which was begun: the containers after the grace period, the next
// batch, a resize that did not get through, and the end of an update that did not take the pod out of service. They are
// empty when nothing is due; wait is then when to look again though nothing happens, 0 for never.
func Next(pod *corev1.Pod, now time.Time) (w Writes, wait time.Duration, err error) {
	r, ok := openRecord(pod)
	if !ok {
		return Writes{}, 0, nil
	}
	step, wait := r.step(pod, now)
	next := &writing{pod: pod, now: metav1.NewTime(now.UTC().Truncate(time.Second)), state: r.state}
	switch step {
	case stepNone:
		return Writes{}, wait, nil
	case stepGrace:
		metadata, err := r.metadataPatch()
		if err != nil {
			return Writes{}, 0, fmt.Errorf("end the grace period of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		next.metadata(metadata)
		next.batch(r.needed(pod))
	case stepResize:
		w.Resize, err = resizePatch(pod, r.dueResources(pod))
		return w, 0, err
	case stepBatch:
		next.batch(r.needed(pod))
	case stepEnd:
		next.state.InService, next.state.ContainerResources = false, nil
	}
	if w, err = next.writes(); err != nil {
		return Writes{}, 0, fmt.Errorf("carry on the update in place of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return w, 0, nil
}

// needed is what waits, without what the pod has.
func (r record) needed(pod *corev1.Pod) work {
	w := r.waiting()
	w.drop(pod)
	return w
}

// step is what is due in an update.
type step int

const (
	stepNone step = iota
	stepGrace
	stepResize
	stepBatch
	stepEnd
)

// step returns what is due, and how long to wait when only time is missing.
func (r record) step(pod *corev1.Pod, now time.Time) (step, time.Duration) {
	switch {
	case r.lost:
		return stepNone, 0
	case r.grace != nil:
		if wait := r.graceEnd().Sub(now); wait > 0 {
			return stepNone, wait
		}
		return stepGrace, 0
	case len(r.dueResources(pod)) > 0:
		return stepResize, 0
	case !r.waiting().empty():
		if r.batchesDone(pod) && r.requiredReady(pod) {
			return stepBatch, 0
		}
	case r.state.InService && r.batchesDone(pod):
		return stepEnd, 0
	}
	return stepNone, 0
}

func (r record) requiredReady(pod *corev1.Pod) bool {
	if r.state.PreCheckBeforeNext == nil {
		return true
	}
	for _, name := range r.state.PreCheckBeforeNext.ContainersRequiredReady {
		if containerOf(pod, name) != nil && !statusOf(pod, name).Ready {
			return false
		}
	}
	return true
}

// Progress is where a pod stands in an update in place.
type Progress int

// The progress of a pod.
const (
	// Settled pods have no update under way.
	Settled Progress = iota
	// Running pods wait for their containers.
	Running
	// Stuck pods wait for what may never come: containers that cannot start with what they were given, or do not get ready
	// with it, so that the next batch does not come, resources that the node does not have, or a node daemon. Another
	// update may help them.
	Stuck
	// Finished pods have their new containers, and their gate has still to be opened.
	Finished
	// Due pods wait for the writes of Next.
	Due
	// Waiting pods are in their grace period; Next tells how long. Their containers are what they were.
	Waiting
	// Unsized pods wait for a write of Next, too: for their resize, which the API server has not taken. It may never take
	// it, for a quota or a limit; another update may help them.
	Unsized
)

// Busy reports whether the pod's containers are in the middle of a change that goes on by itself, or with the writes of
// Next: another update is better begun when it is over. A pod in its grace period has not come so far, and need not
// wait for the end of what nobody wants any more.
func (p Progress) Busy() bool { return p == Running || p == Due }

// Observe returns where the pod stands at now, and when to look again though nothing happens, 0 for never. It reads the
// record only of pods whose gate is shut or that are being resized in service.
func Observe(pod *corev1.Pod, now time.Time) (progress Progress, wait time.Duration) {
	text, recorded := pod.Annotations[v1beta1.AnnotationInPlaceUpdateState]
	gated := HasGate(pod)
	open := gated && gateOpen(pod)
	if open && !strings.HasSuffix(text, inServiceEnd) || !gated && !recorded {
		return Settled, 0
	}
	atEnd := Finished
	if open || !gated {
		atEnd = Settled
	}
	r, ok := openRecord(pod)
	if !ok {
		return atEnd, 0
	}
	step, wait := r.step(pod, now)
	switch {
	case step == stepResize:
		return Unsized, 0
	case step != stepNone:
		return Due, 0
	case wait > 0:
		return Waiting, wait
	case r.done(pod):
		return atEnd, 0
	}
	late, wait := r.overdue(pod, now)
	switch {
	case late || r.lost || stuck(pod) || r.batchesDone(pod) && !r.waiting().empty():
		return Stuck, 0
	}
	return Running, wait
}

// longestRestart is how long the node daemon may take to restart a container for its environment. After that it does
// not run.
const longestRestart = 5 * time.Minute

// overdue reports whether a container that the node daemon is to restart runs on for too long, and otherwise how long
// to wait for that; 0 if none is to be restarted by it.
func (r record) overdue(pod *corev1.Pod, now time.Time) (late bool, wait time.Duration) {
	for name, before := range r.unfinished(pod) {
		if status := containerStatus(pod, name); !before.Environment || status == nil || status.State.Running == nil {
			continue
		}
		left := r.batchTime(name).Add(longestRestart).Sub(now)
		if left <= 0 {
			return true, 0
		}
		wait = podstate.Sooner(wait, left)
	}
	return false, wait
}

// stuck reports whether a container waits for what may never come, or the node cannot give the pod its resources.
func stuck(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if waiting := pod.Status.ContainerStatuses[i].State.Waiting; waiting != nil && waiting.Reason != "ContainerCreating" {
			return true
		}
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
