package workload

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// Removal is a pod to delete, and why.
type Removal struct {
	Pod    *corev1.Pod
	Reason string
}

// RemovalEnded is the reason of the removal of a pod that has failed or completed.
const RemovalEnded = "PodEnded"

// Update is a pod to update in place.
type Update struct {
	Pod    *corev1.Pod
	Change inplace.Change
	To     inplace.Revision
	// Step goes into the same writes.
	Step lifecycle.Step
}

// Preparation is a pod whose lifecycle state or mark changes, and nothing else.
type Preparation struct {
	Pod  *corev1.Pod
	Step lifecycle.Step
	// Replaced says that the pod counts no more once this is written, and that the plan creates another one in its place.
	Replaced bool
}

// Actions are what a plan does with existing pods. Making them is pure; Act carries them out.
type Actions struct {
	Delete []Removal
	Update []Update
	// Carry are pods whose begun update has its next write due.
	Carry []*corev1.Pod
	// Open are pods whose readiness gates are to be opened.
	Open    []*corev1.Pod
	Prepare []Preparation
	// Release are pods that the selector does not match any more.
	Release []*corev1.Pod
	// Waiting says which hooks of others pods wait for.
	Waiting waits.Held
	// Wake is when to look again though nothing happens; 0 means never.
	Wake time.Duration
}

// Sooner makes the plan be made again after wait at the latest; 0 changes nothing.
func (a *Actions) Sooner(wait time.Duration) { a.Wake = podstate.Sooner(a.Wake, wait) }

// End plans the removal of a pod that has ended. It reports false if that waits, because the pod ended too soon.
func (a *Actions) End(pod *corev1.Pod, now time.Time) bool {
	if wait := podstate.EndedSoon(pod, now); wait > 0 {
		a.Sooner(wait)
		return false
	}
	a.Delete = append(a.Delete, Removal{Pod: pod, Reason: RemovalEnded})
	return true
}

// Observe plans the writes that the pod's update in place needs by itself, and returns its progress.
func (a *Actions) Observe(pod *corev1.Pod, now time.Time) inplace.Progress {
	progress, wait := inplace.Observe(pod, now)
	a.Sooner(wait)
	switch progress {
	case inplace.Due, inplace.Unsized:
		a.Carry = append(a.Carry, pod)
	case inplace.Finished:
		a.Open = append(a.Open, pod)
	}
	return progress
}

// Leave plans the removal of a pod: it is deleted, or prepared for that where a hook holds it. It reports whether it is
// deleted now.
func (a *Actions) Leave(pod *corev1.Pod, hooks *v1beta1.Lifecycle, reason string) bool {
	step := lifecycle.Delete(pod, hooks)
	if step.Proceed {
		a.Delete = append(a.Delete, Removal{Pod: pod, Reason: reason})
		return true
	}
	a.Take(pod, step)
	return false
}

// Take plans the writes of a step, and notes the hook that it waits for.
func (a *Actions) Take(pod *corev1.Pod, step lifecycle.Step) {
	if step.State != "" || step.NotReady != nil {
		a.Prepare = append(a.Prepare, Preparation{Pod: pod, Step: step})
	}
	if step.ForHook {
		a.Waiting.Add(pod, step.Wait)
	}
}

// Move plans the update of a pod in place, or its preparation where a hook holds it.
func (a *Actions) Move(pod *corev1.Pod, hooks *v1beta1.Lifecycle, change inplace.Change, to inplace.Revision) {
	step := lifecycle.Update(pod, hooks)
	if !step.Proceed {
		a.Take(pod, step)
		return
	}
	a.Update = append(a.Update, Update{Pod: pod, Change: change, To: to, Step: step})
	// A pod whose gate was to be opened for the last update gets its next one first.
	a.Open, a.Carry = without(a.Open, pod), without(a.Carry, pod)
}

// Stay plans what a pod needs that is not to leave or to change: one on its way from one lifecycle state to another
// goes on, and one that was to leave or to change comes back.
func (a *Actions) Stay(pod *corev1.Pod, hooks *v1beta1.Lifecycle, now time.Time) {
	progress, _ := inplace.Observe(pod, now)
	if (progress == inplace.Due || progress == inplace.Unsized) && !podstate.Ready(pod) {
		if step := lifecycle.Update(pod, hooks); step.ForHook {
			// A hook blocks the pod again: the containers whose turn is now wait for the hook as the first did.
			a.Take(pod, step)
			a.Carry = without(a.Carry, pod)
			return
		}
	}
	step := lifecycle.Keep(pod, hooks, lifecycle.Facts{
		Scheduled: pod.Spec.NodeName != "", InPlaceDone: progress == inplace.Settled || progress == inplace.Finished,
	})
	if progress == inplace.Finished && podstate.Condition(pod, lifecycle.KruisePodReady) == nil {
		step.NotReady = nil // this gate is opened together with the other one
	}
	a.Take(pod, step)
}

