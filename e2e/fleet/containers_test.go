package fleet_test

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// terminated is what a node daemon does to restart a container.
func (t *podTest) terminated() {
	t.create(nil)
	pod := t.until("Ready", isReady(good))
	was := pod.Status.ContainerStatuses[0]
	statuses := pod.DeepCopy().Status.ContainerStatuses
	statuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	statuses[0].Ready = false
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"containerStatuses": statuses}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := t.pods.Patch(t.Context(), "p", types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
	after := t.until("restarted", func(pod *corev1.Pod) string {
		if pod.Status.ContainerStatuses[0].ContainerID == was.ContainerID {
			return "it is the same container"
		}
		return isReady(good)(pod)
	})
	if is := after.Status.ContainerStatuses[0]; is.RestartCount != 1 || is.ImageID != was.ImageID ||
		is.State.Running == nil || after.UID != pod.UID {
		t.Errorf("before %+v, after %+v", was, is)
	}
}

func (t *podTest) sameContent() {
	t.create(nil)
	was := t.until("Ready", isReady(good)).Status.ContainerStatuses[0]
	for restarts, image := range []string{good + "-again", good} {
		t.setImage(image)
		pod := t.until("restarted", func(pod *corev1.Pod) string {
			if pod.Status.ContainerStatuses[0].ContainerID == was.ContainerID {
				return "it is the same container"
			}
			return isReady(good)(pod)
		})
		is := pod.Status.ContainerStatuses[0]
		if is.RestartCount != int32(restarts)+1 || is.ImageID != was.ImageID {
			t.Errorf("before %+v, after %+v", was, is)
		}
		was = is
	}
}

func (t *podTest) names() {
	t.create(func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "nginx" })
	for restarts, image := range []struct{ spec, status string }{
		{"nginx", "docker.io/library/nginx:latest"},
		{"nginx:2", "docker.io/library/nginx:2"},
		{"me/app", "docker.io/me/app:latest"},
		{"localhost/app", "localhost/app:latest"},
		{"registry.test:5000/app@sha256:ab", "registry.test:5000/app@sha256:ab"},
	} {
		t.setImage(image.spec)
		pod := t.until("runs "+image.spec, isReady(image.status))
		if is := pod.Status.ContainerStatuses[0]; is.RestartCount != int32(restarts) {
			t.Errorf("%s: %d restarts, want %d", image.spec, is.RestartCount, restarts)
		}
	}
}

// setCPU asks for this much cpu, through the resize subresource.
func (t *podTest) setCPU(cpu string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":%q}}}]}}`, cpu)
	if _, err := t.pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{},
		"resize"); err != nil {
		t.Fatal(err)
	}
}

func (t *podTest) createWithCPU(policy corev1.ResourceResizeRestartPolicy) corev1.ContainerStatus {
	t.Helper()
	t.create(func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("1Mi")}
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: policy}}
	})
	return t.until("Ready", hasCPU("100m")).Status.ContainerStatuses[0]
}

func hasCPU(cpu string) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		if wrong := isReady(good)(pod); wrong != "" {
			return wrong
		}
		status := pod.Status.ContainerStatuses[0]
		if status.Resources == nil || status.Resources.Requests.Cpu().String() != cpu ||
			status.AllocatedResources.Cpu().String() != cpu {
			return "it has not " + cpu
		}
		return ""
	}
}

func (t *podTest) resize() {
	was := t.createWithCPU(corev1.NotRequired)
	t.setCPU("200m")
	is := t.until("resized", hasCPU("200m")).Status.ContainerStatuses[0]
	if is.ContainerID != was.ContainerID || is.RestartCount != 0 {
		t.Errorf("it restarted: before %+v, after %+v", was, is)
	}
}

func (t *podTest) resizeRestart() {
	was := t.createWithCPU(corev1.RestartContainer)
	t.setCPU("200m")
	is := t.until("resized", hasCPU("200m")).Status.ContainerStatuses[0]
	if is.ContainerID == was.ContainerID || is.RestartCount != 1 || is.ImageID != was.ImageID {
		t.Errorf("not one restart: before %+v, after %+v", was, is)
	}
}

func (t *podTest) resizeRefused() {
	was := t.createWithCPU(corev1.NotRequired)
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, fleet.LabelNoResize)
	if _, err := t.pods.Patch(t.Context(), "p", types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	t.setCPU("200m")
	pod := t.until("pending", func(pod *corev1.Pod) string {
		if condition(pod, corev1.PodResizePending).Status != corev1.ConditionTrue {
			return "the resize is not pending"
		}
		return hasCPU("100m")(pod)
	})
	if is := pod.Status.ContainerStatuses[0]; is.ContainerID != was.ContainerID ||
		condition(pod, corev1.PodResizePending).Reason != corev1.PodReasonInfeasible {
		t.Errorf("before %+v, after %+v", was, pod.Status)
	}
	t.setCPU("100m")
	t.until("no more pending", func(pod *corev1.Pod) string {
		if got := condition(pod, corev1.PodResizePending).Status; got != "missing" {
			return fmt.Sprintf("it is %s", got)
		}
		return hasCPU("100m")(pod)
	})
}
