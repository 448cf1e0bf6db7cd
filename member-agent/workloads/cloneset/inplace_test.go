package cloneset_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// What an update in place promises to a pod, its containers and those who count on it.
func TestInPlace(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	for _, story := range []struct {
		name string
		run  func(*world, string)
	}{
		{"three-writes", threeWrites},
		{"metadata", metadataOnly},
		{"grace", gracePeriod},
		{"grace-taken-back", graceTakenBack},
		{"batches", batches},
		{"batch-stuck", batchStuck},
		{"case8-priority", case8Priority},
		{"case8-ordered", case8Ordered},
		{"third-revision", thirdRevision},
		{"resize", resized},
		{"resize-restart", resizedWithRestart},
		{"resize-infeasible", infeasible},
		{"resize-and-image", resizedWithImage},
		{"resize-quality-of-service", qualityOfService},
		{"environment-with-image", environmentWithImage},
		{"environment-alone", environmentAlone},
		{"environment-in-place-only", environmentInPlaceOnly},
		{"environment-daemon", environmentDaemon},
		{"tagless", tagless},
		{"same-content", sameContent},
		{"bad-image", badImage},
		{"back", back},
		{"flurry", flurry},
		{"restart", restartAskedFor},
	} {
		t.Run(story.name, func(t *testing.T) {
			one := *w
			one.TB = t
			story.run(&one, story.name)
		})
	}
	t.Run("restarted in a grace period and between batches", func(t *testing.T) {
		one := *w
		one.TB = t
		restartedInside(&one, w)
	})
}

// containers makes these the containers of the template.
func containers(list ...corev1.Container) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers = list }
}

func images(list map[string]string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		for i := range cs.Spec.Template.Spec.Containers {
			if image, ok := list[cs.Spec.Template.Spec.Containers[i].Name]; ok {
				cs.Spec.Template.Spec.Containers[i].Image = image
			}
		}
	}
}

func label(key, value string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Labels = maps.Clone(cs.Spec.Template.Labels) // a new object's selector has the same map
		cs.Spec.Template.Labels[key] = value
	}
}

func both(changes ...func(*v1beta1.CloneSet)) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		for _, change := range changes {
			change(cs)
		}
	}
}

func grace(seconds int32) func(*v1beta1.CloneSet) {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.InPlaceUpdateStrategy = &v1beta1.InPlaceUpdateStrategy{GracePeriodSeconds: seconds}
	})
}

func stateOf(w *world, pod *corev1.Pod) (state inplace.State) {
	w.Helper()
	w.must(json.Unmarshal([]byte(pod.Annotations[v1beta1.AnnotationInPlaceUpdateState]), &state))
	return state
}

func threeWrites(w *world, name string) {
	before := w.create(newCloneSet(name, 3))
	watch := w.record(name)
	w.change(name, both(image("nginx:2"), label("tier", "front")))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
	expectGate(w, watch.until(after))
	watch.expectWrites(after, "patch status", "patch", "patch status")
}

// Labels and annotations that no container reads are one write, and nobody notices.
func metadataOnly(w *world, name string) {
	before := w.create(newCloneSet(name, 3, label("old", "x")))
	watch := w.record(name)
	w.change(name, func(cs *v1beta1.CloneSet) {
		delete(cs.Spec.Template.Labels, "old")
		cs.Spec.Template.Labels["tier"] = "front"
		cs.Spec.Template.Annotations = map[string]string{"note": "new"}
	})
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 0)
	expectInService(w, watch.until(after))
	watch.expectWrites(after, "patch")
	for pod, object := range after {
		if _, left := object.Labels["old"]; left || object.Labels["tier"] != "front" || object.Annotations["note"] != "new" {
			w.Errorf("pod %s has labels %v, annotations %v", pod, object.Labels, object.Annotations)
		}
	}
}

// The annotation of a rollout restart makes pods anew, for in place nothing would restart; the manifest without it
// restarts nothing.
func restartAskedFor(w *world, name string) {
	before := w.create(newCloneSet(name, 2))
	w.change(name, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Annotations = map[string]string{inplace.RestartedAt: "2026-01-01T00:00:00Z"}
	})
	anew := w.settle(name)
	w.expectAnew(before, anew)
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.Template.Annotations = nil })
	after := w.settle(name)
	w.expectSame(anew, after)
	w.expectRestarts(after, "main", 0)
}

