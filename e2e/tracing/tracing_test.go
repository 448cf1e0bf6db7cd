//go:build e2e

package tracing

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
)

// patience is how long the test waits for what takes seconds on a quiet machine.
const patience = 5 * time.Minute

// span is what the test looks at.
type span struct{ service, name, id, parent string }

// receiver keeps the spans that programs send by OTLP over HTTP, by their traces.
type receiver struct {
	mu     sync.Mutex
	traces map[string][]span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	sent := &collector.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(data, sent)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range sent.GetResourceSpans() {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				id := hex.EncodeToString(s.GetTraceId())
				r.traces[id] = append(r.traces[id], span{service, s.GetName(), hex.EncodeToString(s.GetSpanId()),
					hex.EncodeToString(s.GetParentSpanId())})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// whole returns the traces that have everything of a change, from the decision to the sum; and all, for a person to
// read.
func (r *receiver) whole() (ids []string, all string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, spans := range r.traces {
		have := map[string]bool{}
		for _, s := range spans {
			have[s.service+" "+s.name] = true
		}
		missing := slices.DeleteFunc([]string{"flotilla-hub change", "flotilla-hub place", "flotilla-hub deliver",
			"flotilla-agent apply", "flotilla-agent report", "flotilla-hub sum"},
			func(name string) bool { return have[name] })
		if len(missing) == 0 {
			ids = append(ids, id)
		}
		all += fmt.Sprintf("%s: %v, missing %v\n", id, spans, missing)
	}
	return ids, all
}

// TestOneChangeIsOneTrace makes a workload and updates it: each of the two changes is one trace, from the hub's
// decision over the member to the sum, every span of which hangs together, and the Work carries the last one.
func TestOneChangeIsOneTrace(t *testing.T) {
	log.SetLogger(logr.Discard())
	r := &receiver{traces: map[string][]span{}}
	server := httptest.NewServer(r)
	defer server.Close()
	f := fleet.ForTest(t, fleet.Config{
		Members: []fleet.ClusterSpec{{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a"}, 1)}},
		// Spans are sent every half a second.
		Env: func(string) []string {
			return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_BSP_SCHEDULE_DELAY=500"}
		},
	})
	for _, program := range []string{fleet.HubProgram, fleet.AgentProgram} {
		if _, err := os.Stat(filepath.Join(f.Bin(), program)); err != nil {
			t.Fatalf("%v: run make programs", err)
		}
	}
	for _, c := range f.Clusters() {
		if err := c.InstallCRDs(t.Context(), crds.FS); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func() error{
		func() error { return f.Accept(t.Context(), "east") },
		func() error { return f.RunHub(t.Context(), f.Bin()) },
		func() error { return f.RunAgent(t.Context(), f.Bin(), f.Member("east")) },
		func() error { return f.WaitMembersReady(t.Context(), patience) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(f.Hub().RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	api := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}, Spec: apps.CloneSetSpec{
		Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}},
		Template: apps.NewPodTemplate(corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "api"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "api:1"}}},
		}),
	}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
			Labels: map[string]string{topology.LabelFederated: "true"}}},
		&topology.FederationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"},
			Spec: topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{Kind: "CloneSet"}}}},
		api,
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(changes int) {
		t.Helper()
		fleet.Eventually(t, patience, fmt.Sprintf("%d changes are traced", changes), func(context.Context) string {
			if ids, all := r.whole(); len(ids) < changes {
				return fmt.Sprintf("%d traces are whole, of these:\n%s", len(ids), all)
			}
			return ""
		}, func() string { return "; the end of the agent's log:\n" + f.LogTail(fleet.AgentName("east"), 10) })
	}
	expect(1)
	update := []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"api:2"}]`)
	if err := c.Patch(t.Context(), api, client.RawPatch(types.JSONPatchType, update)); err != nil {
		t.Fatal(err)
	}
	expect(2)

	ids, all := r.whole()
	if len(ids) != 2 || len(r.traces) != 2 {
		t.Errorf("two changes are %d traces, %d of them whole:\n%s", len(r.traces), len(ids), all)
	}
	r.mu.Lock()
	for id, spans := range r.traces {
		known := map[string]string{"": ""}
		for _, s := range spans {
			known[s.id] = s.name
		}
		for _, s := range spans {
			above, ok := known[s.parent]
			if !ok || (s.name == "apply" || s.name == "report") && above != "deliver" ||
				(s.parent == "") != (s.name == "change") {
				t.Errorf("trace %s: span %s %s hangs below %q (%t)", id, s.service, s.name, above, ok)
			}
		}
	}
	r.mu.Unlock()

	order := &work.WorkList{}
	if err := c.List(t.Context(), order, client.InNamespace("karmada-es-east")); err != nil || len(order.Items) != 1 {
		t.Fatalf("%d Works, %v", len(order.Items), err)
	}
	carried := order.Items[0].Annotations[topology.AnnotationTraceparent]
	if !slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(carried, "00-"+id+"-") }) {
		t.Errorf("the Work carries %q, which is none of %v", carried, ids)
	}
}
