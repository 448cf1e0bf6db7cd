package budgets

import (
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
)

func aPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1",
		ResizePolicy: []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		}}}}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// sidecar adds an init container that restarts for memory.
func sidecar(pod *corev1.Pod) {
	c := *pod.Spec.Containers[0].DeepCopy()
	c.Name = "proxy"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
}

func limitOf(name corev1.ResourceName) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse("2")}
	}
}

func TestWhatAChangeDoes(t *testing.T) {
	for name, row := range map[string]struct {
		change              func(*corev1.Pod)
		disrupts, restarted bool
	}{
		"nothing":  {func(*corev1.Pod) {}, false, false},
		"an image": {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:2" }, true, false},
		"a label":  {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, false, false},
		"a mark": {func(p *corev1.Pod) {
			p.Labels = map[string]string{"unavailable-pod.kruise.io/x": ""}
		}, true, false},
		"a deadline":       {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }, true, false},
		"cpu in service":   {limitOf(corev1.ResourceCPU), false, false},
		"memory restarts":  {limitOf(corev1.ResourceMemory), false, true},
		"init container":   {func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Image: "a"}} }, true, false},
		"unknown resource": {limitOf("example.com/gpu"), false, false},
	} {
		if got := disrupts(aPod(), aPod(row.change)); got != row.disrupts {
			t.Errorf("%s: disrupts %t", name, got)
		}
		if got := restarts(aPod(), aPod(row.change)); got != row.restarted {
			t.Errorf("%s: restarts %t", name, got)
		}
	}
}

func TestResizeOfASidecar(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{corev1.ResourceCPU: false, corev1.ResourceMemory: true} {
		after := aPod(sidecar)
		after.Spec.InitContainers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse("2")}
		if got := restarts(aPod(sidecar), after); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDryRun(t *testing.T) {
	for body, want := range map[string]bool{
		`{}`: false, `{"deleteOptions":{"dryRun":["All"]}}`: true, `{"deleteOptions":{}}`: false,
	} {
		got, err := isDryRun(&admissionv1.AdmissionRequest{SubResource: "eviction",
			Object: runtime.RawExtension{Raw: []byte(body)}})
		if err != nil || got != want {
			t.Errorf("%s: %t, %v", body, got, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, row := range []struct {
		operation v1beta1.PubOperation
		why       disruption.Why
		code      int32
		retry     int32
	}{
		{v1beta1.PubEvictOperation, disruption.WhyExhausted, http.StatusTooManyRequests, 0},
		{v1beta1.PubEvictOperation, disruption.WhyConflict, http.StatusTooManyRequests, 1},
		{v1beta1.PubDeleteOperation, disruption.WhyExhausted, http.StatusForbidden, 0},
		{v1beta1.PubUpdateOperation, disruption.WhyNotObserved, http.StatusForbidden, 0},
	} {
		status := statusOf(&disruption.Refusal{Budget: "web", Pod: "web-0", Operation: row.operation, Why: row.why})
		if status.Code != row.code || status.Details.RetryAfterSeconds != row.retry || len(status.Details.Causes) != 1 {
			t.Errorf("%s %s: %+v", row.operation, row.why, status)
		}
	}
}
