package inplace_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

var to = inplace.Revision{Name: "web-2", Hash: "2"}

func podOf(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

const twoContainers = `{metadata: {name: web, namespace: ns, generation: 1, labels: {controller-revision-hash: web-1, tier: a}, annotations: {apps.kruise.io/runtime-containers-meta: "{}"}},
spec: {readinessGates: [{conditionType: InPlaceUpdateReady}], containers: [
  {name: main, image: "app:1", resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}, env: [{name: KRUISE_CONTAINER_PRIORITY, value: "1"}]},
  {name: first, image: "side:1", resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}, env: [{name: KRUISE_CONTAINER_PRIORITY, value: "2"}, {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}]},
status: {conditions: [{type: InPlaceUpdateReady, status: "True"}], containerStatuses: [
  {name: main, image: "app:1", imageID: a1, containerID: m1, ready: true, state: {running: {}}, resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}},
  {name: first, image: "side:1", imageID: s1, containerID: f1, ready: true, state: {running: {}}, resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}}]}}`

// golden compares everything that is to be written with a file.
func golden(t *testing.T, name string, w inplace.Writes, wait time.Duration, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("status %s\npod    %s\nresize %s\nwait   %v\n", w.Status, w.Pod, w.Resize, wait)
	path := "testdata/" + name + ".golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s\n%swant\n%s", name, got, want)
	}
}

func TestWritesOfAnUpdateWithGraceAndBatches(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	pod := podOf(t, twoContainers)
	apply := func(w inplace.Writes) {
		for _, patch := range [][]byte{w.Status, w.Pod, w.Resize} {
			if patch != nil {
				pod = patched(t, pod, patch, nil)
			}
		}
	}
	expect := func(want inplace.Progress) {
		t.Helper()
		if got, _ := inplace.Observe(pod, now); got != want {
			t.Fatalf("progress %v, want %v", got, want)
		}
	}
	from := &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	updated := from.DeepCopy()
	updated.Labels = map[string]string{"controller-revision-hash": "web-1", "tier": "b", "team": "x"}
	updated.Spec.Containers[0].Image = "app:2"
	updated.Spec.Containers[1].Resources = podOf(t, strings.ReplaceAll(twoContainers, `cpu: "1"`,
		`cpu: "2"`)).Spec.Containers[1].Resources
	change, refusal, err := inplace.Diff(from, updated)
	if err != nil || refusal != "" {
		t.Fatalf("refused: %q, %v", refusal, err)
	}

	begun, err := inplace.Begin(pod, change, to, inplace.Options{Grace: 10 * time.Second}, now)
	golden(t, "begin-grace", begun, 0, err)
	apply(begun)
	expect(inplace.Waiting)
	now = now.Add(4 * time.Second)
	waiting, wait, err := inplace.Next(pod, now)
	golden(t, "wait-grace", waiting, wait, err)
	now = now.Add(6 * time.Second)
	expect(inplace.Due)
	first, wait, err := inplace.Next(pod, now)
	golden(t, "next-first-batch", first, wait, err)
	apply(inplace.Writes{Pod: first.Pod})
	expect(inplace.Unsized)
	resize, wait, err := inplace.Next(pod, now)
	golden(t, "next-lost-resize", resize, wait, err)
	apply(resize)
	expect(inplace.Running)
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Infeasible"})
	expect(inplace.Stuck)
	pod.Status.Conditions = pod.Status.Conditions[:len(pod.Status.Conditions)-1]

	status := &pod.Status.ContainerStatuses[1]
	status.Resources = pod.Spec.Containers[1].Resources.DeepCopy()
	expect(inplace.Running)
	status.ContainerID, status.Ready = "f2", false
	expect(inplace.Stuck)
	status.Ready = true
	expect(inplace.Due)
	second, wait, err := inplace.Next(pod, now)
	golden(t, "next-second-batch", second, wait, err)
	apply(second)
	expect(inplace.Running)
	pod.Status.ContainerStatuses[0].ImageID = "a2"
	expect(inplace.Finished)
	open, err := inplace.OpenGate(now, v1beta1.InPlaceUpdateReady, "KruisePodReady")
	golden(t, "open", inplace.Writes{Status: open}, 0, err)
	apply(inplace.Writes{Status: open})
	expect(inplace.Settled)
}

