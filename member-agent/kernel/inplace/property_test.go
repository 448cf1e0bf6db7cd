package inplace_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// world is one pod with its kubelet, node daemon and controller.
type world struct {
	t         *testing.T
	random    *rand.Rand
	now       time.Time
	pod       *corev1.Pod
	templates map[string]*corev1.PodTemplateSpec
	target    string
	daemon    bool
	gated     bool
	// env is what each container saw of label "read" when it started.
	env     map[string]string
	restart int
}

func (w *world) pick(values ...string) string { return values[w.random.IntN(len(values))] }
func (w *world) coin() bool                   { return w.random.IntN(2) == 0 }

// template returns a random template; what cannot be changed in place depends on the seed only.
func (w *world) template(base *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := base.DeepCopy()
	out.Labels = map[string]string{"read": w.pick("x", "y"), "tier": w.pick("x", "y")}
	out.Annotations = map[string]string{}
	if w.coin() {
		out.Labels["team"] = w.pick("x", "y")
	}
	if w.coin() {
		out.Annotations["note"] = w.pick("x", "y")
	}
	for i := range out.Spec.Containers {
		c := &out.Spec.Containers[i]
		c.Image = "img:" + w.pick("1", "2", "3")
		c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse(w.pick("1", "2")),
			"memory": resource.MustParse("1Gi")}
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(w.pick("100m", "200m"))}
	}
	return out
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		templates: map[string]*corev1.PodTemplateSpec{}, env: map[string]string{}}
	w.daemon, w.gated = w.coin(), w.random.IntN(4) > 0
	base := &corev1.PodTemplateSpec{}
	for _, name := range []string{"a", "b", "c"} {
		c := corev1.Container{Name: name}
		if w.coin() {
			c.Env = append(c.Env, corev1.EnvVar{Name: "KRUISE_CONTAINER_PRIORITY", Value: w.pick("1", "2", "3")})
		}
		if w.random.IntN(3) == 0 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "READ",
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['read']"}}})
		}
		if w.random.IntN(3) == 0 {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}
		}
		base.Spec.Containers = append(base.Spec.Containers, c)
	}
	for i := range 6 {
		w.templates[fmt.Sprint("r", i)] = w.template(base)
	}
	w.target = "r0"
	w.create()
	return w
}

// create makes the pod anew from the target.
func (w *world) create() {
	template := w.templates[w.target].DeepCopy()
	w.pod = &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	w.pod.Generation = 1
	w.pod.Labels["controller-revision-hash"] = w.target
	if w.daemon {
		w.pod.Annotations["apps.kruise.io/runtime-containers-meta"] = "{}"
	}
	if w.gated {
		inplace.InjectGate(&w.pod.Spec)
	}
	for _, c := range w.pod.Spec.Containers {
		// The API server completes requests.
		c.Resources.Requests["memory"] = c.Resources.Limits["memory"]
		w.pod.Status.ContainerStatuses = append(w.pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
	}
	for i := range w.pod.Spec.Containers {
		w.start(i)
	}
}

// start lets a container run what the spec says.
func (w *world) start(i int) {
	c := w.pod.Spec.Containers[i]
	w.restart++
	w.env[c.Name] = w.pod.Labels["read"]
	w.pod.Status.ContainerStatuses[i] = corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "sha256:" + c.Image, ContainerID: fmt.Sprint("id", w.restart), Ready: true,
		Resources: c.Resources.DeepCopy(), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}},
	}
}

// kubelet does for one container what is due.
func (w *world) kubelet(i int) {
	w.pod.Status.ObservedGeneration = w.pod.Generation
	c, status := w.pod.Spec.Containers[i], &w.pod.Status.ContainerStatuses[i]
	resized := status.Resources.Limits.Cpu().Cmp(*c.Resources.Limits.Cpu()) != 0
	switch {
	case status.Image != c.Image, resized && len(c.ResizePolicy) > 0,
		w.daemon && reads(c) && w.env[c.Name] != w.pod.Labels["read"]:
		w.start(i)
	default:
		status.Resources = c.Resources.DeepCopy()
	}
}

func reads(c corev1.Container) bool {
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			return true
		}
	}
	return false
}

// write applies the writes; after lost ones the connection is gone.
func (w *world) write(writes inplace.Writes, err error, made int) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	for i, patch := range [][]byte{writes.Status, writes.Pod, writes.Resize} {
		if patch == nil || i >= made {
			continue
		}
		before := w.pod
		w.pod = patched(w.t, w.pod, patch, nil)
		for c := range w.pod.Spec.Containers {
			if old := before.Spec.Containers[c]; old.Image != w.pod.Spec.Containers[c].Image || i == 2 {
				w.pod.Generation = before.Generation + 1
			}
		}
	}
}

