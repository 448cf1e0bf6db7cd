package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Initial returns the state of a pod that is created now under l, which may be nil.
func Initial(l *v1beta1.Lifecycle) v1beta1.LifecycleState {
	if l != nil && isSet(l.PreNormal) {
		return v1beta1.LifecyclePreparingNormal
	}
	return v1beta1.LifecycleNormal
}

// Stamp sets the state and the time since when it holds on a pod's labels and annotations, which must not be nil.
func Stamp(labels, annotations map[string]string, state v1beta1.LifecycleState, now time.Time) {
	labels[v1beta1.LabelLifecycleState] = string(state)
	annotations[v1beta1.AnnotationLifecycleTimestamp] = now.UTC().Format(time.RFC3339)
}

// State returns the state that the pod's label tells: one of the published states, or "" for none or an unknown one.
func State(pod *corev1.Pod) v1beta1.LifecycleState {
	state := v1beta1.LifecycleState(pod.Labels[v1beta1.LabelLifecycleState])
	switch state {
	case v1beta1.LifecyclePreparingNormal, v1beta1.LifecycleNormal, v1beta1.LifecyclePreparingUpdate,
		v1beta1.LifecycleUpdating, v1beta1.LifecycleUpdated, v1beta1.LifecyclePreparingDelete:
		return state
	}
	return ""
}

// Available reports whether the pod's state lets it count as available: Normal or none does. It allocates nothing.
func Available(pod *corev1.Pod) bool {
	state := State(pod)
	return state == "" || state == v1beta1.LifecycleNormal
}

// Step is what to do with a pod now.
type Step struct {
	// State is the state to write; "" means that it does not change.
	State v1beta1.LifecycleState
	// NotReady says whether the pod is to be marked as not ready, or its mark to be taken away; nil means no change.
	// False is also the answer for a gate that nobody has opened yet.
	NotReady *bool
	// Proceed reports whether the deletion or the update may be done now. State belongs into the patch of the update.
	Proceed bool
	// Wait says in one sentence what is waited for; "" if nothing is.
	Wait string
	// ForHook tells that Wait is for those outside who serve a hook, and that nothing goes on without them.
	ForHook bool
}

// Facts are what Keep must know of a pod beside the pod.
type Facts struct {
	// Scheduled reports whether the pod has a node.
	Scheduled bool
	// InPlaceDone reports whether the pod's last update in place, if there was one, has arrived in its containers.
	InPlaceDone bool
}

// Delete returns the step of a pod that is to be deleted. l may be nil.
func Delete(pod *corev1.Pod, l *v1beta1.Lifecycle) Step {
	if hook := hooks(l).PreDelete; Blocks(hook, pod) {
		return finish(
			pod,
			l,
			Step{State: v1beta1.LifecyclePreparingDelete, Wait: "lifecycle.preDelete: " + remains(hook, pod), ForHook: true},
		)
	}
	return Step{Proceed: true}
}

// Update returns the step of a pod that is to be updated in place. l may be nil.
func Update(pod *corev1.Pod, l *v1beta1.Lifecycle) Step {
	state, hook := State(pod), hooks(l).InPlaceUpdate
	preNormal := hooks(l).PreNormal
	switch {
	case state == v1beta1.LifecyclePreparingDelete:
		// Whether the update before this one has arrived does not matter: the next pass replaces it.
		step := Keep(pod, l, Facts{Scheduled: true, InPlaceDone: true})
		step.Wait = "the pod is pulled back from its deletion first"
		return step
	case Blocks(hook, pod):
		return finish(
			pod,
			l,
			Step{State: v1beta1.LifecyclePreparingUpdate, Wait: "lifecycle.inPlaceUpdate: " + remains(hook, pod), ForHook: true},
		)
	case state == v1beta1.LifecyclePreparingNormal && isSet(preNormal) && !Holds(preNormal, pod):
		return finish(pod, l, Step{Proceed: true})
	case isSet(hook):
		return finish(pod, l, Step{State: v1beta1.LifecycleUpdating, Proceed: true})
	case state == "":
		return finish(pod, l, Step{Proceed: true})
	}
	return finish(pod, l, Step{State: v1beta1.LifecycleNormal, Proceed: true})
}

// Keep returns the step of a pod that is chosen for nothing. l may be nil. Proceed is never set.
func Keep(pod *corev1.Pod, l *v1beta1.Lifecycle, f Facts) Step {
	update, preNormal := hooks(l).InPlaceUpdate, hooks(l).PreNormal
	var step Step
	switch state := State(pod); state {
	case v1beta1.LifecyclePreparingNormal:
		switch {
		case isSet(preNormal) && !Holds(preNormal, pod):
			step.Wait, step.ForHook = "lifecycle.preNormal: "+lacks(preNormal, pod), true
		case !isSet(preNormal) && !f.Scheduled:
			step.Wait = "the pod is not scheduled yet"
		case isSet(update) && !f.InPlaceDone:
			// Whoever serves the hook takes a pod back that is Normal, and this one's containers are still to change.
			step.State = v1beta1.LifecycleUpdating
		default:
			step.State = v1beta1.LifecycleNormal
		}
	case v1beta1.LifecyclePreparingUpdate, v1beta1.LifecycleUpdating, v1beta1.LifecycleUpdated:
		switch {
		case !f.InPlaceDone && state != v1beta1.LifecycleUpdated:
			step.State = v1beta1.LifecycleUpdating
			step.Wait = "the update in place has not arrived in all containers"
		case isSet(update) && !Holds(update, pod):
			step.State = v1beta1.LifecycleUpdated
			step.Wait, step.ForHook = "lifecycle.inPlaceUpdate: "+lacks(update, pod), true
		default:
			step.State = v1beta1.LifecycleNormal
		}
	case v1beta1.LifecyclePreparingDelete:
		step.State = Initial(l)
		if step.State == v1beta1.LifecycleNormal && isSet(update) && !f.InPlaceDone {
			step.State = v1beta1.LifecycleUpdating
		}
	}
	return finish(pod, l, step)
}

// finish takes a state away that the pod has already, and adds what is to be done with the mark.
func finish(pod *corev1.Pod, l *v1beta1.Lifecycle, step Step) Step {
	if step.State == State(pod) {
		step.State = ""
	}
	step.NotReady = markChange(pod, l, after(pod, step))
	return step
}

// after returns the state that the pod has once the step is written.
func after(pod *corev1.Pod, step Step) v1beta1.LifecycleState {
	if step.State != "" {
		return step.State
	}
	return State(pod)
}