func TestResizeWithoutRestartKeepsThePodInService(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	pod := podOf(t, twoContainers)
	size := podOf(t, strings.ReplaceAll(twoContainers, `cpu: "1"`, `cpu: "2"`)).Spec.Containers[0].Resources
	change := inplace.Change{Resources: map[string]corev1.ResourceRequirements{"main": size}}
	w, err := inplace.Begin(pod, change, to, inplace.Options{Grace: time.Minute}, now)
	golden(t, "begin-resize", w, 0, err)
	pod = patched(t, pod, w.Pod, nil)
	pod = patched(t, pod, w.Resize, nil)
	if got, _ := inplace.Observe(pod, now); got != inplace.Running {
		t.Fatalf("before the kubelet: %v", got)
	}
	pod.Status.ContainerStatuses[0].Resources = &size
	if got, _ := inplace.Observe(pod, now); got != inplace.Due {
		t.Fatalf("with the resources: %v", got)
	}
	end, wait, err := inplace.Next(pod, now)
	golden(t, "end-resize", end, wait, err)
	pod = patched(t, pod, end.Pod, nil)
	if got, _ := inplace.Observe(pod, now); got != inplace.Settled {
		t.Fatalf("at the end: %v", got)
	}
	// Whoever resizes the pod later is not contradicted.
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	if got, _ := inplace.Observe(pod, now); got != inplace.Settled {
		t.Fatalf("after somebody else's resize: %v", got)
	}

	pod = podOf(t, twoContainers)
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu",
		RestartPolicy: corev1.RestartContainer}}
	if w, err = inplace.Begin(pod, change, to, inplace.Options{}, now); err != nil || w.Status == nil || w.Resize == nil {
		t.Errorf("a resize with a restart does not shut the gate: %s, %v", w.Status, err)
	}
}

func TestLabelsAloneRestartNothing(t *testing.T) {
	pod := podOf(t, twoContainers)
	w, err := inplace.Begin(pod, inplace.Change{Labels: map[string]*string{"team": new("x")}}, to,
		inplace.Options{Grace: time.Minute}, time.Unix(0, 0))
	golden(t, "begin-labels", w, 0, err)
	if got, _ := inplace.Observe(patched(t, pod, w.Pod, nil), time.Unix(0, 0)); got != inplace.Settled {
		t.Errorf("progress %v", got)
	}
}

func TestRecordsOfAnotherManager(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 20, 0, time.UTC)
	pod := podOf(t, twoContainers)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Annotations[v1beta1.AnnotationInPlaceUpdateState] = `{"revision":"web-2","updateTimestamp":"2026-03-04T05:06:07Z","lastContainerStatuses":null}`
	// The metadata are {"metadata":{"labels":{"team":"x"}}}.
	pod.Annotations[v1beta1.AnnotationInPlaceUpdateGrace] = `{"revision":"web-2","containerImages":{"main":"app:2"},"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsidGVhbSI6IngifX19","graceSeconds":10}`
	w, wait, err := inplace.Next(pod, now)
	golden(t, "next-other-manager", w, wait, err)

	pod.Annotations[v1beta1.AnnotationInPlaceUpdateGrace] = `{"revision":"web-0","containerImages":{"main":"app:2"}}`
	if got, _ := inplace.Observe(pod, now); got != inplace.Finished {
		t.Errorf("a grace period of another revision: %v", got)
	}
	pod.Annotations[v1beta1.AnnotationInPlaceUpdateGrace] = `{`
	if got, _ := inplace.Observe(pod, now); got != inplace.Stuck {
		t.Errorf("a grace period that nobody can read: %v", got)
	}
}

