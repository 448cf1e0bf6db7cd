package cloneset_test

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// The stories of TestInPlace about one sort of change each.

// patchPod writes to a pod as somebody else than the controller.
func (w *world) patchPod(pod, subresource string, body any) {
	w.Helper()
	api, err := kubernetes.NewForConfig(w.config)
	w.must(err)
	patch, err := json.Marshal(body)
	w.must(err)
	var below []string
	if subresource != "" {
		below = []string{subresource}
	}
	_, err = api.CoreV1().Pods("default").Patch(w.Context(), pod, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, below...)
	w.must(err)
}

func cpuOf(c corev1.Container) string { return c.Resources.Requests.Cpu().String() }

// Cpu and memory change while the pod serves.
func resized(w *world, name string) {
	before := w.create(newCloneSet(name, 3, containers(sized("main", "nginx:1", "100m", "8Mi"))))
	watch := w.record(name)
	w.change(name, requests("200m", "16Mi"))
	after := w.settle(name)
	w.expectSame(before, after)
	// The pods serve all the while, so that the status may be at rest before the kubelets are.
	w.eventually("the records are closed", func() string {
		after = w.pods(name)
		for pod, object := range after {
			if stateOf(w, &object).InService {
				return pod + " is still on its way"
			}
		}
		return ""
	})
	sameContainers(w, before, after, "main")
	w.expectRestarts(after, "main", 0)
	w.expectSize(after, "main", "200m", "16Mi")
	expectInService(w, watch.until(after))
	watch.expectWrites(after, "patch", "patch resize", "patch")
}

// A container that has to restart for its resources is out of service meanwhile.
func resizedWithRestart(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(
		sized("main", "nginx:1", "100m", "8Mi", corev1.ContainerResizePolicy{ResourceName: corev1.ResourceCPU,
			RestartPolicy: corev1.RestartContainer}),
		sized("side", "nginx:1", "100m", "8Mi"))))
	watch := w.record(name)
	w.change(name, requests("200m", "8Mi"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
	w.expectRestarts(after, "side", 0)
	w.expectSize(after, "main", "200m", "8Mi")
	for pod, list := range watch.until(after) {
		at := first(list, func(pod *corev1.Pod) bool { return cpuOf(specOf(pod, "main")) == "200m" })
		if at == len(list) || !shut(list[at]) {
			w.Errorf("pod %s was resized in service", pod)
		}
	}
	watch.expectWrites(after, "patch status", "patch", "patch resize", "patch status")
}

// A node that cannot give what is asked for keeps the pod as it is, and the next change finds it.
func infeasible(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(sized("main", "nginx:1", "100m", "8Mi"))))
	for pod := range before {
		w.patchPod(pod, "", map[string]any{"metadata": map[string]any{"labels": map[string]string{fleet.LabelNoResize: "true"}}})
	}
	watch := w.record(name)
	w.change(name, requests("200m", "8Mi"))
	w.eventually("the resizes are pending", func() string {
		for pod, object := range w.pods(name) {
			if !conditionIs(&object, corev1.PodResizePending, corev1.ConditionTrue) {
				return pod + " is not"
			}
		}
		return ""
	})
	w.change(name, requests("100m", "8Mi"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 0)
	w.eventually("the pods have what they had", func() string {
		after = w.pods(name)
		for pod, object := range after {
			if conditionIs(&object, corev1.PodResizePending, corev1.ConditionTrue) || stateOf(w, &object).InService {
				return pod + " is still on its way"
			}
		}
		return ""
	})
	w.expectSize(after, "main", "100m", "8Mi")
	expectInService(w, watch.until(after))
}

