package cloneset_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// One cluster serves all stories; each has a CloneSet of its own.
func TestStories(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	for _, story := range []struct {
		name string
		run  func(*world, string)
	}{
		{"in-place", inPlace},
		{"partition", partitions},
		{"paused", paused},
		{"recreate", recreate},
		{"surge", surge},
		{"on-delete", onDelete},
		{"scale-in", scaleIn},
		{"specified-delete", specifiedDelete},
		{"lost-pod", lostPod},
		{"failed-pod", failedPod},
		{"adopt", adopt},
		{"refused", refused},
		{"in-place-only", inPlaceOnly},
		{"history", historyLimit},
		{"deleted", deleted},
	} {
		t.Run(story.name, func(t *testing.T) {
			one := *w
			one.TB = t
			story.run(&one, story.name)
		})
	}
	t.Run("restarted in the middle of a rollout", func(t *testing.T) {
		one := *w
		one.TB = t
		restarted(&one, w)
	})
	t.Run("a steady state writes nothing", func(t *testing.T) {
		one := *w
		one.TB = t
		steady(&one)
	})
}

func image(name string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n int32) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Replicas = &n }
}

func rolling(change func(*v1beta1.RollingUpdateCloneSetStrategy)) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { change(cs.Spec.UpdateStrategy.RollingUpdate) }
}

func partition(value string) func(*v1beta1.CloneSet) {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Partition = new(intstr.Parse(value)) })
}

func policy(p v1beta1.PodUpdatePolicyType) func(*v1beta1.CloneSet) {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.PodUpdatePolicy = p })
}

func (w *world) create(cs *v1beta1.CloneSet) map[string]corev1.Pod {
	w.Helper()
	w.must(w.Create(w.Context(), cs))
	return w.settle(cs.Name)
}

func (w *world) expectImages(pods map[string]corev1.Pod, want map[string]int) {
	w.Helper()
	if got := imagesOf(pods); !maps.Equal(got, want) {
		w.Errorf("images %v, want %v", got, want)
	}
}

// expectSame fails unless after holds the same pods as before.
func (w *world) expectSame(before, after map[string]corev1.Pod) {
	w.Helper()
	for name, pod := range after {
		if before[name].UID != pod.UID {
			w.Errorf("pod %s was made anew", name)
		}
	}
	if len(before) != len(after) {
		w.Errorf("%d pods became %d", len(before), len(after))
	}
}

func inPlace(w *world, name string) {
	before := w.create(newCloneSet(name, 5))
	for pod, object := range before {
		if pod != name+"-"+object.Labels[v1beta1.LabelInstanceID] || object.Labels[v1beta1.LabelLifecycleState] != "Normal" {
			w.Errorf("pod %s has labels %v", pod, object.Labels)
		}
		if hash := object.Labels[v1beta1.LabelPodTemplateHash]; object.Labels["controller-revision-hash"] != name+"-"+hash {
			w.Errorf("pod %s has revision %v", pod, object.Labels)
		}
	}
	cs := w.get(name)
	if cs.Status.LabelSelector != selectorOf(cs) || cs.Status.CurrentRevision != cs.Status.UpdateRevision {
		w.Errorf("status %+v", cs.Status)
	}
	w.change(name, func(cs *v1beta1.CloneSet) {
		image("nginx:2")(cs)
		cs.Spec.Template.Labels["tier"] = "front"
	})
	after := w.settle(name)
	w.expectSame(before, after)
	for pod, object := range after {
		if status := object.Status.ContainerStatuses[0]; status.RestartCount != 1 ||
			object.Spec.Containers[0].Image != "nginx:2" {
			w.Errorf("pod %s runs %s after %d restarts", pod, object.Spec.Containers[0].Image, status.RestartCount)
		}
		if object.Labels["tier"] != "front" || object.Annotations[v1beta1.AnnotationInPlaceUpdateState] == "" {
			w.Errorf("pod %s has labels %v, annotations %v", pod, object.Labels, object.Annotations)
		}
	}
	cs = w.get(name)
	if cs.Status.CurrentRevision != cs.Status.UpdateRevision {
		w.Errorf("the current revision did not follow: %+v", cs.Status)
	}
}

