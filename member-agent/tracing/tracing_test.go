package tracing_test

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/tracing"
)

// TestStart holds that an agent goes on with the trace of a Work, and makes nothing of one that carries none, or
// nonsense.
func TestStart(t *testing.T) {
	const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for carried, want := range map[string]int{"00-" + traceID + "-" + spanID + "-01": 1, "": 0, "nonsense": 0,
		"00-00000000000000000000000000000000-" + spanID + "-01": 0} {
		kept := tracetest.NewInMemoryExporter()
		tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)), "east")
		w := &work.Work{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationTraceparent: carried}}}
		_, end := tracer.Start(t.Context(), w, "apply")
		end(errors.New("refused"))
		spans := kept.GetSpans()
		if len(spans) != want {
			t.Errorf("%q: %d spans, want %d", carried, len(spans), want)
		}
		for _, s := range spans {
			if s.SpanContext.TraceID().String() != traceID || s.Parent.SpanID().String() != spanID ||
				s.Status.Code != codes.Error {
				t.Errorf("%q: %+v", carried, s)
			}
		}
		if _, end := tracing.New(nil, "east").Start(t.Context(), w, "apply"); end == nil {
			t.Error("without a provider a span cannot be ended")
		}
	}
}