// One change of both goes in one update: one restart, and the gate opens when image and resources are there.
func resizedWithImage(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(sized("main", "nginx:1", "100m", "8Mi"),
		sized("side", "nginx:1", "100m", "8Mi"))))
	watch := w.record(name)
	w.change(name, both(requests("200m", "16Mi"), images(map[string]string{"side": "nginx:2"})))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 0)
	w.expectRestarts(after, "side", 1)
	w.expectSize(after, "main", "200m", "16Mi")
	w.expectSize(after, "side", "100m", "8Mi")
	states := watch.until(after)
	expectGate(w, states)
	for pod, list := range states {
		closed := first(list, shut)
		open := first(list[closed:], gateOpen)
		if open == len(list)-closed {
			w.Fatalf("pod %s: the gate was shut at %d of %d and not opened", pod, closed, len(list))
		}
		if got := ranBy(list[closed+open], "main").Resources.Requests.Cpu().String(); got != "200m" {
			w.Errorf("pod %s was opened with %s of cpu", pod, got)
		}
	}
	watch.expectWrites(after, "patch status", "patch", "patch resize", "patch status")
}

// Resources that would give the pod another quality of service cannot be changed in it.
func qualityOfService(w *world, name string) {
	guaranteed := sized("main", "nginx:1", "100m", "8Mi")
	guaranteed.Resources.Limits = guaranteed.Resources.Requests.DeepCopy()
	before := w.create(newCloneSet(name, 2, containers(guaranteed), policy(v1beta1.InPlaceOnlyPodUpdatePolicy)))
	watch := w.record(name)
	w.change(name, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("16Mi")
	})
	w.stalled(name, "InPlaceImpossible", "spec.containers[0].resources")
	w.expectSame(before, w.pods(name))
	watch.expectWrites(before)
	w.change(name, policy(v1beta1.InPlaceIfPossiblePodUpdatePolicy))
	after := w.settle(name)
	w.expectAnew(before, after)
	for pod, object := range after {
		if object.Status.QOSClass != corev1.PodQOSBurstable {
			w.Errorf("pod %s is %s", pod, object.Status.QOSClass)
		}
	}
}

// reading is a container whose environment reads the label tier.
func reading(name, image string) corev1.Container {
	return corev1.Container{Name: name, Image: image, Env: []corev1.EnvVar{{Name: "TIER", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}}}}}
}

// A container that restarts for its image sees its new metadata: they must be there when it starts.
func environmentWithImage(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(reading("main", "nginx:1"),
		corev1.Container{Name: "side", Image: "nginx:1"}), label("tier", "back")))
	watch := w.record(name)
	w.change(name, both(image("nginx:2"), label("tier", "front")))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
	w.expectRestarts(after, "side", 0)
	states := watch.until(after)
	expectGate(w, states)
	for pod, list := range states {
		if at := first(list, imageIs("main", "nginx:2")); list[at].Labels["tier"] != "front" {
			w.Errorf("pod %s: the container started with %v", pod, list[at].Labels)
		}
	}
	watch.expectWrites(after, "patch status", "patch", "patch status")
}

// Nobody restarts a container for its environment alone: the pod is made anew.
func environmentAlone(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(reading("main", "nginx:1")), label("tier", "back")))
	w.change(name, label("tier", "front"))
	after := w.settle(name)
	w.expectAnew(before, after)
	for pod, object := range after {
		if object.Labels["tier"] != "front" {
			w.Errorf("pod %s has labels %v", pod, object.Labels)
		}
	}
}

