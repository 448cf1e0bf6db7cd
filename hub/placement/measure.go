package placement

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// asked tells the meter of what users ask for, as it is looked at.
func (r *Reconciler) asked(s *state) {
	if s.object == nil {
		r.meter.Forget(s.key)
		return
	}
	r.meter.Asked(s.key, s.object.GetGeneration(), s.placement, s.now)
}

// counted tells the meter which numbers a decision changed, once it stands.
func (r *Reconciler) counted(s *state, step step) {
	var last []topology.Cell
	if s.placement != nil {
		last = s.placement.Spec.Cells
	}
	switch {
	case step.spec != nil:
		r.meter.Decided(last, step.spec.Cells)
	case step.remove:
		r.meter.Decided(last, nil)
	}
}

// traced begins the span of a decision that is written.
func (r *Reconciler) traced(ctx context.Context, key wire.Key, spec *topology.WorkloadPlacementSpec) (context.Context, func(error)) {
	return r.tracer.Start(ctx, tracing.ChangeOf(key, spec), "place", attribute.Int64("flotilla.sequence", spec.Sequence), attribute.Int("flotilla.cells", len(spec.Cells)))
}
