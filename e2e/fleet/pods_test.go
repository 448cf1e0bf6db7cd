package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestPods holds what the simulated kubelets promise to workload controllers.
func TestPods(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{NoHub: true, Members: []fleet.ClusterSpec{{Name: "east", Nodes: []fleet.NodeSpec{
		{Name: "free", Region: "eu", Zone: "a"},
		{Name: "full", Zone: "full", Pods: 1},
		{Name: "tainted", Zone: "tainted", Taints: []corev1.Taint{{Key: "only", Value: "others",
			Effect: corev1.TaintEffectNoSchedule}}},
	}}}})
	c := client(t, f.Member("east"))
	for _, test := range []struct {
		name string
		run  func(*podTest)
	}{
		{"a plain pod becomes Ready", (*podTest).plain},
		{"a changed image restarts the container in place", (*podTest).restart},
		{"a pod that takes its time to start", (*podTest).startFor},
		{"Ready follows the readiness gate", (*podTest).gate},
		{"an image that cannot be pulled", (*podTest).badImage},
		{"an in-place change to an image that cannot be pulled", (*podTest).badUpdate},
		{"a container that somebody terminated", (*podTest).terminated},
		{"a tag of the same content", (*podTest).sameContent},
		{"names of images are told in full", (*podTest).names},
		{"a resize without a restart", (*podTest).resize},
		{"a resize that demands a restart", (*podTest).resizeRestart},
		{"a resize that the node cannot give", (*podTest).resizeRefused},
		{"a pod that never gets ready", (*podTest).neverReady},
		{"init containers and sidecars", (*podTest).initContainers},
		{"an init container whose image cannot be pulled", (*podTest).badInit},
		{"a pod that may finish does", (*podTest).finish},
		{"a pod that fails", (*podTest).fail},
		{"a finalizer holds a pod that is to go", (*podTest).finalizer},
		{"a full node", (*podTest).full},
		{"a tainted node", (*podTest).tainted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns, err := c.CoreV1().Namespaces().Create(t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "wait for the namespace's service account", func(ctx context.Context) string {
				if _, err := c.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
					return err.Error()
				}
				return ""
			})
			test.run(&podTest{T: t, client: c, pods: c.CoreV1().Pods(ns.Name)})
		})
	}
}

type podTest struct {
	*testing.T
	client *kubernetes.Clientset
	pods   typedcorev1.PodInterface
}

const good, better, bad = "registry.test/web:1", "registry.test/web:2", "registry.test/does-not-exist:1"

func (t *podTest) create(change func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelTopologyZone: "a"},
			Containers:   []corev1.Container{{Name: "web", Image: good}},
		},
	}
	if change != nil {
		change(pod)
	}
	if _, err := t.pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// until waits for a pod on which check finds nothing wrong, and returns it.
func (t *podTest) until(what string, check func(*corev1.Pod) string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t.T, what, func(ctx context.Context) string {
		var err error
		if pod, err = t.pods.Get(ctx, "p", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if wrong := check(pod); wrong != "" {
			return fmt.Sprintf("%s: %+v", wrong, pod.Status)
		}
		return ""
	})
	return pod
}