// begin begins an update to a random revision, or makes the pod anew.
func (w *world) begin() {
	to := fmt.Sprint("r", w.random.IntN(len(w.templates)))
	from := w.pod.Labels["controller-revision-hash"]
	if from == to {
		return
	}
	change, refusal, err := inplace.Diff(w.templates[from], w.templates[to])
	if err != nil || refusal != "" {
		w.t.Fatalf("refused: %q, %v", refusal, err)
	}
	w.target = to
	if change.Possible(w.pod, true) != "" {
		w.create()
		return
	}
	opts := inplace.Options{}
	if w.coin() {
		opts.Grace = 10 * time.Second
	}
	writes, err := inplace.Begin(w.pod, change, inplace.Revision{Name: to, Hash: to + "x"}, opts, w.now)
	made := 3
	if w.random.IntN(4) == 0 {
		made = 1 + w.random.IntN(2)
	}
	w.write(writes, err, made)
	w.target = w.pod.Labels["controller-revision-hash"]
}

// controller does what the pod's progress asks for.
func (w *world) controller() inplace.Progress {
	progress, _ := inplace.Observe(w.pod, w.now)
	switch progress {
	case inplace.Due, inplace.Unsized:
		writes, _, err := inplace.Next(w.pod, w.now)
		if writes.Status == nil && writes.Pod == nil && writes.Resize == nil {
			w.t.Fatalf("nothing to write for a pod that is due")
		}
		w.write(writes, err, 2+w.random.IntN(2))
	case inplace.Finished:
		w.check("finished")
		open, err := inplace.OpenGate(w.now)
		w.pod = patched(w.t, w.pod, open, err)
	case inplace.Settled:
		w.check("settled")
	default:
		if writes, _, err := inplace.Next(w.pod, w.now); err != nil || writes.Pod != nil || writes.Resize != nil {
			w.t.Fatalf("writes for a pod that is not due: %s, %s, %v", writes.Pod, writes.Resize, err)
		}
	}
	return progress
}

// check compares the pod with its target, and what runs with the pod.
func (w *world) check(when string) {
	w.t.Helper()
	target := w.templates[w.target]
	for i, c := range w.pod.Spec.Containers {
		want, status := target.Spec.Containers[i], w.pod.Status.ContainerStatuses[i]
		if c.Image != want.Image || status.Image != want.Image {
			w.t.Fatalf("%s: container %s has image %s and runs %s, want %s", when, c.Name, c.Image, status.Image, want.Image)
		}
		if !same(c.Resources, want.Resources) || !same(*status.Resources, want.Resources) {
			w.t.Fatalf("%s: container %s has %v and is given %v, want %v", when, c.Name, c.Resources, status.Resources,
				want.Resources)
		}
		if reads(c) && w.env[c.Name] != target.Labels["read"] {
			w.t.Fatalf("%s: container %s reads %q, want %q", when, c.Name, w.env[c.Name], target.Labels["read"])
		}
	}
	labels, annotations := maps.Clone(w.pod.Labels), maps.Clone(w.pod.Annotations)
	for _, key := range []string{"controller-revision-hash", v1beta1.LabelPodTemplateHash} {
		delete(labels, key)
	}
	for _, key := range []string{v1beta1.AnnotationInPlaceUpdateState, v1beta1.AnnotationLifecycleTimestamp,
		"apps.kruise.io/runtime-containers-meta"} {
		delete(annotations, key)
	}
	if !maps.Equal(labels, target.Labels) || !maps.Equal(annotations, target.Annotations) {
		w.t.Fatalf("%s: labels %v and annotations %v, want %v and %v", when, labels, annotations, target.Labels,
			target.Annotations)
	}
}

func same(a, b corev1.ResourceRequirements) bool {
	return a.Limits.Cpu().Cmp(*b.Limits.Cpu()) == 0 && a.Requests.Cpu().Cmp(*b.Requests.Cpu()) == 0 &&
		a.Limits.Memory().Cmp(*b.Limits.Memory()) == 0
}

func TestAnySequenceOfUpdatesEndsAtItsTarget(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 30 {
				switch w.random.IntN(5) {
				case 0:
					w.begin()
				case 1:
					w.now = w.now.Add(4 * time.Second)
				case 2:
					w.controller()
				default:
					w.kubelet(w.random.IntN(3))
				}
			}
			progress := inplace.Running
			// Three batches, a grace period and two lost writes take far fewer steps.
			for range 100 {
				w.now = w.now.Add(4 * time.Second)
				for i := range 3 {
					w.kubelet(i)
				}
				if progress = w.controller(); progress == inplace.Settled {
					break
				}
			}
			if progress != inplace.Settled {
				t.Fatalf("the pod never settles: %v, %s", progress, w.pod.Annotations[v1beta1.AnnotationInPlaceUpdateState])
			}
		})
	}
}