// First nobody counts on the pod any more, then it has its revision, and only after the time its containers change.
func gracePeriod(w *world, name string) {
	const seconds = 2
	before := w.create(newCloneSet(name, 2, grace(seconds)))
	watch := w.record(name)
	w.change(name, both(image("nginx:2"), label("tier", "front")))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
	states := watch.until(after)
	expectGate(w, states)
	writes := watch.expectWrites(after, "patch status", "patch", "patch", "patch status")
	revision := w.get(name).Status.UpdateRevision
	for pod, list := range states {
		closed, revised := first(list, shut), first(list, hasLabel("controller-revision-hash", revision))
		changed := first(list, imageIs("main", "nginx:2"))
		if closed >= revised || revised >= changed || changed >= len(list) {
			w.Fatalf("pod %s: gate at %d, revision at %d, image at %d of %d", pod, closed, revised, changed, len(list))
		}
		waiting := list[revised]
		if !hasLabel("tier", "front")(waiting) || !hasAnnotation(v1beta1.AnnotationInPlaceUpdateGrace)(waiting) {
			w.Errorf("pod %s waits with labels %v, annotations %v", pod, waiting.Labels, waiting.Annotations)
		}
		if hasAnnotation(v1beta1.AnnotationInPlaceUpdateGrace)(list[changed]) {
			w.Errorf("pod %s still says that it waits: %v", pod, list[changed].Annotations)
		}
		// The log's clock is this machine's, as the controller's.
		if end := stateOf(w, waiting).UpdateTimestamp.Add(seconds * time.Second); writes[pod][2].at.Before(end) {
			w.Errorf("pod %s: the image changed %s too early", pod, end.Sub(writes[pod][2].at))
		}
	}
}

// A change that is taken back in the grace period never gets to the containers.
func graceTakenBack(w *world, name string) {
	before := w.create(newCloneSet(name, 2, grace(3600)))
	watch := w.record(name)
	w.change(name, both(image("nginx:2"), label("tier", "front")))
	w.eventually("the pods wait", func() string {
		for pod, object := range w.pods(name) {
			if !hasAnnotation(v1beta1.AnnotationInPlaceUpdateGrace)(&object) {
				return pod + " does not"
			}
		}
		return ""
	})
	w.change(name, func(cs *v1beta1.CloneSet) {
		image("nginx:1")(cs)
		delete(cs.Spec.Template.Labels, "tier")
	})
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 0)
	for pod, list := range watch.until(after) {
		if changed := first(list, imageIs("main", "nginx:2")); changed < len(list) {
			w.Errorf("pod %s got the image", pod)
		}
		if last := list[len(list)-1]; last.Labels["tier"] != "" || hasAnnotation(v1beta1.AnnotationInPlaceUpdateGrace)(last) {
			w.Errorf("pod %s is left with labels %v, annotations %v", pod, last.Labels, last.Annotations)
		}
	}
}

func prior(name, image, priority string) corev1.Container {
	c := corev1.Container{Name: name, Image: image}
	if priority != "" {
		c.Env = []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: priority}}
	}
	return c
}

// expectOrder fails if container later got image while container earlier did not run that image and was ready.
func expectOrder(w *world, states map[string][]*corev1.Pod, image, earlier, later string) {
	w.Helper()
	expectOrderOf(w, states, inPlaceStep{earlier, image}, inPlaceStep{later, image})
}

func batches(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(
		prior("third", "nginx:1", "-5"), prior("main", "nginx:1", ""), prior("second", "nginx:1", "5"),
		prior("first", "nginx:1", "10"))))
	watch := w.record(name)
	w.change(name, images(map[string]string{"main": "nginx:2", "first": "nginx:2", "second": "nginx:2",
		"third": "nginx:2"}))
	after := w.settle(name)
	w.expectSame(before, after)
	states := watch.until(after)
	expectGate(w, states)
	expectOrder(w, states, "nginx:2", "first", "second")
	expectOrder(w, states, "nginx:2", "second", "main")
	expectOrder(w, states, "nginx:2", "main", "third")
	for _, container := range []string{"main", "first", "second", "third"} {
		w.expectRestarts(after, container, 1)
	}
	for pod, list := range states {
		open := first(list[first(list, shut):], gateOpen)
		if changed := first(list[first(list, shut):], imageIs("third", "nginx:2")); open < changed {
			w.Errorf("pod %s was opened before its last batch", pod)
		}
	}
	watch.expectWrites(after, "patch status", "patch", "patch", "patch", "patch", "patch status")
}