func TestDoneByContainer(t *testing.T) {
	image := func(more string) string {
		return `{"revision":"r","updateImages":true,"lastContainerStatuses":{"main":{"imageID":"a1"` + more + `}}}`
	}
	tests := []struct {
		name    string
		state   string
		prepare func(*corev1.Pod, *corev1.ContainerStatus)
		want    bool
	}{
		{"nothing happened", image(`,"containerID":"m1"`), func(*corev1.Pod, *corev1.ContainerStatus) {}, false},
		{"the same content under a new tag", image(`,"containerID":"m1"`),
			func(p *corev1.Pod, s *corev1.ContainerStatus) { s.ContainerID, p.Status.ObservedGeneration = "m2", 2 }, true},
		{"another container of a kubelet that has not looked", image(`,"containerID":"m1"`),
			func(p *corev1.Pod, s *corev1.ContainerStatus) { s.ContainerID, p.Status.ObservedGeneration = "m2", 1 }, false},
		{"another container of a kubelet that does not tell", image(`,"containerID":"m1"`),
			func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.ContainerID = "m2" }, false},
		{"a record without the container", image(``), func(p *corev1.Pod, s *corev1.ContainerStatus) {
			s.ContainerID,
				p.Status.ObservedGeneration = "m2", 2
		}, false},
		{"an image without a tag", image(``), func(p *corev1.Pod, s *corev1.ContainerStatus) {
			p.Spec.Containers[0].Image, s.Image = "nginx", "docker.io/library/nginx:latest"
		}, true},
		{"an image that was passed over", image(`,"passed":["app:9"]`),
			func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.ImageID, s.Image = "a9", "app:9" }, false},
		{"no status yet", image(``), func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Status.ContainerStatuses = nil },
			false},
		{"metadata, another manager's record", `{"revision":"r","updateTimestamp":"2026-03-04T05:06:07Z","updateEnvFromMetadata":true,"containerBatchesRecord":[{"timestamp":"2026-03-04T05:06:09Z","containers":["main"]}]}`, func(*corev1.Pod, *corev1.ContainerStatus) {}, false},
		{"resources of another container differ", `{"revision":"r","updateResources":true,"containerBatchesRecord":[{"containers":["main"]}]}`, func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Status.ContainerStatuses[1].Resources = nil }, true},
		{"resources differ", `{"revision":"r","updateResources":true,"containerBatchesRecord":[{"containers":["main"]}]}`,
			func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Resources = nil }, false},
		{"a batch is left", `{"revision":"r","nextContainerResources":{"main":{"limits":{"cpu":"3"}}}}`,
			func(*corev1.Pod, *corev1.ContainerStatus) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := podOf(t, twoContainers)
			pod.Generation, pod.Spec.Containers[0].Image = 2, "app:2"
			pod.Annotations[v1beta1.AnnotationInPlaceUpdateState] = tt.state
			tt.prepare(pod, &pod.Status.ContainerStatuses[0])
			if got := arrived(pod); got != tt.want {
				t.Errorf("Done = %v", got)
			}
		})
	}
}

func TestObservingASettledPodAllocatesNothing(t *testing.T) {
	pod, now := runningPod(t), time.Unix(0, 0)
	if n := testing.AllocsPerRun(100, func() { inplace.Observe(pod, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserveASettledPod(b *testing.B) {
	data, err := os.ReadFile("testdata/pod.yaml")
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		b.Fatal(err)
	}
	now := time.Unix(0, 0)
	b.ReportAllocs()
	for b.Loop() {
		inplace.Observe(pod, now)
	}
}

// TestRestartThatDoesNotCome: a node daemon that is gone keeps no other update from the pod for ever.
func TestRestartThatDoesNotCome(t *testing.T) {
	const container = `{name: main, image: "a:1", env: [
  {name: T, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}`
	pod := podOf(t, `{metadata: {name: web, namespace: ns, labels: {tier: a}, annotations: {
  apps.kruise.io/runtime-containers-meta: "{}"}},
spec: {readinessGates: [{conditionType: InPlaceUpdateReady}], containers: [`+container+`]},
status: {containerStatuses: [
  {name: main, image: "a:1", imageID: i1, containerID: c1, ready: true, state: {running: {}}}]}}`)
	change, refusal, err := inplace.Diff(
		template(t, `{metadata: {labels: {tier: a}}, spec: {containers: [`+container+`]}}`),
		template(t, `{metadata: {labels: {tier: b}}, spec: {containers: [`+container+`]}}`))
	if err != nil || refusal != "" {
		t.Fatal(refusal, err)
	}
	begun := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	writes, err := inplace.Begin(pod, change, to, inplace.Options{}, begun)
	if err != nil {
		t.Fatal(err)
	}
	pod = patched(t, patched(t, pod, writes.Status, nil), writes.Pod, nil)
	for _, row := range []struct {
		after time.Duration
		id    string
		want  inplace.Progress
		wait  time.Duration
	}{
		{time.Minute, "c1", inplace.Running, 4 * time.Minute}, {5 * time.Minute, "c1", inplace.Stuck, 0},
		{6 * time.Minute, "c2", inplace.Finished, 0},
	} {
		pod.Status.ContainerStatuses[0].ContainerID = row.id
		if got, wait := inplace.Observe(pod, begun.Add(row.after)); got != row.want || wait != row.wait {
			t.Errorf("after %s: %d, %s; want %d, %s", row.after, got, wait, row.want, row.wait)
		}
	}
}
