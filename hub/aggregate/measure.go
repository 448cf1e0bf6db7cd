package aggregate

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flotilla-dev/flotilla/hub/tracing"
)

// progress is how far a change is.
type progress struct {
	// since is when the hub saw the change.
	since time.Time
	// underWay: its end is not in the workload's status yet. done: nothing is left to be done.
	underWay, done bool
}

// measure tells the meter how far the members are with what the placement was made of.
func (r *Reconciler) measure(f *Facts, s *Sum) progress {
	if f.Placement == nil || len(f.Placement.Spec.Cells) == 0 {
		return progress{}
	}
	done := s.Stalled == nil && s.Done()
	since, underWay := r.meter.Answered(f.Key, f.Placement.Spec.Workload.Generation, s.Answered, done)
	return progress{since: since, underWay: underWay, done: s.Answered && done}
}

// completeTrace ends the trace of a change that is over. It is called once the workload's status has the sum.
func (r *Reconciler) completeTrace(ctx context.Context, f *Facts, p progress) {
	if p.underWay && p.done {
		r.tracer.Done(ctx, tracing.ChangeOf(f.Key, &f.Placement.Spec), p.since, r.clock.Now())
		r.meter.Told(f.Key, f.Placement.Spec.Workload.Generation)
	}
}

// traced begins the span of a write of the workload's status, while the change is under way.
func (r *Reconciler) traced(ctx context.Context, f *Facts, p progress) (context.Context, func(error)) {
	if !p.underWay {
		return ctx, func(error) {}
	}
	return r.tracer.Start(ctx, tracing.ChangeOf(f.Key, &f.Placement.Spec), "sum", attribute.Bool("flotilla.done", p.done))
}
