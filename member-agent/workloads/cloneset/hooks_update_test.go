package cloneset_test

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

const (
	heldForUpdate = `{"userAgent":"Lifecycle","key":"preparingUpdate"}`
	heldForDelete = `{"userAgent":"Lifecycle","key":"preparingDelete"}`
)

// A new pod counts as available only when its hook is complete; a pod that was normal once is not asked again.
func preNormal(w *world, name string) {
	hook := byLabel(known)
	hook.FinalizersHandler = []string{registrar}
	w.must(w.Create(w.Context(), newCloneSet(name, 2, hooked(v1beta1.Lifecycle{PreNormal: hook}))))
	pods := w.reaches(name, lives{isPreparingNormal: 2}, [6]int32{2, 2, 0, 2, 2, 0},
		"lifecycle.preNormal: finalizer hooks.test/registrar is not on the pod yet")[isPreparingNormal]
	w.put(pods[0], registrar)
	w.reaches(name, lives{isPreparingNormal: 2}, [6]int32{2, 2, 0, 2, 2, 0},
		"2 pods wait; pod "+pods[0]+": lifecycle.preNormal: label hooks.test/known=yes is not on the pod yet")
	w.put(pods[0], known)
	w.reaches(name, lives{isPreparingNormal: 1, isNormal: 1}, [6]int32{2, 2, 1, 2, 2, 1},
		"pod "+pods[1]+" waits: lifecycle.preNormal")
	w.put(pods[1], known, registrar)
	before := w.settle(name)

	watched := w.follow(name)
	w.change(name, image("nginx:2"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:2": 2})
	for pod, states := range watched.until(after).states {
		if !slices.Equal(states, []v1beta1.LifecycleState{isNormal}) {
			w.Errorf("pod %s goes through %v", pod, states)
		}
	}
	w.letGo(pods[0], known, registrar)
	w.change(name, replicas(3))
	added := w.reaches(name, lives{isPreparingNormal: 1, isNormal: 2}, [6]int32{3, 3, 2, 3, 3, 2},
		"lifecycle.preNormal")[isPreparingNormal]
	w.put(added[0], known, registrar)
	w.settle(name)
	w.release(name)
}

// release takes all finalizers off the pods, so that the story leaves nothing behind that nobody can delete.
func (w *world) release(name string) {
	w.Helper()
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.Lifecycle = nil })
	for pod := range w.settle(name) {
		w.letGo(pod, registrar)
	}
}

// A pod waits in PreparingUpdate until its hook lets go of it, and in Updated until its hook is complete again.
func heldUpdate(w *world, name string) {
	before := w.create(newCloneSet(name, 3, hooked(v1beta1.Lifecycle{InPlaceUpdate: marking(byLabel(serve))}, serve)))
	watched := w.follow(name)
	w.change(name, image("nginx:2"))
	pods := w.reaches(name, lives{isPreparingUpdate: 2, isNormal: 1}, [6]int32{3, 1, 1, 0, 0, 0},
		"lifecycle.inPlaceUpdate: label hooks.test/serve=yes is still on the pod")
	waiting := pods[isPreparingUpdate]
	for _, pod := range waiting {
		w.marks(pod, "["+heldForUpdate+"]")
	}
	w.expectImages(w.pods(name), map[string]int{"nginx:1": 3})

	w.letGo(waiting[0], serve)
	got := w.reaches(name, lives{isPreparingUpdate: 1, isUpdated: 1, isNormal: 1}, [6]int32{3, 2, 1, 1, 1, 0},
		"2 pods wait; pod "+waiting[0]+": lifecycle.inPlaceUpdate: label hooks.test/serve=yes is not on the pod yet")
	if !slices.Equal(got[isUpdated], waiting[:1]) || !slices.Equal(got[isNormal], pods[isNormal]) {
		w.Errorf("the pods are %v, were %v", got, pods)
	}
	w.marks(waiting[0], "")
	w.put(waiting[0], serve)
	// The limit is held by those that wait; now that one is done the last one has its turn.
	w.reaches(name, lives{isPreparingUpdate: 2, isNormal: 1}, [6]int32{3, 1, 1, 1, 1, 1}, "2 pods wait")
	w.eventually("all are updated", func() string {
		left := ""
		for pod, object := range w.pods(name) {
			switch lifecycle.State(&object) {
			case isPreparingUpdate:
				w.letGo(pod, serve)
			case isUpdated:
				w.put(pod, serve)
			}
			if object.Spec.Containers[0].Image != "nginx:2" || lifecycle.State(&object) != isNormal {
				left = fmt.Sprintf("pod %s is %s", pod, lifecycle.State(&object))
			}
		}
		return left
	})
	after := w.settle(name)
	w.expectSame(before, after)
	for pod := range after {
		w.marks(pod, "")
	}
	history := watched.until(w.pods(name))
	if history.fewest < 1 {
		w.Errorf("%d pods were available at a moment, with maxUnavailable 2 of 3", history.fewest)
	}
	for pod, states := range history.states {
		if !slices.Equal(states, []v1beta1.LifecycleState{isNormal, isPreparingUpdate, isUpdating, isUpdated, isNormal}) {
			w.Errorf("pod %s goes through %v", pod, states)
		}
		if n := after[pod].Status.ContainerStatuses[0].RestartCount; n != 1 {
			w.Errorf("pod %s restarted %d times", pod, n)
		}
	}
}

