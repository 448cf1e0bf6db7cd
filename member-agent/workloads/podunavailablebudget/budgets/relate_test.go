package budgets

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// synced says whether everything has been listed.
type synced bool

func (s synced) Synced() bool { return bool(s) }

// created returns the patch of a new pod.
func created(t *testing.T, r *relator, pod *corev1.Pod) string {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "1",
		Namespace: pod.Namespace, Name: pod.Name, Operation: admissionv1.Create,
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: data}}})
	if err != nil {
		t.Fatal(err)
	}
	handler := admission.NewHandler(logr.Discard(), time.Minute, admission.Mutator{Name: "budgets", Mutate: r.mutate})
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
		strings.NewReader(string(body))))
	review := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || !review.Response.Allowed {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	return string(review.Response.Patch)
}

func TestNewPodsNameTheirBudget(t *testing.T) {
	budgetNamed := func(name string, edit func(*v1beta1.PodUnavailableBudget)) *v1beta1.PodUnavailableBudget {
		pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		edit(pub)
		return pub
	}
	child := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-east-x1",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment",
			Name: "web", Controller: new(true)}}}}
	k := keeperOf(t, child,
		budgetNamed("a", func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
		}),
		budgetNamed("b", func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "apps.kruise.io/v1alpha1",
				Kind: "UnitedDeployment", Name: "web"}
		}),
		budgetNamed("c", func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front", "app": "web"}}
		}))
	front := func(pod *corev1.Pod) { pod.Labels["tier"] = "front" }
	united := ownedPod("web-east-x1-0", "apps.kruise.io/v1beta1", "StatefulSet", "web-east-x1")
	for name, row := range map[string]struct {
		pod    *corev1.Pod
		synced bool
		want   string
	}{
		"no budget":                {ownedPod("db-0", "", "", ""), true, ""},
		"the first of two budgets": {changed(ownedPod("web-0", "", "", ""), front), true, "a"},
		"a UnitedDeployment":       {united, true, "b"},
		"another namespace": {changed(ownedPod("web-0", "", "", ""), func(pod *corev1.Pod) {
			front(pod)
			pod.Namespace = "elsewhere"
		}), true, ""},
		"it names one": {changed(united, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1beta1.AnnotationFormerRelatedPub: "x"}
		}), true, ""},
		"nothing is listed": {united, false, ""},
	} {
		r := &relator{k, synced(row.synced), logr.Discard()}
		patch := created(t, r, row.pod)
		if row.want == "" && patch == "" || row.want != "" && strings.Count(patch, `"`+row.want+`"`) == 2 {
			continue
		}
		t.Errorf("%s: %s", name, patch)
	}
	k.options.Federated = func(context.Context, string) (bool, error) { return true, nil }
	if patch := created(t, &relator{k, synced(true), logr.Discard()}, united); patch != "" {
		t.Errorf("a hub's namespace: %s", patch)
	}
}

func TestNewPodsThatAreSent(t *testing.T) {
	pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	pub.Spec.Flotilla = &v1beta1.PodUnavailableBudgetSettings{FailurePolicy: v1beta1.PubFail}
	r := &relator{keeperOf(t, pub), synced(true), logr.Discard()}
	scopes, err := r.scope(t.Context())
	if err != nil || len(scopes) != 1 || scopes[0].FailurePolicy != "Ignore" {
		t.Fatalf("%v, %v", scopes, err)
	}
	for label, want := range map[string]bool{"web": true, "db": false} {
		pod := ownedPod("web-0", "", "", "")
		pod.Labels["app"] = label
		request := request{operation: "CREATE", namespace: "shop", after: pod}
		if got := request.holds(t, scopes[0].Condition); got != want {
			t.Errorf("%s: %t", label, got)
		}
	}
}
