package inplace_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

func template(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	out := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDiff(t *testing.T) {
	const old = `{metadata: {labels: {app: web, tier: a}}, spec: {containers: [{name: main, image: "nginx:1"}, {name: side, image: "busybox:1", env: [{name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}], initContainers: [{name: init, image: "busybox:1"}]}}`
	replace := func(from, to string) string { return string(bytes.ReplaceAll([]byte(old), []byte(from), []byte(to))) }
	tests := []struct {
		name    string
		updated string
		images  []string
		labels  []string
		refusal string
	}{
		{"nothing", old, nil, nil, ""},
		{"one image", replace("nginx:1", "nginx:2"), []string{"main"}, nil, ""},
		{"an image whose default pull policy differs", replace("nginx:1", "nginx"), []string{"main"}, nil, ""},
		{"a label more", replace("{app: web, ", "{app: web, team: x, "), nil, []string{"team"}, ""},
		{"a label less", replace("app: web, ", ""), nil, []string{"app"}, ""},
		{"an annotation", replace("metadata: {", "metadata: {annotations: {a: b}, "), nil, nil, ""},
		{"a label that the environment reads", replace("tier: a", "tier: b"), nil, []string{"tier"}, ""},
		{"an init container", replace(`{name: init, image: "busybox:1"}`, `{name: init, image: "busybox:2"}`), nil, nil,
			"spec.initContainers[0].image"},
		{"a new field", replace(`image: "nginx:1"`, `image: "nginx:1", command: [x]`), nil, nil,
			"spec.containers[0].command"},
		{"a field of the pod", replace("spec: {", "spec: {nodeSelector: {a: b}, "), nil, nil, "spec.nodeSelector"},
		{"a container less", replace(`{name: main, image: "nginx:1"}, `, ""), nil, nil, "spec.containers"},
		{"another name", replace("name: main", "name: web"), nil, nil, "spec.containers[0].name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change, refusal, err := inplace.Diff(template(t, old), template(t, tt.updated))
			if err != nil || refusal != tt.refusal {
				t.Fatalf("refusal %q, %v; want %q", refusal, err, tt.refusal)
			}
			if refusal != "" {
				return
			}
			var images, labels []string
			for name := range change.Images {
				images = append(images, name)
			}
			for name := range change.Labels {
				labels = append(labels, name)
			}
			if !slices.Equal(images, tt.images) || !slices.Equal(labels, tt.labels) {
				t.Errorf("images %v, labels %v", images, labels)
			}
		})
	}
}