// Pods that wait are not updated after all: the partition is raised, the update is paused, or the template goes back.
func heldUpdateCalledOff(w *world, name string) {
	before := w.create(newCloneSet(name, 3, hooked(v1beta1.Lifecycle{InPlaceUpdate: marking(byLabel(serve))}, serve)))
	w.change(name, image("nginx:2"))
	begun := func() []string {
		w.Helper()
		return w.reaches(name, lives{isPreparingUpdate: 2, isNormal: 1}, [6]int32{3, 1, 1, 0, 0, 0},
			"2 pods wait")[isPreparingUpdate]
	}
	for _, change := range []struct{ off, on func(*v1beta1.CloneSet) }{
		{partition("100%"), partition("0")},
		{rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = true }),
			rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = false })},
	} {
		pods := begun()
		w.change(name, change.off)
		w.reaches(name, lives{isNormal: 3}, [6]int32{3, 3, 3, 0, 0, 0}, "")
		for _, pod := range pods {
			w.marks(pod, "")
		}
		w.change(name, change.on)
	}
	begun()
	w.change(name, image("nginx:1"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:1": 3})
	for pod, object := range after {
		if n := object.Status.ContainerStatuses[0].RestartCount; n != 0 || lifecycle.State(&object) != isNormal {
			w.Errorf("pod %s is %s after %d restarts", pod, lifecycle.State(&object), n)
		}
		w.marks(pod, "")
	}
}

// Two parties share a hook: the pod is held while any part is left, and normal again only when all parts are back.
func twoParties(w *world, name string) {
	hook := byLabel(serve)
	hook.FinalizersHandler = []string{registrar}
	before := w.create(newCloneSet(name, 1, hooked(v1beta1.Lifecycle{InPlaceUpdate: hook, PreDelete: hook}, serve,
		registrar)))
	pod := slices.Collect(maps.Keys(before))[0]
	w.change(name, image("nginx:2"))
	w.reaches(name, lives{isPreparingUpdate: 1}, [6]int32{1, 1, 0, 0, 0, 0},
		"finalizer hooks.test/registrar is still on the pod")
	w.letGo(pod, registrar)
	w.reaches(name, lives{isPreparingUpdate: 1}, [6]int32{1, 1, 0, 0, 0, 0},
		"label hooks.test/serve=yes is still on the pod")

	// Called off when one party has let go already: it is to come back first.
	w.change(name, image("nginx:1"))
	w.reaches(name, lives{isUpdated: 1}, [6]int32{1, 1, 0, 1, 1, 0},
		"finalizer hooks.test/registrar is not on the pod yet")
	w.put(pod, registrar)
	w.expectSame(before, w.settle(name))

	w.change(name, image("nginx:2"))
	w.reaches(name, lives{isPreparingUpdate: 1}, [6]int32{1, 1, 0, 0, 0, 0},
		"finalizer hooks.test/registrar is still on the pod")
	w.letGo(pod, registrar, serve)
	w.reaches(name, lives{isUpdated: 1}, [6]int32{1, 1, 0, 1, 1, 0},
		"finalizer hooks.test/registrar is not on the pod yet")
	w.put(pod, registrar)
	w.reaches(name, lives{isUpdated: 1}, [6]int32{1, 1, 0, 1, 1, 0}, "label hooks.test/serve=yes is not on the pod yet")
	w.put(pod, serve)
	w.expectSame(before, w.settle(name))

	w.change(name, replicas(0))
	w.reaches(name, lives{isPreparingDelete: 1}, [6]int32{1, 1, 0, 1, 1, 0},
		"lifecycle.preDelete: finalizer hooks.test/registrar is still on the pod")
	w.letGo(pod, registrar)
	w.reaches(name, lives{isPreparingDelete: 1}, [6]int32{1, 1, 0, 1, 1, 0},
		"lifecycle.preDelete: label hooks.test/serve=yes is still on the pod")
	w.letGo(pod, serve)
	w.reaches(name, lives{}, [6]int32{}, "")
}

// setMark writes the mark as another of its writers does.
func (w *world) setMark(pod, message string) {
	w.Helper()
	status := corev1.ConditionFalse
	if message == "[]" {
		status = corev1.ConditionTrue
	}
	object := &corev1.Pod{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: pod}, object))
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"KruisePodReady","status":%q,"message":%q}]}}`, status, message)
	w.must(w.Status().Patch(w.Context(), object, client.RawPatch("application/strategic-merge-patch+json", []byte(patch))))
}

// The mark of a hook is one entry beside those of other writers, which stay as they are.
func markBesideOthers(w *world, name string) {
	before := w.create(newCloneSet(name, 2, hooked(v1beta1.Lifecycle{PreDelete: marking(byLabel(drain))}, drain)))
	pod := slices.Sorted(maps.Keys(before))[0]
	const other = `{"userAgent":"ContainerRecreateRequest","key":"shop/crr-1","note":{"of":"theirs"}}`
	w.setMark(pod, "[ "+other+" ]")
	w.reaches(name, lives{isNormal: 2}, [6]int32{2, 1, 1, 2, 1, 1}, "")
	w.touch(pod, func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "true" })
	w.reaches(name, lives{isNormal: 1, isPreparingDelete: 1}, [6]int32{2, 1, 1, 2, 1, 1},
		"pod "+pod+" waits: lifecycle.preDelete")
	w.marks(pod, "["+other+","+heldForDelete+"]")

	w.touch(pod, func(p *corev1.Pod) { delete(p.Labels, v1beta1.LabelSpecifiedDelete) })
	w.reaches(name, lives{isNormal: 2}, [6]int32{2, 1, 1, 2, 1, 1}, "")
	w.marks(pod, "["+other+"]")
	w.setMark(pod, "[]")
	w.expectSame(before, w.settle(name))

	// And with nobody else: Ready follows our mark both ways.
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = []string{pod} })
	w.reaches(name, lives{isNormal: 1, isPreparingDelete: 1}, [6]int32{2, 1, 1, 2, 1, 1},
		"pod "+pod+" waits: lifecycle.preDelete")
	w.marks(pod, "["+heldForDelete+"]")
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = nil })
	w.expectSame(before, w.settle(name))
	w.marks(pod, "")
}

// Pods that wait go on when the hooks are removed from the spec, and lose their marks.
func hooksRemoved(w *world, name string) {
	all := v1beta1.Lifecycle{PreNormal: byLabel(known), InPlaceUpdate: marking(byLabel(serve)),
		PreDelete: marking(byLabel(drain))}
	none := func(cs *v1beta1.CloneSet) { cs.Spec.Lifecycle = nil }
	w.must(w.Create(w.Context(), newCloneSet(name, 3, hooked(all, serve, drain))))
	w.reaches(name, lives{isPreparingNormal: 3}, [6]int32{3, 3, 0, 3, 3, 0}, "3 pods wait")
	w.change(name, none)
	before := w.settle(name)

	w.change(name, func(cs *v1beta1.CloneSet) {
		hooked(all)(cs)
		image("nginx:2")(cs)
		rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(1)) })(cs)
	})
	pods := w.reaches(name, lives{isPreparingUpdate: 1, isNormal: 2}, [6]int32{3, 2, 2, 0, 0, 0},
		"lifecycle.inPlaceUpdate")
	w.touch(pods[isNormal][0], func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "true" })
	w.reaches(name, lives{isPreparingUpdate: 1, isNormal: 2}, [6]int32{3, 2, 2, 0, 0, 0}, "lifecycle.inPlaceUpdate")
	w.change(name, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(2)) }))
	w.reaches(name, lives{isPreparingUpdate: 1, isPreparingDelete: 1, isNormal: 1}, [6]int32{3, 1, 1, 0, 0, 0},
		"2 pods wait")
	w.marks(pods[isNormal][0], "["+heldForDelete+"]")
	w.change(name, none)
	w.eventually("the named pod is gone", func() string {
		if _, there := w.pods(name)[pods[isNormal][0]]; there {
			return "it is there"
		}
		return ""
	})
	after := w.settle(name)
	w.expectImages(after, map[string]int{"nginx:2": 3})
	updated := pods[isPreparingUpdate][0]
	if after[updated].UID != before[updated].UID {
		w.Errorf("pod %s was made anew", updated)
	}
	for pod, object := range after {
		w.marks(pod, "")
		if lifecycle.State(&object) != isNormal {
			w.Errorf("pod %s stays %s", pod, lifecycle.State(&object))
		}
	}
}
