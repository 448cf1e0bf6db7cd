package tracing_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func change(uid string, generation int64) tracing.Change {
	c := tracing.Change{Key: wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "api"},
		Generation: generation}
	c.UID = types.UID(uid)
	return c
}

// TestOneChangeIsOneTrace holds that every span of a generation is of one trace whose first span is the change itself,
// whichever hub makes it, and that of another generation is of another.
func TestOneChangeIsOneTrace(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	since := time.Unix(1000, 0)
	for _, c := range []tracing.Change{change("a", 1), change("a", 2)} {
		for range 2 { // a hub, and the one that takes over
			tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithIDGenerator(tracing.IDs{})))
			_, end := tracer.Start(t.Context(), c, "place")
			end(nil)
			ctx, end := tracer.Start(t.Context(), c, "deliver")
			parent := tracing.Traceparent(ctx)
			end(errors.New("refused"))
			delivered := kept.GetSpans()[len(kept.GetSpans())-1]
			if want := "00-" + delivered.SpanContext.TraceID().String() + "-" + delivered.SpanContext.SpanID().String() +
				"-01"; parent != want {
				t.Errorf("traceparent %s, want %s", parent, want)
			}
			if delivered.Status.Code != codes.Error || delivered.Status.Description != "refused" {
				t.Errorf("status %+v", delivered.Status)
			}
		}
		tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithIDGenerator(tracing.IDs{})))
		tracer.Done(t.Context(), c, since, since.Add(time.Minute))
	}
	spans := kept.GetSpans()
	traces := map[string]bool{}
	for half := range 2 {
		of := spans[half*5 : half*5+5]
		first := of[4]
		if first.Parent.IsValid() || first.Name != "change" || first.EndTime.Sub(first.StartTime) != time.Minute {
			t.Errorf("the first span is %+v", first)
		}
		for _, s := range of[:4] {
			if s.SpanContext.TraceID() != first.SpanContext.TraceID() || s.Parent.SpanID() != first.SpanContext.SpanID() ||
				s.SpanContext.SpanID() == first.SpanContext.SpanID() {
				t.Errorf("%s is no part of the change: %s", s.Name, s.SpanContext.TraceID())
			}
		}
		traces[first.SpanContext.TraceID().String()] = true
	}
	if len(traces) != 2 {
		t.Errorf("two changes have %d traces", len(traces))
	}
}

func TestWithoutAProvider(t *testing.T) {
	tracer := tracing.New(nil)
	ctx, end := tracer.Start(t.Context(), change("a", 1), "place")
	end(errors.New("no matter"))
	tracer.Done(ctx, change("a", 1), time.Time{}, time.Time{})
	if parent := tracing.Traceparent(ctx); parent != "" {
		t.Errorf("traceparent %s", parent)
	}
}

func TestIDsAreNotZero(t *testing.T) {
	trace, span := tracing.IDs{}.NewIDs(t.Context())
	if !trace.IsValid() || !span.IsValid() || strings.Trim(trace.String(), "0") == "" {
		t.Errorf("%s %s", trace, span)
	}
}