func partitions(w *world, name string) {
	before := w.create(newCloneSet(name, 5))
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition("50%")(cs) })
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:1": 3, "nginx:2": 2})
	cs := w.get(name)
	if cs.Status.ExpectedUpdatedReplicas != 2 || cs.Status.CurrentRevision == cs.Status.UpdateRevision {
		w.Errorf("status %+v", cs.Status)
	}
	w.change(name, replicas(8))
	w.expectImages(w.settle(name), map[string]int{"nginx:1": 4, "nginx:2": 4})
	w.change(name, replicas(5))
	w.expectImages(w.settle(name), map[string]int{"nginx:1": 3, "nginx:2": 2})
	w.change(name, partition("4"))
	w.eventually("one pod goes back", func() string {
		if got := imagesOf(w.settle(name)); !maps.Equal(got, map[string]int{"nginx:1": 4, "nginx:2": 1}) {
			return fmt.Sprint(got)
		}
		return ""
	})
	w.change(name, partition("0"))
	w.expectImages(w.settle(name), map[string]int{"nginx:2": 5})
}

func paused(w *world, name string) {
	before := w.create(newCloneSet(name, 3, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = true }),
		func(cs *v1beta1.CloneSet) { cs.Spec.ProgressDeadlineSeconds = new(int32(600)) }))
	w.change(name, image("nginx:2"))
	w.eventually("Progressing says paused", func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == v1beta1.CloneSetConditionProgressing && c.Reason == "CloneSetPaused" &&
				c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprint(w.get(name).Status.Conditions)
	})
	w.expectSame(before, w.pods(name))
	w.expectImages(w.pods(name), map[string]int{"nginx:1": 3})
	w.change(name, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = false }))
	w.expectImages(w.settle(name), map[string]int{"nginx:2": 3})
}

func recreate(w *world, name string) {
	before := w.create(newCloneSet(name, 5, policy(v1beta1.ReCreatePodUpdatePolicy)))
	w.change(name, image("nginx:2"))
	after := w.settle(name)
	w.expectImages(after, map[string]int{"nginx:2": 5})
	for pod := range after {
		if _, same := before[pod]; same {
			w.Errorf("pod %s was not made anew", pod)
		}
	}
}

func surge(w *world, name string) {
	w.create(newCloneSet(name, 4, policy(v1beta1.ReCreatePodUpdatePolicy),
		rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
			r.MaxUnavailable, r.MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromString("50%"))
		})))
	w.change(name, image("nginx:2"))
	w.eventually("all pods are replaced while none is missing", func() string {
		cs, pods := w.get(name), w.pods(name)
		ready := int32(0)
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready < 4 || len(pods) > 6 {
			w.Errorf("%d pods, %d of them ready", len(pods), ready)
		}
		if cs.Status.UpdatedAvailableReplicas != 4 || cs.Status.Replicas != 4 {
			return fmt.Sprintf("status %+v", cs.Status)
		}
		return ""
	})
	w.expectImages(w.settle(name), map[string]int{"nginx:2": 4})
}

func onDelete(w *world, name string) {
	before := w.create(newCloneSet(name, 3, func(cs *v1beta1.CloneSet) {
		cs.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDeleteCloneSetUpdateStrategyType}
	}))
	w.change(name, image("nginx:2"))
	w.expectSame(before, w.settle(name))
	w.expectImages(w.pods(name), map[string]int{"nginx:1": 3})
	w.delete(before)
	w.expectImages(w.settle(name), map[string]int{"nginx:1": 2, "nginx:2": 1})
}

// delete deletes one of the pods, and returns its name.
func (w *world) delete(pods map[string]corev1.Pod) string {
	w.Helper()
	for name, pod := range pods {
		w.must(w.Delete(w.Context(), &pod))
		return name
	}
	return ""
}

func scaleIn(w *world, name string) {
	w.must(w.Create(w.Context(), newCloneSet(name, 4)))
	pods := w.settle(name)
	var sick string
	for pod, object := range pods {
		sick = pod
		before := object.DeepCopy()
		object.Labels[fleet.LabelNeverReady] = "true"
		w.must(w.Patch(w.Context(), &object, client.MergeFrom(before)))
		break
	}
	w.eventually("one pod is not ready", func() string {
		if got := w.get(name).Status.ReadyReplicas; got != 3 {
			return fmt.Sprintf("%d are ready", got)
		}
		return ""
	})
	w.change(name, replicas(3))
	after := w.settle(name)
	if _, stayed := after[sick]; stayed {
		w.Errorf("the pod that was not ready stayed: %v", after)
	}
}

func specifiedDelete(w *world, name string) {
	pods := w.create(newCloneSet(name, 3))
	var label, list string
	for pod, object := range pods {
		if label == "" {
			label = pod
			before := object.DeepCopy()
			object.Labels[v1beta1.LabelSpecifiedDelete] = "true"
			w.must(w.Patch(w.Context(), &object, client.MergeFrom(before)))
			continue
		}
		list = pod
	}
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = []string{list} })
	w.eventually("both pods are replaced, and the list is emptied", func() string {
		after := w.settle(name)
		if _, ok := after[label]; ok {
			return "the labelled pod is there"
		}
		if _, ok := after[list]; ok {
			return "the listed pod is there"
		}
		if left := w.get(name).Spec.ScaleStrategy.PodsToDelete; len(left) > 0 {
			return fmt.Sprintf("podsToDelete %v", left)
		}
		return ""
	})
}

