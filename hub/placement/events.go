package placement

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// happening is an event on a workload whose update goes in waves: what kind of thing happened, and a sentence about it.
type happening struct{ level, kind, sentence string }

// emitWaveEvent writes what happened in the waves of an update as an event on the workload. The decision was written.
func (r *Reconciler) emitWaveEvent(s *State, step Step) {
	if step.Spec == nil || s.Placement == nil || s.Object == nil {
		return
	}
	if h := happened(&s.Placement.Spec, step.Spec, step.Outcome.Wave); h != nil {
		r.events.Eventf(s.Object, nil, h.level, h.kind, "Update", "%s", h.sentence)
	}
}

// happened compares the waves of two decisions, nil where nothing happened in them. waits is what the newer one waits
// for.
func happened(last, next *topology.WorkloadPlacementSpec, waits string) *happening {
	before, after := last.Wave, next.Wave
	switch {
	case after == nil && before != nil && before.Number <= before.Of:
		return &happening{
			corev1.EventTypeNormal,
			"WavesLeft",
			fmt.Sprintf(
				"the update that was at wave %d of %d (%s) goes in waves no more",
				before.Number,
				before.Of,
				before.Name,
			),
		}
	case after == nil:
		return nil
	case after.RolledBack != "" && last.Revision != next.Revision:
		return &happening{corev1.EventTypeWarning, "WaveRolledBack", waits}
	case before == nil, last.Revision != next.Revision, before.Number != after.Number:
		if after.Number > after.Of {
			return &happening{
				corev1.EventTypeNormal,
				"WavesOver",
				fmt.Sprintf("all %d waves are over: all that is left may be updated", after.Of),
			}
		}
		return &happening{corev1.EventTypeNormal, "WaveBegan", waits}
	}
	if kind, level := moved(before, after); kind != "" {
		return &happening{level, kind, waits}
	}
	return nil
}

// moved compares how far one wave was and is, "" where it is as far.
func moved(before, after *topology.WaveProgress) (kind, level string) {
	switch {
	case before.Failed == nil && after.Failed != nil:
		return "WaveFailed", corev1.EventTypeWarning
	case before.Failed != nil && after.Failed == nil:
		return "WaveTriedAgain", corev1.EventTypeNormal
	case after.Failed != nil:
		return "", ""
	case !before.Held && after.Held:
		return "WaveHeld", corev1.EventTypeNormal
	case before.Held && !after.Held:
		return "WaveResumed", corev1.EventTypeNormal
	case before.Settled == nil && after.Settled != nil:
		return "WaveSettled", corev1.EventTypeNormal
	case before.Settled != nil && after.Settled == nil:
		return "WaveUnsettled", corev1.EventTypeWarning
	case before.Unmet == nil && after.Unmet != nil:
		return "WaveCheckUnmet", corev1.EventTypeWarning
	case !before.Unheard && after.Unheard:
		return "WaveUnheard", corev1.EventTypeWarning
	}
	return "", ""
}

// observeRequest counts what the user asks for in the metrics.
func (r *Reconciler) observeRequest(s *State) {
	if s.Object == nil {
		r.meter.Forget(s.key)
		return
	}
	r.meter.Asked(s.key, s.Object.GetGeneration(), s.Placement, s.now)
}

// recordDecision counts the numbers that a written decision changed in the metrics.
func (r *Reconciler) recordDecision(s *State, step Step) {
	var last []topology.Cell
	if s.Placement != nil {
		last = s.Placement.Spec.Cells
	}
	switch {
	case step.Spec != nil:
		r.meter.Decided(last, step.Spec.Cells)
	case step.Remove:
		r.meter.Decided(last, nil)
	}
}

// traced begins the span of a decision that is written.
func (r *Reconciler) traced(
	ctx context.Context,
	key wire.Key,
	spec *topology.WorkloadPlacementSpec,
) (context.Context, func(error)) {
	return r.tracer.Start(
		ctx,
		tracing.ChangeOf(key, spec),
		"place",
		attribute.Int64("flotilla.sequence", spec.Sequence),
		attribute.Int("flotilla.cells", len(spec.Cells)),
	)
}
