package guard_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest/guard"
)

// podOf returns a running pod with the containers web, which has a hook over HTTP, and log, which has none.
func podOf() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-1"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", TerminationGracePeriodSeconds: new(int64(45)),
			InitContainers: []corev1.Container{{Name: "setup"}},
			Containers: []corev1.Container{
				{Name: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}, Lifecycle: &corev1.Lifecycle{
					PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}}},
				{Name: "log"}, {Name: "slow"},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "web", ContainerID: "containerd://w", RestartCount: 2}, {Name: "log", ContainerID: "containerd://l"},
			{Name: "slow"},
		}},
	}
}

func requestFor(containers ...string) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "restart"},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: "web-1"}}
	for _, name := range containers {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	return r
}

func handle(t *testing.T, request *v1beta1.ContainerRecreateRequest, there ...client.Object) admission.Response {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(there...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
			pod, _ := object.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		}).Build()
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return guard.New(reader).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Object: runtime.RawExtension{Raw: raw}}})
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request *v1beta1.ContainerRecreateRequest
		change  func(*corev1.Pod)
		want    string
	}{
		{"no such pod", requestFor("web"), func(p *corev1.Pod) { p.Name = "other" }, "namespace shop has no such pod"},
		{"deleted", requestFor("web"), func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"a/b"}
		}, "pod web-1 is being deleted"},
		{"ended", requestFor("web"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, "has ended (Succeeded)"},
		{"on no node", requestFor("web"), func(p *corev1.Pod) { p.Spec.NodeName = "" }, "is on no node yet"},
		{"a node with a long name", requestFor("web"), func(p *corev1.Pod) { p.Spec.NodeName = strings.Repeat("n", 64) },
			"at most 63 characters"},
		{"no such container", requestFor("web", "db"), nil, "spec.containers[1]: pod web-1 has no container db"},
		{"an init container", requestFor("setup"), nil, "setup is an init container"},
		{"not started", requestFor("slow"), nil, "container slow of pod web-1 has not started yet"},
		{"filled in by the user", func() *v1beta1.ContainerRecreateRequest {
			r := requestFor("web")
			r.Spec.Containers[0].StatusContext = &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "x"}
			return r
		}(), nil, "leave them out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := podOf()
			if tt.change != nil {
				tt.change(pod)
			}
			got := handle(t, tt.request, pod)
			if got.Allowed || got.Result.Code != 400 || !strings.Contains(got.Result.Message, tt.want) {
				t.Errorf("allowed %t, %+v", got.Allowed, got.Result)
			}
		})
	}
}

func TestLeavesToTheDefinitionWhatItSays(t *testing.T) {
	if got := handle(t, requestFor(), podOf()); !got.Allowed || len(got.Patches) > 0 {
		t.Errorf("a request without containers: %+v", got)
	}
}

func TestFillsIn(t *testing.T) {
	request, pod := requestFor("log", "web"), podOf()
	if wrong := guard.Fill(request, pod); wrong != "" {
		t.Fatal(wrong)
	}
	labels := map[string]string{v1beta1.LabelCRRActive: "true", v1beta1.LabelCRRNodeName: "node-1",
		v1beta1.LabelCRRPodUID: "uid-1"}
	for key, want := range labels {
		if request.Labels[key] != want {
			t.Errorf("label %s is %q", key, request.Labels[key])
		}
	}
	log, web := request.Spec.Containers[0], request.Spec.Containers[1]
	if log.PreStop != nil || log.Ports != nil || log.StatusContext.ContainerID != "containerd://l" {
		t.Errorf("log: %+v", log)
	}
	if web.PreStop.HTTPGet == nil || len(web.Ports) != 1 || web.StatusContext.RestartCount != 2 {
		t.Errorf("web: %+v", web)
	}
	if s := request.Spec.Strategy; s.FailurePolicy != v1beta1.CRRFail || *s.TerminationGracePeriodSeconds != 45 {
		t.Errorf("strategy: %+v", s)
	}
}

func TestKeepsTheGracePeriodOfTheRequest(t *testing.T) {
	request := requestFor("log")
	request.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: new(int64(0))}
	if wrong := guard.Fill(request, podOf()); wrong != "" || *request.Spec.Strategy.TerminationGracePeriodSeconds != 0 {
		t.Errorf("%s %+v", wrong, request.Spec.Strategy)
	}
}

func TestATerminatedSidecarIsStoppedAfterItsPodHasEnded(t *testing.T) {
	pod := podOf()
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.Conditions = []corev1.PodCondition{{Type: guard.ConditionSidecarTerminated, Status: corev1.ConditionTrue}}
	if wrong := guard.Fill(requestFor("log"), pod); wrong != "" {
		t.Error(wrong)
	}
}

func TestWarnsOfANodeWithoutTheDaemon(t *testing.T) {
	daemon := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flotilla-system", Name: "d",
			Labels: map[string]string{"app.kubernetes.io/name": "flotilla-node"}},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for name, want := range map[string]int{"node-1": 0, "node-2": 1} {
		daemon.Spec.NodeName = name
		got := handle(t, requestFor("log"), podOf(), daemon.DeepCopy())
		if !got.Allowed || len(got.Patches) == 0 || len(got.Warnings) != want {
			t.Errorf("daemon on %s: allowed %t with %d changes, warnings %v", name, got.Allowed, len(got.Patches), got.Warnings)
		}
	}
}

func TestLabelsOfTheNodeDoNotChange(t *testing.T) {
	labelled := func(value string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"crr.apps.kruise.io/node-name":"` + value + `"}}}`)}
	}
	for value, allowed := range map[string]bool{"node-1": true, "node-2": false} {
		got := guard.New(nil).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: labelled("node-1"), Object: labelled(value)}})
		if got.Allowed != allowed || !allowed && got.Result.Code != 403 {
			t.Errorf("to %s: allowed %t, %+v", value, got.Allowed, got.Result)
		}
	}
}
