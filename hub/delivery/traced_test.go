package delivery

import (
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestTracesCauseNoWrite holds that a Work carries the trace of the change that wrote it last, and that it is written
// for nothing else: a new generation that asks the same of a member, or a hub that has no traces any more, leaves it as
// it is.
func TestTracesCauseNoWrite(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apps.AddToScheme, topology.AddToScheme,
		work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	object := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "object"}}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithIDGenerator(tracing.IDs{}))
	deliver := func(generation int64, replicas int32, tracer *tracing.Tracer) *work.Work {
		t.Helper()
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.Placement().Name,
			UID: "placement"}}
		p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web",
			UID: "object", Generation: generation}
		p.Spec.Cells = []topology.Cell{{Cluster: "east", Replicas: replicas, Sequence: 1}}
		works, refusal, err := planOf(key, "hub", object, p, additions{})
		if err != nil || refusal != nil {
			t.Fatal(err, refusal)
		}
		old := &work.Work{}
		if err := c.Get(t.Context(), key.Work("east"), old); err != nil {
			old = nil
		}
		r := NewReconciler(c, c, kinds.Workloads(), clocktesting.NewFakePassiveClock(time.Unix(100, 0)), "hub",
			placement.NewOutcomes())
		r.tracer = tracer
		if err := r.write(t.Context(), &state{key: key, placement: p}, old, works[0]); err != nil {
			t.Fatal(err)
		}
		now := &work.Work{}
		if err := c.Get(t.Context(), key.Work("east"), now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	carries := func(w *work.Work) string {
		parts := strings.Split(w.Annotations[topology.AnnotationTraceparent], "-")
		if len(parts) != 4 {
			t.Fatalf("the Work carries %q", w.Annotations[topology.AnnotationTraceparent])
		}
		return parts[1]
	}
	tracer := tracing.New(provider)
	first := deliver(1, 1, tracer)
	if spans := kept.GetSpans(); len(spans) != 1 || spans[0].SpanContext.TraceID().String() != carries(first) {
		t.Errorf("the Work carries %s, and the spans are %+v", carries(first), spans)
	}
	if same := deliver(2, 1, tracer); same.ResourceVersion != first.ResourceVersion {
		t.Error("a generation that asks the same of the member wrote its Work")
	}
	if same := deliver(2, 1, nil); same.ResourceVersion != first.ResourceVersion {
		t.Error("a hub without traces wrote the Work")
	}
	if n := len(kept.GetSpans()); n != 1 {
		t.Errorf("%d spans of one write", n)
	}
	if second := deliver(3, 2, tracer); second.ResourceVersion == first.ResourceVersion ||
		carries(second) == carries(first) {
		t.Error("a generation that asks for more is not written with a trace of its own")
	}
}