func (t *podTest) setImage(image string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"web","image":%q}]}}`, image)
	if _, err := t.pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return &corev1.PodCondition{Status: "missing"}
}

// isReady wants the pod Ready with the image in its only container, and its status up to date.
func isReady(image string) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		switch {
		case condition(pod, corev1.PodReady).Status != corev1.ConditionTrue:
			return "not Ready"
		case pod.Status.ObservedGeneration != pod.Generation:
			return "the status is of an older spec"
		case len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].Image != image ||
			!pod.Status.ContainerStatuses[0].Ready:
			return "not ready with image " + image
		}
		return ""
	}
}

func waitsForImage(pod *corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil ||
		pod.Status.ContainerStatuses[0].State.Waiting.Reason != "ImagePullBackOff" {
		return "the container does not wait for its image"
	}
	if condition(pod, corev1.PodReady).Status != corev1.ConditionFalse ||
		condition(pod, corev1.ContainersReady).Status != corev1.ConditionFalse {
		return "it is not unready"
	}
	return ""
}

func (t *podTest) plain() {
	t.create(nil)
	pod := t.until("Ready", isReady(good))
	status := pod.Status.ContainerStatuses[0]
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || pod.Status.HostIP == "" ||
		status.ContainerID == "" ||
		status.ImageID == "" || status.RestartCount != 0 || status.State.Running == nil {
		t.Errorf("a Ready pod's status lacks something: %+v", pod.Status)
	}
	if err := t.pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t.T, "gone after a graceful deletion", func(ctx context.Context) string {
		if _, err := t.pods.Get(ctx, "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("still there: ", err)
		}
		return ""
	})
}

func (t *podTest) startFor() {
	const long = 2 * time.Second // times in a status are whole seconds
	t.create(func(pod *corev1.Pod) { pod.Annotations = map[string]string{fleet.AnnotationStartFor: long.String()} })
	pod := t.until("Ready", isReady(good))
	if took := condition(pod,
		corev1.PodReady).LastTransitionTime.Sub(pod.CreationTimestamp.Time); took < long-time.Second {
		t.Errorf("Ready after %s", took)
	}
	t.setImage(better)
	stopped := t.until("stopped", func(pod *corev1.Pod) string {
		if condition(pod, corev1.PodReady).Status != corev1.ConditionFalse {
			return "still Ready"
		}
		return ""
	})
	pod = t.until("restarted", isReady(better))
	if took := condition(pod, corev1.PodReady).LastTransitionTime.Sub(condition(stopped,
		corev1.PodReady).LastTransitionTime.Time); took < long-time.Second {
		t.Errorf("Ready again after %s", took)
	}
}

func (t *podTest) restart() {
	t.create(nil)
	before := t.until("Ready", isReady(good))
	watch, err := t.pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	t.setImage(better)
	after := t.until("restarted", isReady(better))
	was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if after.UID != before.UID || after.Status.PodIP != before.Status.PodIP {
		t.Error("it is another pod")
	}
	if is.RestartCount != 1 || is.ContainerID == was.ContainerID || is.ImageID == was.ImageID {
		t.Errorf("not a restart: before %+v, after %+v", was, is)
	}
	if is.LastTerminationState.Terminated == nil {
		t.Error("the former run is not told")
	}
	unready := false
	for event := range watch.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || pod.ResourceVersion == after.ResourceVersion {
			break
		}
		unready = unready || condition(pod, corev1.PodReady).Status == corev1.ConditionFalse
	}
	if !unready {
		t.Error("the pod stayed Ready while its container restarted")
	}
}

func (t *podTest) gate() {
	const gate = "flotilla.dev/test"
	set := func(status corev1.ConditionStatus) {
		t.Helper()
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, gate, status)
		if _, err := t.pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{},
			"status"); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(want corev1.ConditionStatus) func(*corev1.Pod) string {
		return func(pod *corev1.Pod) string {
			if got := condition(pod, corev1.PodReady).Status; got != want {
				return fmt.Sprintf("Ready is %s, want %s", got, want)
			}
			if condition(pod, corev1.ContainersReady).Status != corev1.ConditionTrue {
				return "the containers are not ready"
			}
			return ""
		}
	}
	t.create(func(pod *corev1.Pod) { pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}} })
	pod := t.until("shut from the start", ready(corev1.ConditionFalse))
	if got := condition(pod, gate).Status; got != "missing" {
		t.Errorf("the gate was set to %s by the kubelet", got)
	}
	set(corev1.ConditionTrue)
	t.until("opened", ready(corev1.ConditionTrue))
	set(corev1.ConditionFalse)
	t.until("shut again", ready(corev1.ConditionFalse))
	t.setImage(better)
	t.until("restarted with a shut gate", func(pod *corev1.Pod) string {
		if pod.Status.ContainerStatuses[0].Image != better {
			return "not restarted"
		}
		return ready(corev1.ConditionFalse)(pod)
	})
	set(corev1.ConditionTrue)
	t.until("opened after the restart", ready(corev1.ConditionTrue))
}

func (t *podTest) badImage() {
	t.create(func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = bad })
	pod := t.until("waiting", waitsForImage)
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s, want Pending", pod.Status.Phase)
	}
	t.setImage(good)
	pod = t.until("recovered", isReady(good))
	if pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("phase %s, restarts %d, want Running and 0", pod.Status.Phase, pod.Status.ContainerStatuses[0].RestartCount)
	}
}

func (t *podTest) badUpdate() {
	t.create(nil)
	before := t.until("Ready", isReady(good)).Status.ContainerStatuses[0]
	t.setImage(bad)
	pod := t.until("waiting", waitsForImage)
	is := pod.Status.ContainerStatuses[0]
	if pod.Status.Phase != corev1.PodRunning || is.Image != good || is.ImageID != before.ImageID {
		t.Errorf("phase %s, image %s (%s); real kubelets keep Running and the old image", pod.Status.Phase, is.Image,
			is.ImageID)
	}
	t.setImage(good)
	after := t.until("recovered", isReady(good)).Status.ContainerStatuses[0]
	if after.RestartCount != 1 || after.ImageID != before.ImageID || after.ContainerID == before.ContainerID {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func (t *podTest) neverReady() {
	t.create(func(pod *corev1.Pod) { pod.Labels = map[string]string{fleet.LabelNeverReady: "true"} })
	t.until("running but not ready", func(pod *corev1.Pod) string {
		if pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].Ready ||
			condition(pod, corev1.PodReady).Status != corev1.ConditionFalse {
			return "it is not running and unready"
		}
		return ""
	})
	if _, err := t.pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := t.until("ready without the label", isReady(good))
	if pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("becoming ready restarted the container")
	}
}

func (t *podTest) initContainers() {
	t.create(func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "once", Image: good},
			{Name: "side", Image: good, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
		}
	})
	pod := t.until("Ready", isReady(good))
	if len(pod.Status.InitContainerStatuses) != 2 || pod.Status.InitContainerStatuses[0].State.Terminated == nil ||
		pod.Status.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("init containers: %+v", pod.Status.InitContainerStatuses)
	}
	patch := fmt.Sprintf(`{"spec":{"initContainers":[{"name":"side","image":%q}]}}`, better)
	if _, err := t.pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod = t.until("the sidecar restarted", func(pod *corev1.Pod) string {
		if side := pod.Status.InitContainerStatuses[1]; side.Image != better || side.RestartCount != 1 {
			return "the sidecar did not restart"
		}
		return isReady(good)(pod)
	})
	if pod.Status.ContainerStatuses[0].RestartCount != 0 || pod.Status.InitContainerStatuses[0].State.Terminated == nil {
		t.Errorf("other containers were touched: %+v", pod.Status)
	}
}

func (t *podTest) badInit() {
	t.create(func(pod *corev1.Pod) { pod.Spec.InitContainers = []corev1.Container{{Name: "once", Image: bad}} })
	t.until("held by its init container", func(pod *corev1.Pod) string {
		if len(pod.Status.InitContainerStatuses) == 0 || pod.Status.InitContainerStatuses[0].State.Waiting == nil ||
			pod.Status.Phase != corev1.PodPending ||
			condition(pod, corev1.PodInitialized).Status != corev1.ConditionFalse ||
			pod.Status.ContainerStatuses[0].State.Waiting == nil {
			return "it does not wait"
		}
		return ""
	})
	patch := fmt.Sprintf(`{"spec":{"initContainers":[{"name":"once","image":%q}]}}`, good)
	if _, err := t.pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	t.until("recovered", isReady(good))
}

func (t *podTest) finish() {
	t.create(func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		pod.Annotations = map[string]string{fleet.AnnotationRunFor: "50ms"}
	})
	t.until("finished", func(pod *corev1.Pod) string {
		if pod.Status.Phase != corev1.PodSucceeded || pod.Status.ContainerStatuses[0].State.Terminated == nil {
			return "not finished"
		}
		return ""
	})
}

func (t *podTest) fail() {
	t.create(func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Annotations = map[string]string{fleet.AnnotationExitCode: "3"}
	})
	t.until("failed", func(pod *corev1.Pod) string {
		if pod.Status.Phase != corev1.PodFailed || pod.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
			return "not failed"
		}
		return ""
	})
}

func (t *podTest) finalizer() {
	t.create(func(pod *corev1.Pod) { pod.Finalizers = []string{"flotilla.dev/test"} })
	t.until("Ready", isReady(good))
	if err := t.pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.until("held", func(pod *corev1.Pod) string {
		if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 0 {
			return "the kubelet has not let it go"
		}
		return ""
	})
	if _, err := t.pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t.T, "gone", func(ctx context.Context) string {
		if _, err := t.pods.Get(ctx, "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("still there: ", err)
		}
		return ""
	})
}

func unschedulable(pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodScheduled); c.Status != corev1.ConditionFalse ||
		c.Reason != corev1.PodReasonUnschedulable {
		return "it is not Unschedulable"
	}
	return ""
}

func (t *podTest) full() {
	on := func(pod *corev1.Pod) { pod.Spec.NodeSelector[corev1.LabelTopologyZone] = "full" }
	t.create(func(pod *corev1.Pod) { on(pod); pod.Name = "first" })
	eventually(t.T, "the first pod is on the node", func(ctx context.Context) string {
		pod, err := t.pods.Get(ctx, "first", metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != "full" {
			return fmt.Sprint("not yet: ", err)
		}
		return ""
	})
	t.create(on)
	t.until("no place for the second", unschedulable)
	if err := t.pods.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.until("the second takes the place", isReady(good))
}

func (t *podTest) tainted() {
	t.create(func(pod *corev1.Pod) {
		pod.Spec.NodeSelector[corev1.LabelTopologyZone] = "tainted"
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	})
	t.until("kept off", unschedulable)
}