// runningPod is a pod as a real manager left it: updated in place once.
func runningPod(t *testing.T) *corev1.Pod {
	t.Helper()
	data, err := os.ReadFile("testdata/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func patched(t *testing.T, pod *corev1.Pod, patch []byte, err error) *corev1.Pod {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(pod)
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnUpdateFromBeginningToEnd(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	pod := runningPod(t)
	if got, _ := inplace.Observe(pod, now); got != inplace.Settled {
		t.Fatalf("at first: %v", got)
	}
	change := inplace.Change{Images: map[string]string{"main": "nginx:3"},
		Labels: map[string]*string{"app": nil, "tier": new("b")}}
	w, err := inplace.Begin(pod, change, inplace.Revision{Name: "web-new", Hash: "new"}, inplace.Options{}, now)
	pod = patched(t, pod, w.Status, err)
	pod = patched(t, pod, w.Pod, err)

	if pod.Spec.Containers[0].Image != "nginx:3" || pod.Labels["tier"] != "b" || pod.Labels["app"] != "" {
		t.Errorf("pod has %v and labels %v", pod.Spec.Containers[0].Image, pod.Labels)
	}
	if pod.Labels["controller-revision-hash"] != "web-new" || pod.Labels[v1beta1.LabelPodTemplateHash] != "new" {
		t.Errorf("labels %v", pod.Labels)
	}
	want := `{"revision":"web-new","updateTimestamp":"2026-03-04T05:06:07Z","lastContainerStatuses":{"main":{"imageID":"sim://nginx:2","containerID":"sim://main-2026-11-21T02:47:24.547655461Z"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2026-03-04T05:06:07Z","containers":["main"]}]}`
	if got := pod.Annotations[v1beta1.AnnotationInPlaceUpdateState]; got != want {
		t.Errorf("state\n%s, want\n%s", got, want)
	}
	if got, _ := inplace.Observe(pod, now); got != inplace.Running {
		t.Errorf("before the kubelet saw it: %v", got)
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	if got, _ := inplace.Observe(pod, now); got != inplace.Stuck {
		t.Errorf("with an image that cannot be pulled: %v", got)
	}
	pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "main", Image: "docker.io/library/nginx:3",
		ImageID: "sim://nginx:3"}
	if got, _ := inplace.Observe(pod, now); got != inplace.Finished {
		t.Errorf("with the new image: %v", got)
	}
	open, err := inplace.OpenGate(now)
	pod = patched(t, pod, open, err)
	if got, _ := inplace.Observe(pod, now); got != inplace.Settled {
		t.Errorf("with the gate open: %v", got)
	}
}

// arrived reports whether nothing of an update in place is left to wait for, while the gate is shut.
func arrived(pod *corev1.Pod) bool {
	pod = pod.DeepCopy()
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1beta1.InPlaceUpdateReady {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	progress, _ := inplace.Observe(pod, time.Unix(0, 0))
	return progress == inplace.Settled || progress == inplace.Finished
}

func TestDone(t *testing.T) {
	pod := runningPod(t)
	state := func(id string) string {
		return `{"revision":"r","updateTimestamp":null,"updateImages":true,"lastContainerStatuses":{"main":{"imageID":"` +
			id + `"}}}`
	}
	tests := []struct {
		name  string
		state string
		image string
		want  bool
	}{
		{"another image", state("sim://nginx:1"), "x", true},
		{"the same image under another name", state("sim://nginx:2"), "nginx:2", true},
		{"the old image", state("sim://nginx:2"), "x", false},
		{"a record that cannot be read", "{", "x", true},
		{"no image changed", `{"revision":"r"}`, "x", true},
		{"a container that is gone", `{"updateImages":true,"lastContainerStatuses":{"gone":{"imageID":"a"}}}`, "x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod.Annotations[v1beta1.AnnotationInPlaceUpdateState] = tt.state
			pod.Status.ContainerStatuses[0].Image = tt.image
			if got := arrived(pod); got != tt.want {
				t.Errorf("Done = %v", got)
			}
		})
	}
}

func TestObserveANewPod(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	pod := runningPod(t)
	pod.Status.Conditions, pod.Annotations = nil, nil
	if got, _ := inplace.Observe(pod, now); got != inplace.Finished {
		t.Errorf("a new pod's gate is to be opened: %v", got)
	}
	pod.Spec.ReadinessGates = nil
	if got, _ := inplace.Observe(pod, now); got != inplace.Settled {
		t.Errorf("a pod without the gate: %v", got)
	}
	inplace.InjectGate(&pod.Spec)
	inplace.InjectGate(&pod.Spec)
	if len(pod.Spec.ReadinessGates) != 1 || !inplace.HasGate(pod) {
		t.Errorf("gates %v", pod.Spec.ReadinessGates)
	}
}

func TestShortRevisionLabelsStayShort(t *testing.T) {
	pod := runningPod(t)
	pod.Labels["controller-revision-hash"] = pod.Labels[v1beta1.LabelPodTemplateHash]
	w, err := inplace.Begin(pod, inplace.Change{}, inplace.Revision{Name: "web-new", Hash: "new"}, inplace.Options{},
		time.Unix(0, 0))
	if got := patched(t, pod, w.Pod, err).Labels["controller-revision-hash"]; got != "new" {
		t.Errorf("label %q", got)
	}
}

// The API server refuses a patch that brings containers into another order.
func TestWritesKeepTheOrderOfContainers(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	spec := template(t, `{spec: {containers: [{name: z, image: "nginx:1"}, {name: b, image: "nginx:1"}, {name: a, image: "nginx:1"}, {name: m, image: "nginx:1"}]}}`).Spec
	pod := &corev1.Pod{Spec: spec}
	half := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}
	change := inplace.Change{Images: map[string]string{}, Resources: map[string]corev1.ResourceRequirements{}}
	for _, name := range []string{"a", "m", "z"} {
		change.Images[name], change.Resources[name] = "nginx:2", half
	}
	w, err := inplace.Begin(pod, change, inplace.Revision{Name: "web-new", Hash: "new"}, inplace.Options{}, now)
	after := patched(t, patched(t, pod, w.Pod, err), w.Resize, err)
	for i, container := range after.Spec.Containers {
		if container.Name != spec.Containers[i].Name {
			t.Errorf("container %d is %s, was %s", i, container.Name, spec.Containers[i].Name)
		}
		if _, changes := change.Images[container.Name]; changes &&
			(container.Image != "nginx:2" || container.Resources.Requests.Cpu().String() != "500m") {
			t.Errorf("container %s has %+v", container.Name, container)
		}
	}
}

// Records have whole seconds; a grace period is never shorter for that.
func TestGracePeriodPassesInFull(t *testing.T) {
	const grace = 2 * time.Second
	for _, fraction := range []time.Duration{0, 1, time.Second / 2, time.Second - 1} {
		now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Add(fraction)
		pod := runningPod(t)
		change := inplace.Change{Images: map[string]string{"main": "nginx:3"}}
		w, err := inplace.Begin(pod, change, inplace.Revision{Name: "web-new", Hash: "new"}, inplace.Options{Grace: grace},
			now)
		pod = patched(t, patched(t, pod, w.Status, err), w.Pod, err)
		progress, wait := inplace.Observe(pod, now)
		if progress != inplace.Waiting || progress.Busy() || wait < grace || wait >= grace+time.Second {
			t.Errorf("%v after the second: %v, for %v", fraction, progress, wait)
		}
		if got, _ := inplace.Observe(pod, now.Add(wait)); got != inplace.Due {
			t.Errorf("%v after the second: at the end of the grace period %v", fraction, got)
		}
	}
}