func without(pods []*corev1.Pod, pod *corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(other *corev1.Pod) bool { return other == pod })
}

// Moves knows how pods come from one revision to another.
type Moves struct {
	Revisions
	// NoResize: the API server cannot change the cpu and memory of running pods.
	NoResize bool
	// Daemon reports whether a node daemon is ready on the node; nil: on all that have said so.
	Daemon func(node string) bool

	known map[string]Move
	again time.Duration
}

// askForDaemon is when a pod that waits for a node daemon is looked at again: no event of the pod tells that one runs.
const askForDaemon = time.Minute

// Again returns when to ask again for pods that cannot be changed because no node daemon is ready on their nodes; 0 if
// there are none.
func (m *Moves) Again() time.Duration { return m.again }

// Move is how a pod comes to a revision: by Change in place. Refusal names a field that keeps it from that, "" for
// none.
type Move struct {
	Change  inplace.Change
	Refusal string
}

// Of returns how this very pod comes to the revision to: whether a running container sees new metadata depends on who
// runs on its node.
func (m *Moves) Of(pod *corev1.Pod, to Revision) (Move, error) {
	move, err := m.of(pod.Labels[podset.LabelRevision], to)
	if err == nil && move.Refusal == "" {
		move.Refusal = m.possible(pod, move.Change)
	}
	return move, err
}

// possible returns what keeps this very pod from being given the change, "" for nothing. What a daemon said of the pod
// stays on it when the daemon goes: one that is ready now must be on the node.
func (m *Moves) possible(pod *corev1.Pod, change inplace.Change) string {
	refusal := change.Possible(pod, false)
	if refusal == "" || change.Possible(pod, true) != "" {
		return refusal
	}
	if m.Daemon == nil || m.Daemon(pod.Spec.NodeName) {
		return ""
	}
	m.again = askForDaemon
	return fmt.Sprintf("%s (no pod of flotilla-node is ready on node %s)", refusal, pod.Spec.NodeName)
}

// of returns how pods with this label come to the revision to. It is worked out once.
func (m *Moves) of(label string, to Revision) (Move, error) {
	key := history.ShortName(label) + ">" + to.Hash
	if move, ok := m.known[key]; ok {
		return move, nil
	}
	var move Move
	stored := history.Named(m.Stored, label)
	switch {
	case stored == nil:
		// Without its revision nothing says what the pod was made from.
		move.Refusal = "metadata.labels[" + podset.LabelRevision + "]"
	case history.ShortHash(stored) == to.Hash:
	default:
		from, err := RevisionOf(stored)
		if err != nil {
			return move, err
		}
		if move.Change, move.Refusal, err = inplace.Diff(from.Template, to.Template); err != nil {
			return move, fmt.Errorf("compare revisions %s and %s: %w", from.Name, to.Name, err)
		}
		if move.Refusal == "" && m.NoResize {
			move.Refusal = resized(move.Change, to.Template)
		}
	}
	if m.known == nil {
		m.known = map[string]Move{}
	}
	m.known[key] = move
	return move, nil
}

// InPlaceImpossible says that podUpdatePolicy InPlaceOnly cannot be carried out because of the field.
func InPlaceImpossible(field string) *conditions.Cause {
	return &conditions.Cause{Reason: "InPlaceImpossible", Message: fmt.Sprintf(
		"podUpdatePolicy is InPlaceOnly, but field %s of the template cannot be changed in running pods: change it back, "+
			"or use InPlaceIfPossible", field)}
}

// resized returns the first resources of the template that the change changes, or "".
func resized(change inplace.Change, template *corev1.PodTemplateSpec) string {
	for i := range template.Spec.Containers {
		if _, ok := change.Resources[template.Spec.Containers[i].Name]; ok {
			return fmt.Sprintf("spec.containers[%d].resources", i)
		}
	}
	return ""
}
