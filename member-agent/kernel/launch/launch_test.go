package launch

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podOf returns a pod "web" with containers of these priorities; "" is none.
func podOf(priorities ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for i, priority := range priorities {
		c := corev1.Container{Name: fmt.Sprint("c", i)}
		if priority != "" {
			c.Env = []corev1.EnvVar{{Name: EnvPriority, Value: priority}, {Name: "other"}}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

func ordered(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = map[string]string{Annotation: Ordered}
	return pod
}

func TestNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
		errs bool
	}{
		"none":                    {pod: podOf("", "")},
		"one container":           {pod: ordered(podOf(""))},
		"ordered":                 {pod: ordered(podOf("", "")), want: true},
		"ordered before numbers":  {pod: ordered(podOf("x", "1")), want: true},
		"all the same":            {pod: podOf("3", "3")},
		"the same as none":        {pod: podOf("0", "")},
		"different":               {pod: podOf("1", ""), want: true},
		"not a number":            {pod: podOf("1", "high"), errs: true},
		"an empty one":            {pod: podOf("", "1"), want: true},
		"below those without one": {pod: podOf("-1", ""), want: true},
	} {
		got, err := Needed(test.pod)
		if got != test.want || (err != nil) != test.errs {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

func TestDue(t *testing.T) {
	pod := podOf("5", "", "5", "-1")
	if Waits(pod) {
		t.Error("it waits without a barrier")
	}
	Inject(pod)
	Inject(pod) // once more changes nothing
	if env := pod.Spec.Containers[0].Env; len(env) != 3 || env[2].ValueFrom.ConfigMapKeyRef.Key != "p_5" || !Waits(pod) {
		t.Errorf("environment %+v", env)
	}
	start := func(i int, state corev1.ContainerState, ready bool) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: fmt.Sprint("c", i), Ready: ready, State: state})
	}
	expect := func(want string) {
		t.Helper()
		keys, done := Due(pod)
		if got := fmt.Sprint(keys, done); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	expect("[p_5] false")
	start(0, corev1.ContainerState{}, true)
	start(2, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}, false)
	expect("[p_5] false")
	pod.Status.ContainerStatuses[1].State.Terminated.ExitCode = 0
	expect("[p_5 p_0] false")
	start(1, corev1.ContainerState{}, true)
	expect("[p_5 p_0 p_-1] false")
	start(3, corev1.ContainerState{}, true)
	expect("[p_5 p_0 p_-1] true")
}

func TestLacks(t *testing.T) {
	pod := ordered(podOf("", "", ""))
	Inject(pod)
	if got := fmt.Sprint(Keys(pod)); got != "[p_0 p_-1 p_-2]" {
		t.Errorf("keys %s", got)
	}
	for name, test := range map[string]struct {
		container, reason, message string
		want                       bool
	}{
		"no ConfigMap": {"c0", "CreateContainerConfigError", `configmap "web-barrier" not found`, true},
		"no key":       {"c1", "CreateContainerConfigError", "couldn't find key p_-1 in ConfigMap default/web-barrier", true},
		"another one":  {"c0", "CreateContainerConfigError", `configmap "my-web-barrier" not found`, false},
		"an image":     {"c0", "ImagePullBackOff", "web-barrier", false},
		"not due":      {"c2", "CreateContainerConfigError", `configmap "web-barrier" not found`, false},
		"a sidecar":    {"other", "CreateContainerConfigError", `configmap "web-barrier" not found`, false},
	} {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: test.container, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: test.reason, Message: test.message}}}}
		if Lacks(pod, []string{"p_0", "p_-1"}) != test.want {
			t.Errorf("%s: %t", name, !test.want)
		}
	}
}