// Case 8: a container without a priority counts as 0, so the sidecar with 10 changes first.
func case8Priority(w *world, name string) {
	before := w.create(newCloneSet(name, 1, containers(prior("main", "httpd:1", ""), prior("sidecar", "envoy:1", "10"))))
	watch := w.record(name)
	w.change(name, images(map[string]string{"main": "httpd:2", "sidecar": "envoy:2"}))
	after := w.settle(name)
	w.expectSame(before, after)
	states := watch.until(after)
	expectGate(w, states)
	expectOrderOf(w, states, inPlaceStep{"sidecar", "envoy:2"}, inPlaceStep{"main", "httpd:2"})
}

// Case 8: Ordered means the order of the list, whatever the priorities say.
func case8Ordered(w *world, name string) {
	ordered := func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Annotations = map[string]string{"apps.kruise.io/container-launch-priority": "Ordered"}
	}
	before := w.create(newCloneSet(name, 1, containers(prior("a", "httpd:1", ""), prior("b", "envoy:1", "10"),
		prior("c", "redis:1", "")), ordered))
	watch := w.record(name)
	w.change(name, images(map[string]string{"c": "redis:2", "b": "envoy:2", "a": "httpd:2"}))
	after := w.settle(name)
	w.expectSame(before, after)
	states := watch.until(after)
	expectGate(w, states)
	expectOrderOf(w, states, inPlaceStep{"a", "httpd:2"}, inPlaceStep{"b", "envoy:2"}, inPlaceStep{"c", "redis:2"})
}

// inPlaceStep is a container that gets an image.
type inPlaceStep struct{ container, image string }

// expectOrderOf fails if a later step was made before the earlier ones were done and their containers ready.
func expectOrderOf(w *world, states map[string][]*corev1.Pod, steps ...inPlaceStep) {
	w.Helper()
	for i := 1; i < len(steps); i++ {
		for name, list := range states {
			at := first(list, imageIs(steps[i].container, steps[i].image))
			if at == len(list) {
				w.Errorf("pod %s: container %s never got %s", name, steps[i].container, steps[i].image)
				continue
			}
			status := ranBy(list[at], steps[i-1].container)
			if !inplace.SameImage(status.Image, steps[i-1].image) || !status.Ready || status.State.Running == nil {
				w.Errorf("pod %s: container %s got its image when %s was %+v", name, steps[i].container, steps[i-1].container,
					status)
			}
		}
	}
}

// A first batch that cannot start keeps the second from being given anything, and a fix brings both home.
func batchStuck(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(prior("side", "nginx:1", "1"), prior("main", "nginx:1", "2"))))
	watch := w.record(name)
	w.change(name, images(map[string]string{"side": "nginx:2", "main": "does-not-exist:2"}))
	w.waitFor(name, "main", "ImagePullBackOff", 2)
	w.change(name, images(map[string]string{"side": "nginx:3", "main": "nginx:3"}))
	after := w.settle(name)
	w.expectSame(before, after)
	states := watch.until(after)
	expectGate(w, states)
	expectOrder(w, states, "nginx:3", "main", "side")
	for pod, list := range states {
		if at := first(list, imageIs("side", "nginx:2")); at < len(list) {
			w.Errorf("pod %s: the second batch did not wait for the first", pod)
		}
	}
	w.expectRestarts(after, "main", 1)
	w.expectRestarts(after, "side", 1)
}

// waitFor waits until the container of so many pods waits for this reason.
func (w *world) waitFor(name, container, reason string, want int) {
	w.Helper()
	w.eventually("containers wait", func() string {
		n := 0
		for _, pod := range w.pods(name) {
			if waiting := ranBy(&pod, container).State.Waiting; waiting != nil && waiting.Reason == reason {
				n++
			}
		}
		if n != want {
			return "not yet"
		}
		return ""
	})
}

