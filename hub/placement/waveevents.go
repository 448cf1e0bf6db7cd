package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// happening is an event on a workload whose update goes in waves: what kind of thing happened, and a sentence about it.
type happening struct{ level, kind, sentence string }

// tell writes what happened in the waves of an update as an event on the workload, once the decision stands.
func (r *Reconciler) tell(s *state, step step) {
	if step.spec == nil || s.placement == nil || s.object == nil {
		return
	}
	if h := happened(&s.placement.Spec, step.spec, step.verdict.Wave); h != nil {
		r.events.Eventf(s.object, nil, h.level, h.kind, "Update", "%s", h.sentence)
	}
}

// happened compares the waves of two decisions, nil where nothing happened in them. waits is what the newer one waits for.
func happened(last, next *topology.WorkloadPlacementSpec, waits string) *happening {
	before, after := last.Wave, next.Wave
	normal := func(kind string) *happening { return &happening{corev1.EventTypeNormal, kind, waits} }
	warning := func(kind string) *happening { return &happening{corev1.EventTypeWarning, kind, waits} }
	switch {
	case after == nil && before != nil && before.Number <= before.Of:
		return &happening{corev1.EventTypeNormal, "WavesLeft", fmt.Sprintf("the update that was at wave %d of %d (%s) goes in waves no more", before.Number, before.Of, before.Name)}
	case after == nil:
		return nil
	case after.RolledBack != "" && last.Revision != next.Revision:
		return warning("WaveRolledBack")
	case before == nil, last.Revision != next.Revision, before.Number != after.Number:
		if after.Number > after.Of {
			return &happening{corev1.EventTypeNormal, "WavesOver", fmt.Sprintf("all %d waves are over: all that is left may be updated", after.Of)}
		}
		return normal("WaveBegan")
	case before.Failed == nil && after.Failed != nil:
		return warning("WaveFailed")
	case before.Failed != nil && after.Failed == nil:
		return normal("WaveTriedAgain")
	case after.Failed != nil:
		return nil
	case !before.Held && after.Held:
		return normal("WaveHeld")
	case before.Held && !after.Held:
		return normal("WaveResumed")
	case before.Settled == nil && after.Settled != nil:
		return normal("WaveSettled")
	case before.Settled != nil && after.Settled == nil:
		return warning("WaveUnsettled")
	case before.Unmet == nil && after.Unmet != nil:
		return warning("WaveCheckUnmet")
	case !before.Unheard && after.Unheard:
		return warning("WaveUnheard")
	}
	return nil
}