func lostPod(w *world, name string) {
	before := w.create(newCloneSet(name, 3))
	gone := w.delete(before)
	after := w.settle(name)
	if _, ok := after[gone]; ok {
		w.Errorf("pod %s is still there", gone)
	}
	delete(before, gone)
	for pod, object := range before {
		if after[pod].UID != object.UID {
			w.Errorf("pod %s was touched", pod)
		}
	}
}

func failedPod(w *world, name string) {
	before := w.create(newCloneSet(name, 2))
	var failed string
	for pod, object := range before {
		failed = pod
		patch := []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`)
		w.must(w.Status().Patch(w.Context(), &object, client.RawPatch("application/merge-patch+json", patch)))
		break
	}
	w.eventually("the failed pod is gone and replaced", func() string {
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: failed}, &corev1.Pod{}); err == nil {
			return failed + " is there"
		}
		return ""
	})
	w.settle(name)
}

func adopt(w *world, name string) {
	orphan := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orphan", Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}},
	}
	w.must(w.Create(w.Context(), orphan))
	w.must(w.Create(w.Context(), newCloneSet(name, 2)))
	w.eventually("the orphan belongs to the CloneSet", func() string {
		pods := w.pods(name)
		if pod, ok := pods["orphan"]; ok && metav1.GetControllerOf(&pod) == nil {
			return "it has no controller"
		}
		return ""
	})
	w.settle(name)
}

func refused(w *world, name string) {
	w.must(w.Create(w.Context(), newCloneSet(name, 3, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Name = "Not A Name"
	})))
	w.eventually("Stalled says why", func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == v1beta1.ConditionStalled && c.Status == corev1.ConditionTrue && c.Reason == "InvalidTemplate" {
				return ""
			}
		}
		return fmt.Sprint(w.get(name).Status.Conditions)
	})
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Name = "main" })
	w.settle(name)
}

func inPlaceOnly(w *world, name string) {
	before := w.create(newCloneSet(name, 2, policy(v1beta1.InPlaceOnlyPodUpdatePolicy)))
	w.change(name, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	w.eventually("Stalled names the field", func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == v1beta1.ConditionStalled && c.Reason == "InPlaceImpossible" {
				return ""
			}
		}
		return fmt.Sprint(w.get(name).Status.Conditions)
	})
	w.expectSame(before, w.pods(name))
	w.change(name, policy(v1beta1.InPlaceIfPossiblePodUpdatePolicy))
	after := w.settle(name)
	for pod := range after {
		if _, same := before[pod]; same {
			w.Errorf("pod %s was not made anew", pod)
		}
	}
}

func historyLimit(w *world, name string) {
	w.create(newCloneSet(name, 1, func(cs *v1beta1.CloneSet) { cs.Spec.RevisionHistoryLimit = new(int32(1)) }))
	for i := range 4 {
		w.change(name, image(fmt.Sprintf("nginx:%d", i+2)))
		w.settle(name)
	}
	w.change(name, image("nginx:4"))
	w.settle(name)
	w.eventually("two revisions are left", func() string {
		if revisions := w.revisions(name); len(revisions) != 2 {
			return fmt.Sprintf("%d revisions", len(revisions))
		}
		return ""
	})
}

func deleted(w *world, name string) {
	w.create(newCloneSet(name, 3))
	w.must(w.Delete(w.Context(), w.get(name), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.eventually("the pods are collected", func() string {
		if pods := w.pods(name); len(pods) > 0 {
			return fmt.Sprintf("%d are there", len(pods))
		}
		return ""
	})
}

func restarted(w, main *world) {
	before := w.create(newCloneSet("restart", 12, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(1)) })))
	w.change("restart", image("nginx:2"))
	w.eventually("some pods are updated", func() string {
		if n := w.get("restart").Status.UpdatedReplicas; n < 2 {
			return fmt.Sprintf("%d", n)
		}
		return ""
	})
	main.stop()
	main.start()
	after := w.settle("restart")
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:2": 12})
	for pod, object := range after {
		if n := object.Status.ContainerStatuses[0].RestartCount; n != 1 {
			w.Errorf("pod %s restarted %d times", pod, n)
		}
	}
}

// quiet is how long nothing may be written. Anything that writes again and again does so within seconds.
const quiet = 4 * time.Second