func environmentInPlaceOnly(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(reading("main", "nginx:1")), label("tier", "back"),
		policy(v1beta1.InPlaceOnlyPodUpdatePolicy)))
	for pod := range before {
		w.knownToDaemon(pod) // the daemon is gone since
	}
	watch := w.record(name)
	w.change(name, label("tier", "front"))
	w.stalled(name, "InPlaceImpossible", "spec.containers[0].env[0] (no pod of flotilla-node is ready on node ")
	w.expectSame(before, w.pods(name))
	watch.expectWrites(before)
	w.change(name, image("nginx:2"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
}

// Where the node daemon runs, it restarts the containers that read what changed; the test does its work.
func environmentDaemon(w *world, name string) {
	before := w.create(newCloneSet(name, 2, containers(reading("main", "nginx:1"),
		corev1.Container{Name: "side", Image: "nginx:1"}), label("tier", "back")))
	for pod := range before {
		w.knownToDaemon(pod)
	}
	w.runDaemons()
	watch := w.record(name)
	w.change(name, label("tier", "front"))
	w.eventually("the pods wait with their new label", func() string {
		for pod, object := range w.pods(name) {
			if object.Labels["tier"] != "front" || !shut(&object) {
				return fmt.Sprintf("pod %s: labels %v, conditions %v", pod, object.Labels, object.Status.Conditions)
			}
		}
		return ""
	})
	for pod := range before {
		w.terminate(pod, "main")
	}
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
	w.expectRestarts(after, "side", 0)
	for pod, list := range watch.until(after) {
		closed := first(list, shut)
		open := first(list[closed:], gateOpen)
		if closed == len(list) || open == len(list)-closed {
			w.Fatalf("pod %s: the gate was not shut and opened", pod)
		}
		if ranBy(list[closed+open], "main").RestartCount != 1 {
			w.Errorf("pod %s was opened before its container had restarted", pod)
		}
	}
	watch.expectWrites(after, "patch status", "patch", "patch status")
}

// knownToDaemon has a pod say that a node daemon knows its containers.
func (w *world) knownToDaemon(pod string) {
	w.Helper()
	w.patchPod(pod, "", map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		"apps.kruise.io/runtime-containers-meta": "{}"}}})
}

// runDaemons has a pod of the node daemon run on each node, for the rest of the test.
func (w *world) runDaemons() {
	w.Helper()
	var nodes corev1.NodeList
	w.must(w.List(w.Context(), &nodes))
	for i := range nodes.Items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "daemon-" + nodes.Items[i].Name,
			Labels: map[string]string{"app.kubernetes.io/name": "flotilla-node"}}}
		pod.Spec = corev1.PodSpec{NodeName: nodes.Items[i].Name,
			Containers: []corev1.Container{{Name: "main", Image: "flotilla-node:1"}}}
		w.must(w.Create(w.Context(), pod))
		w.Cleanup(func() { _ = w.Delete(context.WithoutCancel(w.Context()), pod) })
		w.eventually(pod.Name+" is ready", func() string {
			seen := &corev1.Pod{}
			if err := w.cached.Get(w.Context(), client.ObjectKeyFromObject(pod), seen); err != nil || !podstate.Ready(seen) {
				return fmt.Sprintf("%v, %+v", err, seen.Status)
			}
			return ""
		})
	}
}

// terminate ends a container as the node daemon does; the kubelet starts it again.
func (w *world) terminate(pod, container string) {
	w.Helper()
	object := w.pod(pod)
	statuses := object.Status.ContainerStatuses
	for i := range statuses {
		if statuses[i].Name == container {
			statuses[i].State, statuses[i].Ready = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}, false
		}
	}
	w.patchPod(pod, "status", map[string]any{"status": map[string]any{"containerStatuses": statuses}})
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	out := &corev1.Pod{}
	w.must(w.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, out))
	return out
}

// The status has the full names of images, whatever the template says.
func tagless(w *world, name string) {
	before := w.create(newCloneSet(name, 2, image("nginx")))
	for restarts, next := range []string{"httpd", "me/httpd", "nginx:latest", "nginx"} {
		w.change(name, image(next))
		after := w.settle(name)
		w.expectSame(before, after)
		w.expectImages(after, map[string]int{next: 2})
		// The last name means the image before it, and the kubelet does not restart the container.
		w.expectRestarts(after, "main", int32(min(restarts+1, 3)))
	}
}

