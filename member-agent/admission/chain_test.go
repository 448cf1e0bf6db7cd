package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// appending is a mutator that appends text to the annotation "order".
func appending(text string) Mutator {
	return Mutator{Name: text, Mutate: func(_ context.Context, request *Request) error {
		return request.Change(func(pod *corev1.Pod) error {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations["order"] += text
			return nil
		})
	}}
}

// creation is a request to create the pod.
func creation(raw string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Namespace: "shop", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Object: runtime.RawExtension{Raw: []byte(raw)},
	}
}

// post sends the body to a chain of the mutators.
func post(t *testing.T, body []byte, mutators ...Mutator) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body))
	NewHandler(logr.Discard(), time.Minute, mutators...).ServeHTTP(answer, request)
	return answer
}

// ask returns the answer of a chain of the mutators.
func ask(t *testing.T, request *admissionv1.AdmissionRequest, mutators ...Mutator) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := post(t, body, mutators...)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	if review.Response.UID != "u" || review.APIVersion != "admission.k8s.io/v1" || review.Request != nil {
		t.Errorf("answered %s", answer.Body)
	}
	return review.Response
}

func TestChain(t *testing.T) {
	boom := errors.New("boom")
	failing := func(change func(*corev1.Pod)) Mutator {
		return Mutator{Name: "failing", Mutate: func(_ context.Context, request *Request) error {
			if err := request.Change(func(pod *corev1.Pod) error {
				change(pod)
				return boom
			}); !errors.Is(err, boom) {
				t.Errorf("the error of a change is %v", err)
			}
			return nil
		}}
	}
	t.Run("mutators work in order on one pod, and their changes are one patch", func(t *testing.T) {
		namespace := Mutator{Name: "namespace", Mutate: func(_ context.Context, request *Request) error {
			if pod, err := request.Pod(); err != nil || pod.Namespace != "shop" || pod.Annotations["order"] != "a" {
				t.Errorf("sees %+v, %v", pod, err)
			}
			return nil
		}}
		response := ask(t, creation(`{"metadata":{"name":"p"}}`), appending("a"), namespace, appending("b"))
		want := `[{"op":"add","path":"/metadata/annotations","value":{"order":"ab"}}]`
		if !response.Allowed || *response.PatchType != admissionv1.PatchTypeJSONPatch || string(response.Patch) != want {
			t.Errorf("%v %s", response.Allowed, response.Patch)
		}
	})
	t.Run("a change that fails changes nothing", func(t *testing.T) {
		response := ask(
			t,
			creation(`{"metadata":{"annotations":{"order":"x"}}}`),
			failing(func(pod *corev1.Pod) { pod.Annotations["order"] = "lost" }),
			appending("b"),
		)
		if want := `[{"op":"add","path":"/metadata/annotations/order","value":"xb"}]`; strings.ReplaceAll(
			string(response.Patch),
			"replace",
			"add",
		) != want {
			t.Errorf("%s", response.Patch)
		}
	})
	t.Run("no change, no patch", func(t *testing.T) {
		response := ask(
			t,
			creation(`{}`),
			failing(func(*corev1.Pod) {}),
			Mutator{Mutate: func(_ context.Context, request *Request) error {
				return request.Change(func(*corev1.Pod) error { return nil })
			}},
		)
		if !response.Allowed || response.Patch != nil || response.PatchType != nil {
			t.Errorf("%+v", response)
		}
	})
	t.Run("an error refuses the pod with its message", func(t *testing.T) {
		refusing := Mutator{Name: "Sidecar", Mutate: func(context.Context, *Request) error { return boom }}
		response := ask(t, creation(`{}`), appending("a"), refusing, failing(nil))
		if response.Allowed || response.Patch != nil || response.Result.Message != "Sidecar: boom" ||
			response.Result.Code != http.StatusForbidden {
			t.Errorf("%+v", response)
		}
	})
	t.Run("waits for caches are bounded", func(t *testing.T) {
		waiting := Mutator{Name: "waiting", Mutate: func(ctx context.Context, _ *Request) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		body, err := json.Marshal(&admissionv1.AdmissionReview{Request: creation(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body))
		NewHandler(logr.Discard(), time.Millisecond, waiting).ServeHTTP(answer, request)
		if !strings.Contains(answer.Body.String(), "waiting: context deadline exceeded") {
			t.Errorf("answered %s", answer.Body)
		}
	})
	t.Run("a pod that cannot be decoded is an error of those that read it", func(t *testing.T) {
		reading := Mutator{Name: "reading", Mutate: func(_ context.Context, request *Request) error {
			_, err := request.Pod()
			if again := request.Change(func(*corev1.Pod) error { return nil }); err == nil || !errors.Is(again, err) {
				t.Errorf("errors %v and %v", err, again)
			}
			return nil
		}}
		if response := ask(t, creation(`{"spec":3}`), reading, reading); !response.Allowed || response.Patch != nil {
			t.Errorf("%+v", response)
		}
	})
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"an update":    func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"an eviction":  func(r *admissionv1.AdmissionRequest) { r.SubResource = "eviction" },
		"another kind": func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Node" },
		"a deletion":   func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
	} {
		t.Run(name+" passes no mutator", func(t *testing.T) {
			request := creation(`{}`)
			change(request)
			if response := ask(t, request, appending("a")); !response.Allowed || response.Patch != nil {
				t.Errorf("%+v", response)
			}
		})
	}
	for name, body := range map[string]string{
		"no review": `{"request":[]}`, "a review without a request": `{}`, "too much": strings.Repeat(" ", maxReview+1),
	} {
		t.Run(name+" is a failed call", func(t *testing.T) {
			if answer := post(t, []byte(body)); answer.Code != http.StatusInternalServerError {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		})
	}
}

// TestMetrics: each answer is measured, and those that waited for a cache are counted.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	measured, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err != nil {
		t.Errorf("a second replica in the same process: %v", err)
	}
	waits := true
	mutator := Mutator{Name: "test", Mutate: func(_ context.Context, r *Request) error {
		if waits {
			r.Waited()
		}
		return nil
	}}
	handler := newHandler(logr.Discard(), time.Minute, measured, []Mutator{mutator})
	for _, waits = range []bool{true, false, false} {
		body := `{"request":{"operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":{}}}`
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		metric := family.GetMetric()[0]
		got[family.GetName()] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
	}
	if got[SecondsMetric] != 3 || got[WaitsMetric] != 1 {
		t.Errorf("%v", got)
	}
}

// TestRefusalThatPasses: the API server answers 429, after which clients try again by themselves.
func TestRefusalThatPasses(t *testing.T) {
	for _, tt := range []struct {
		err   error
		code  int32
		again int32
	}{
		{errors.New("no"), http.StatusForbidden, 0},
		{Later(errors.New("not yet")), http.StatusTooManyRequests, 1},
	} {
		got := ask(t, creation("{}"), Mutator{Name: "m", Mutate: func(context.Context, *Request) error { return tt.err }})
		again := int32(0)
		if got.Result.Details != nil {
			again = got.Result.Details.RetryAfterSeconds
		}
		if got.Allowed || got.Result.Code != tt.code || again != tt.again || got.Result.Message != "m: "+tt.err.Error() {
			t.Errorf("%v: %+v", tt.err, got.Result)
		}
	}
}
