// Package tracing goes on with the traces that Works carry: what the agent does for an order is a part of the change on
// the hub that it came of.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Tracer makes the spans of the agent. A nil one makes none.
type Tracer struct {
	tracer  trace.Tracer
	cluster string
}

// New returns a tracer that gives its spans to a provider, with the name of the cluster; nil for nil.
func New(provider trace.TracerProvider, cluster string) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{tracer: provider.Tracer("github.com/flotilla-dev/flotilla/member-agent"), cluster: cluster}
}

// Start begins a span of the trace that the Work carries; without one there is none. end ends it, with what went wrong.
func (t *Tracer) Start(ctx context.Context, w *work.Work, name string) (_ context.Context, end func(error)) {
	nothing := func(error) {}
	if t == nil {
		return ctx, nothing
	}
	carrier := propagation.MapCarrier{"traceparent": w.Annotations[topology.AnnotationTraceparent]}
	parent := propagation.TraceContext{}.Extract(ctx, carrier)
	if !trace.SpanContextFromContext(parent).IsValid() {
		return ctx, nothing
	}
	ctx, span := t.tracer.Start(parent, name, trace.WithAttributes(
		attribute.String("k8s.cluster.name", t.cluster), attribute.String("flotilla.work", w.Namespace+"/"+w.Name),
		attribute.String("flotilla.sequence", w.Annotations[topology.AnnotationSequence]),
	))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