// A new tag of the same content: the image's identity does not change, and the status goes on to tell the first name.
func sameContent(w *world, name string) {
	before := w.create(newCloneSet(name, 2))
	watch := w.record(name)
	w.change(name, image("nginx:1-again"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectRestarts(after, "main", 1)
	for pod, object := range after {
		old := before[pod]
		if ranBy(&object, "main").ImageID != ranBy(&old, "main").ImageID ||
			!inplace.SameImage(ranBy(&object, "main").Image, "nginx:1") {
			w.Errorf("pod %s: the story is another one: %+v", pod, ranBy(&object, "main"))
		}
	}
	states := watch.until(after)
	expectGate(w, states)
	for pod, list := range states {
		list = list[first(list, shut):]
		old := before[pod]
		if open := first(list, gateOpen); ranBy(list[open], "main").ContainerID == ranBy(&old, "main").ContainerID {
			w.Errorf("pod %s was opened before its container had restarted", pod)
		}
	}
	watch.expectWrites(after, "patch status", "patch", "patch status")
	w.change(name, image("nginx:1"))
	again := w.settle(name)
	w.expectSame(before, again)
	w.expectRestarts(again, "main", 2)
}

// Pods whose image cannot be pulled do not spread beyond the limit, and are the first to get the next revision.
func badImage(w *world, name string) {
	before := w.create(newCloneSet(name, 4))
	watch := w.record(name)
	w.change(name, image("does-not-exist:2"))
	w.waitFor(name, "main", "ImagePullBackOff", 2)
	w.change(name, image("nginx:3"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:3": 4})
	w.expectRestarts(after, "main", 1)
	states := watch.until(after)
	expectGate(w, states)
	stuck := 0
	for _, list := range states {
		if first(list, imageIs("main", "does-not-exist:2")) < len(list) {
			stuck++
		}
	}
	if stuck != 2 {
		w.Errorf("%d pods got the image that cannot be pulled, maxUnavailable is 2", stuck)
	}
}

// Going back in the middle of a rollout leaves the pods alone that it had not reached.
func back(w *world, name string) {
	before := w.create(newCloneSet(name, 5))
	watch := w.record(name)
	w.change(name, both(image("does-not-exist:2"), label("tier", "front")))
	w.waitFor(name, "main", "ImagePullBackOff", 2)
	w.change(name, func(cs *v1beta1.CloneSet) {
		image("nginx:1")(cs)
		delete(cs.Spec.Template.Labels, "tier")
	})
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:1": 5})
	moved := map[string]corev1.Pod{}
	for pod, object := range after {
		if object.ResourceVersion != before[pod].ResourceVersion {
			moved[pod] = object
		}
	}
	if len(moved) != 2 {
		w.Errorf("%d pods were touched, maxUnavailable is 2", len(moved))
	}
	for pod, list := range watch.until(moved) {
		last := list[len(list)-1]
		if _, left := last.Labels["tier"]; left || last.Labels["controller-revision-hash"] != before[pod].Labels["controller-revision-hash"] {
			w.Errorf("pod %s is left with labels %v", pod, last.Labels)
		}
	}
	cs := w.get(name)
	if cs.Status.CurrentRevision != cs.Status.UpdateRevision {
		w.Errorf("status %+v", cs.Status)
	}
}

// Many revisions, one after the other, each before the pods have come to rest: they end with the last one.
func flurry(w *world, name string) {
	before := w.create(newCloneSet(name, 4, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(4)) })))
	watch := w.record(name)
	for _, next := range []string{"nginx:2", "nginx:1", "nginx:3", "nginx:2", "nginx:1"} {
		w.change(name, image(next))
		w.eventually("a pod gets "+next, func() string {
			if got := imagesOf(w.pods(name)); got[next] == 0 {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:1": 4})
	for pod, object := range after {
		if runs := ranBy(&object, "main"); !inplace.SameImage(runs.Image, "nginx:1") {
			w.Errorf("pod %s runs %s", pod, runs.Image)
		}
	}
	expectGate(w, watch.until(after))
}