// All that an update needs stands on the pods: another process goes on with it.
func restartedInside(w, main *world) {
	const name = "restart-inside"
	before := w.create(newCloneSet(name, 2, grace(2),
		containers(prior("side", "nginx:1", "1"), prior("main", "nginx:1", "2"))))
	for pod := range before {
		w.hold(pod, true)
	}
	watch := w.record(name)
	w.change(name, images(map[string]string{"side": "nginx:2", "main": "nginx:2"}))
	for _, until := range []struct {
		what string
		is   func(*corev1.Pod) bool
	}{
		{"the grace period begins", hasAnnotation(v1beta1.AnnotationInPlaceUpdateGrace)},
		{"the first batch runs", func(pod *corev1.Pod) bool {
			return inplace.SameImage(ranBy(pod, "main").Image,
				"nginx:2")
		}},
	} {
		w.eventually(until.what, func() string {
			for pod, object := range w.pods(name) {
				if !until.is(&object) {
					return "not on " + pod
				}
			}
			return ""
		})
		main.stop()
		main.start()
	}
	for pod := range before {
		w.hold(pod, false)
	}
	after := w.settle(name)
	w.expectSame(before, after)
	states := watch.until(after)
	expectGate(w, states)
	expectOrder(w, states, "nginx:2", "main", "side")
	w.expectRestarts(after, "main", 1)
	w.expectRestarts(after, "side", 1)
	watch.expectWrites(after, "patch status", "patch", "patch", "patch", "patch status")
}

// A third revision that comes between the batches of the second: the containers end with the images of the third,
// whatever they were given before.
func thirdRevision(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(prior("side", "nginx:1", "1"), prior("main", "nginx:1", "2"))))
	for pod := range before {
		w.hold(pod, true)
	}
	w.eventually("the status tells it", func() string {
		if w.get(name).Status.ReadyReplicas != 0 {
			return "pods are ready"
		}
		return ""
	})
	watch := w.record(name)
	w.change(name, images(map[string]string{"side": "nginx:2", "main": "nginx:2"}))
	w.eventually("main runs the second revision and is not ready", func() string {
		for pod, object := range w.pods(name) {
			if !inplace.SameImage(ranBy(&object, "main").Image, "nginx:2") {
				return pod + ": it does not run it"
			}
		}
		return ""
	})
	w.change(name, images(map[string]string{"main": "nginx:3"}))
	w.eventually("main gets the third revision", func() string {
		for pod, object := range w.pods(name) {
			if !inplace.SameImage(ranBy(&object, "main").Image, "nginx:3") {
				return pod + ": it does not run it"
			}
		}
		return ""
	})
	for pod, object := range w.pods(name) {
		if !imageIs("side", "nginx:1")(&object) {
			w.Errorf("pod %s: the second batch did not wait until the first was ready", pod)
		}
		w.hold(pod, false)
	}
	after := w.settle(name)
	w.expectSame(before, after)
	states := watch.until(after)
	expectGate(w, states)
	for pod, object := range after {
		if !imageIs("main", "nginx:3")(&object) || !imageIs("side", "nginx:2")(&object) {
			w.Errorf("pod %s has %v", pod, object.Spec.Containers)
		}
	}
	w.expectRestarts(after, "main", 2)
	w.expectRestarts(after, "side", 1)
}

// hold keeps the containers of a pod from being ready, or lets them.
func (w *world) hold(pod string, on bool) {
	w.Helper()
	value := any(nil)
	if on {
		value = "true"
	}
	w.patchPod(pod, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{fleet.LabelNeverReady: value}}})
}

func sized(name, image, cpu, memory string, policies ...corev1.ContainerResizePolicy) corev1.Container {
	return corev1.Container{Name: name, Image: image, ResizePolicy: policies, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)},
	}}
}

func requests(cpu, memory string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
}

// expectSize fails unless the kubelet says that the container has this.
func (w *world) expectSize(pods map[string]corev1.Pod, container, cpu, memory string) {
	w.Helper()
	for name, pod := range pods {
		status := ranBy(&pod, container)
		if status.Resources == nil || status.Resources.Requests.Cpu().String() != cpu ||
			status.Resources.Requests.Memory().String() != memory {
			w.Errorf("pod %s: container %s has %+v, want %s and %s", name, container, status.Resources, cpu, memory)
		}
		spec := specOf(&pod, container).Resources.Requests
		if spec.Cpu().String() != cpu || spec.Memory().String() != memory {
			w.Errorf("pod %s: container %s asks for %v, want %s and %s", name, container, spec, cpu, memory)
		}
	}
}

func sameContainers(w *world, before, after map[string]corev1.Pod, container string) {
	w.Helper()
	for name, pod := range after {
		old := before[name]
		if ranBy(&pod, container).ContainerID != ranBy(&old, container).ContainerID {
			w.Errorf("pod %s: container %s is another one", name, container)
		}
	}
}
