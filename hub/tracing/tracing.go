// Package tracing follows a change of a workload over hub and members: what the hub does for one generation of a
// workload is one trace, and the Works carry it to the agents.
//
// Which trace that is follows from the workload's uid and generation alone. So it needs no memory, a hub that takes
// over goes on with it, and nothing is written for it.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Tracer makes the spans of the hub. A nil one makes none.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer that gives its spans to a provider, whose ids are of IDs; nil for nil.
func New(provider trace.TracerProvider) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{tracer: provider.Tracer("github.com/flotilla-dev/flotilla/hub")}
}

// Change is one generation of a workload.
type Change struct {
	Key        wire.Key
	UID        types.UID
	Generation int64
}

// ChangeOf returns the change that a placement answers.
func ChangeOf(key wire.Key, p *topology.WorkloadPlacementSpec) Change {
	return Change{Key: key, UID: p.Workload.UID, Generation: p.Workload.Generation}
}

// root names the trace of the change and its first span. It is sampled as far as the change goes; the provider's
// sampler decides.
func (c Change) root() trace.SpanContext {
	sum := sha256.New()
	sum.Write([]byte(c.UID))
	_ = binary.Write(sum, binary.BigEndian, c.Generation) // a hash takes everything
	id := sum.Sum(nil)
	config := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	copy(config.TraceID[:], id)
	copy(config.SpanID[:], id[len(config.TraceID):])
	return trace.NewSpanContext(config)
}

func (c Change) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("flotilla.kind", c.Key.Kind), attribute.String("k8s.namespace.name", c.Key.Namespace),
		attribute.String("flotilla.name", c.Key.Name),
		attribute.Int64("flotilla.generation", c.Generation),
	}
}

// Start begins a span of the trace of a change. end ends it, with what went wrong.
func (t *Tracer) Start(
	ctx context.Context,
	c Change,
	name string,
	more ...attribute.KeyValue,
) (_ context.Context, end func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(
		trace.ContextWithRemoteSpanContext(ctx, c.root()),
		name,
		trace.WithAttributes(append(c.attributes(), more...)...),
	)
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Done makes the first span of the trace of a change, which is over: from when the hub saw it until now.
func (t *Tracer) Done(ctx context.Context, c Change, since, now time.Time) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(
		context.WithValue(ctx, firstKey{}, c.root()),
		"change",
		trace.WithNewRoot(),
		trace.WithTimestamp(since),
		trace.WithAttributes(c.attributes()...),
	)
	span.End(trace.WithTimestamp(now))
}

// Traceparent returns the span of ctx as Works carry it, empty where there is none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// firstKey is where a context says which ids its next span has.
type firstKey struct{}

// IDs gives spans random ids, but the first one of a change its own. It is for the provider.
type IDs struct{}

// NewIDs is asked for the ids of a span without a parent.
func (i IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if first, ok := ctx.Value(firstKey{}).(trace.SpanContext); ok {
		return first.TraceID(), first.SpanID()
	}
	var id trace.TraceID
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], max(1, rand.Uint64())) // not all zeros
	return id, i.NewSpanID(ctx, id)
}

// NewSpanID is asked for the id of any other span.
func (IDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	binary.BigEndian.PutUint64(id[:], max(1, rand.Uint64()))
	return id
}
