package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

// A surplus pod waits in PreparingDelete; it comes back when it is surplus no more, and is deleted when its hook lets
// go.
func heldScaleIn(w *world, name string) {
	before := w.create(newCloneSet(name, 3, hooked(v1beta1.Lifecycle{PreDelete: byLabel(drain)}, drain)))
	w.change(name, replicas(2))
	waiting := [6]int32{3, 3, 2, 3, 3, 2}
	one := lives{isNormal: 2, isPreparingDelete: 1}
	chosen := w.reaches(name, one, waiting, "lifecycle.preDelete: label hooks.test/drain=yes is still on the pod")[isPreparingDelete]
	w.marks(chosen[0], "")
	w.expectSame(before, w.pods(name))

	w.change(name, replicas(3))
	w.expectSame(before, w.settle(name))

	w.change(name, replicas(2))
	chosen = w.reaches(name, one, waiting, "pod "+chosen[0]+" waits")[isPreparingDelete]
	// One that waits already stays the one that goes, whatever happens to another pod.
	w.change(name, replicas(1))
	both := w.reaches(name, lives{isNormal: 1, isPreparingDelete: 2}, [6]int32{3, 3, 1, 3, 3, 1},
		"2 pods wait")[isPreparingDelete]
	if !slices.Contains(both, chosen[0]) {
		w.Errorf("%v wait, %v waited before", both, chosen)
	}
	w.letGo(both[0], drain)
	w.reaches(name, lives{isNormal: 1, isPreparingDelete: 1}, [6]int32{2, 2, 1, 2, 2, 1},
		"pod "+both[1]+" waits: lifecycle.preDelete")
	w.letGo(both[1], drain)
	after := w.settle(name)
	for pod, object := range after {
		if before[pod].UID != object.UID || slices.Contains(both, pod) {
			w.Errorf("pod %s is left, %v waited", pod, both)
		}
	}
}

// A pod that comes back from PreparingDelete shows itself to the hook preNormal again, as it may have been taken out of
// service.
func pulledBackToPreNormal(w *world, name string) {
	w.must(w.Create(w.Context(), newCloneSet(name, 2,
		hooked(v1beta1.Lifecycle{PreNormal: byLabel(known), PreDelete: marking(byLabel(drain))}, drain))))
	for _, pod := range w.reaches(name, lives{isPreparingNormal: 2}, [6]int32{2, 2, 0, 2, 2, 0},
		"lifecycle.preNormal")[isPreparingNormal] {
		w.put(pod, known)
	}
	before := w.settle(name)
	w.change(name, replicas(1))
	pod := w.reaches(name, lives{isNormal: 1, isPreparingDelete: 1}, [6]int32{2, 1, 1, 2, 1, 1},
		"lifecycle.preDelete")[isPreparingDelete][0]
	w.marks(pod, "["+heldForDelete+"]")
	w.letGo(pod, known)
	w.expectSame(before, w.pods(name))
	w.change(name, replicas(2))
	w.reaches(name, lives{isNormal: 1, isPreparingNormal: 1}, [6]int32{2, 2, 1, 2, 2, 1},
		"pod "+pod+" waits: lifecycle.preNormal")
	w.marks(pod, "")
	w.put(pod, known)
	w.expectSame(before, w.settle(name))
}

// A pod that somebody named is replaced when it is gone; with the label taken off again it stays.
func heldSpecifiedDelete(w *world, name string) {
	before := w.create(newCloneSet(name, 3, hooked(v1beta1.Lifecycle{PreDelete: marking(byFinalizer(registrar))},
		registrar)))
	pod := slices.Sorted(maps.Keys(before))[1]
	ask := func(on bool) {
		w.touch(pod, func(p *corev1.Pod) {
			delete(p.Labels, v1beta1.LabelSpecifiedDelete)
			if on {
				p.Labels[v1beta1.LabelSpecifiedDelete] = "true"
			}
		})
	}
	watched := w.follow(name)
	waiting := func() {
		w.Helper()
		w.reaches(name, lives{isNormal: 2, isPreparingDelete: 1}, [6]int32{3, 2, 2, 3, 2, 2},
			"pod "+pod+" waits: lifecycle.preDelete: finalizer hooks.test/registrar is still on the pod")
		w.marks(pod, "["+heldForDelete+"]")
	}
	ask(true)
	waiting()
	ask(false)
	w.expectSame(before, w.settle(name))
	ask(true)
	waiting()
	w.letGo(pod, registrar)
	w.eventually("it is replaced", func() string {
		if _, there := w.pods(name)[pod]; there {
			return "it is there"
		}
		return ""
	})
	after := w.settle(name)
	if history := watched.until(after); history.most != 3 || history.fewest != 2 {
		w.Errorf("there were %d pods at most, and %d available at least", history.most, history.fewest)
	}
	w.release(name)
}

func heldPodsToDelete(w *world, name string) {
	before := w.create(newCloneSet(name, 3, hooked(v1beta1.Lifecycle{PreDelete: byLabel(drain)}, drain)))
	names := slices.Sorted(maps.Keys(before))
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = names[:2] })
	waiting := func() {
		w.Helper()
		got := w.reaches(name, lives{isNormal: 1, isPreparingDelete: 2}, [6]int32{3, 3, 1, 3, 3, 1},
			"2 pods wait; pod "+names[0])
		if !slices.Equal(got[isPreparingDelete], names[:2]) {
			w.Errorf("%v wait", got)
		}
	}
	waiting()
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = nil })
	w.expectSame(before, w.settle(name))
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = names[:2] })
	waiting()
	w.letGo(names[0], drain)
	w.eventually("the name of the pod that is gone is taken off the list", func() string {
		if left := w.get(name).Spec.ScaleStrategy.PodsToDelete; !slices.Equal(left, names[1:2]) {
			return fmt.Sprint(left)
		}
		return ""
	})
	w.reaches(name, lives{isNormal: 2, isPreparingDelete: 1}, [6]int32{3, 3, 2, 3, 3, 2}, "pod "+names[1]+" waits")
	w.letGo(names[1], drain)
	w.eventually("the list is empty", func() string {
		return strings.Join(w.get(name).Spec.ScaleStrategy.PodsToDelete, " ")
	})
	after := w.settle(name)
	if _, stayed := after[names[2]]; !stayed || after[names[0]].Name+after[names[1]].Name != "" {
		w.Errorf("the pods are %v, were %v", slices.Sorted(maps.Keys(after)), names)
	}
}

// served lets go of every pod that waits to be deleted, until all pods have the image.
func (w *world) served(name, image string) map[string]corev1.Pod {
	w.Helper()
	w.eventually("all pods have "+image, func() string {
		old := 0
		for pod, object := range w.pods(name) {
			if object.Spec.Containers[0].Image != image {
				old++
			}
			if _, on := object.Labels[drain]; on && lifecycle.State(&object) == isPreparingDelete {
				w.letGo(pod, drain)
			}
		}
		if old > 0 {
			return fmt.Sprintf("%d have not", old)
		}
		return ""
	})
	return w.settle(name)
}

// A pod that is to be made anew waits for its hook; the limit is held by those that wait.
func heldRecreate(w *world, name string) {
	before := w.create(newCloneSet(name, 4, policy(v1beta1.ReCreatePodUpdatePolicy),
		hooked(v1beta1.Lifecycle{PreDelete: byLabel(drain)}, drain)))
	watched := w.follow(name)
	w.change(name, image("nginx:2"))
	one := w.reaches(name, lives{isNormal: 2, isPreparingDelete: 2}, [6]int32{4, 4, 2, 0, 0, 0},
		"2 pods wait")[isPreparingDelete]
	w.expectSame(before, w.pods(name))
	// It is called off as one in place is.
	w.change(name, partition("4"))
	w.expectSame(before, w.settle(name))
	w.change(name, partition("0"))
	w.reaches(name, lives{isNormal: 2, isPreparingDelete: 2}, [6]int32{4, 4, 2, 0, 0, 0}, "2 pods wait")
	after := w.served(name, "nginx:2")
	if _, stayed := after[one[0]]; stayed {
		w.Errorf("pod %s was not made anew", one[0])
	}
	if history := watched.until(after); history.most > 4 || history.fewest < 2 {
		w.Errorf("there were %d pods at most, and %d available at least, with maxUnavailable 2 of 4", history.most,
			history.fewest)
	}
}

// With surge, a held pod keeps its place in the number of pods: there are never more than replicas and maxSurge.
func heldSurge(w *world, name string) {
	w.create(newCloneSet(name, 3, policy(v1beta1.ReCreatePodUpdatePolicy),
		hooked(v1beta1.Lifecycle{PreDelete: byLabel(drain)}, drain),
		rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
			r.MaxUnavailable, r.MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
		})))
	watched := w.follow(name)
	w.change(name, image("nginx:2"))
	w.reaches(name, lives{isNormal: 3, isPreparingDelete: 1}, [6]int32{4, 4, 3, 1, 1, 1}, "lifecycle.preDelete")
	after := w.served(name, "nginx:2")
	if history := watched.until(after); history.most != 4 || history.fewest != 3 {
		w.Errorf("there were %d pods at most, and %d available at least, with maxSurge 1", history.most, history.fewest)
	}
}

// With excludePreparingDelete a pod counts no more as soon as it waits: its replacement comes at once. It comes back
// rather than that another one is made.
func excludePreparingDelete(w *world, name string) {
	before := w.create(newCloneSet(name, 3, hooked(v1beta1.Lifecycle{PreDelete: byLabel(drain)}, drain),
		func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.ExcludePreparingDelete = true }))
	pod := slices.Sorted(maps.Keys(before))[0]
	w.touch(pod, func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "true" })
	w.reaches(name, lives{isNormal: 3, isPreparingDelete: 1}, [6]int32{4, 4, 3, 4, 4, 3},
		"pod "+pod+" waits: lifecycle.preDelete")

	w.change(name, replicas(2))
	two := w.reaches(name, lives{isNormal: 2, isPreparingDelete: 2}, [6]int32{4, 4, 2, 4, 4, 2}, "2 pods wait")
	w.change(name, replicas(3))
	got := w.reaches(name, lives{isNormal: 3, isPreparingDelete: 1}, [6]int32{4, 4, 3, 4, 4, 3}, "pod "+pod+" waits")
	for _, back := range two[isPreparingDelete] {
		if !slices.Contains(got[isNormal], back) && back != pod {
			w.Errorf("pod %s did not come back: %v", back, got)
		}
	}
	w.change(name, replicas(4))
	w.reaches(name, lives{isNormal: 4, isPreparingDelete: 1}, [6]int32{5, 5, 4, 5, 5, 4}, "pod "+pod+" waits")
	w.letGo(pod, drain)
	if _, there := w.settle(name)[pod]; there {
		w.Errorf("pod %s is there", pod)
	}

	// Made anew, all old pods wait beside the new ones.
	w.change(name, func(cs *v1beta1.CloneSet) { policy(v1beta1.ReCreatePodUpdatePolicy)(cs); image("nginx:2")(cs) })
	w.reaches(name, lives{isNormal: 4, isPreparingDelete: 4}, [6]int32{8, 8, 4, 4, 4, 4}, "4 pods wait")
	// Without it they count again; there are too many pods, and the same ones go.
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.ExcludePreparingDelete = false })
	w.expectImages(w.served(name, "nginx:2"), map[string]int{"nginx:2": 4})
}

// A pod that has ended serves nobody, and there is nothing to wait for: it is deleted at once and replaced.
func endedPodIsNotHeld(w *world, name string) {
	before := w.create(newCloneSet(name, 2, hooked(v1beta1.Lifecycle{PreDelete: marking(byLabel(drain))}, drain)))
	watched := w.follow(name)
	pod := before[slices.Sorted(maps.Keys(before))[0]]
	w.must(w.Status().Patch(w.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`))))
	w.eventually("the failed pod is gone", func() string {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(&pod), &corev1.Pod{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprint("reading it: ", err)
		}
		return ""
	})
	after := w.settle(name)
	if len(after) != 2 {
		w.Errorf("the pods are %v", after)
	}
	for pod, states := range watched.until(after).states {
		if !slices.Equal(states, []v1beta1.LifecycleState{isNormal}) {
			w.Errorf("pod %s goes through %v", pod, states)
		}
	}
}

// Pods that wait in each state cause no writes.
func waitsQuietly(w *world, name string) {
	all := v1beta1.Lifecycle{PreNormal: byLabel(known), InPlaceUpdate: marking(byLabel(serve)),
		PreDelete: marking(byLabel(drain))}
	w.must(w.Create(w.Context(), newCloneSet(name, 4, hooked(all, serve, drain),
		rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(3)) }))))
	pods := w.reaches(name, lives{isPreparingNormal: 4}, [6]int32{4, 4, 0, 4, 4, 0}, "4 pods wait")[isPreparingNormal]
	for _, pod := range pods[1:] {
		w.put(pod, known)
	}
	w.reaches(name, lives{isPreparingNormal: 1, isNormal: 3}, [6]int32{4, 4, 3, 4, 4, 3}, "pod "+pods[0]+" waits")
	w.letGo(pods[1], serve)
	w.touch(pods[2], func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "true" })
	w.reaches(name, lives{isPreparingNormal: 1, isPreparingDelete: 1, isNormal: 2}, [6]int32{4, 3, 2, 4, 3, 2},
		"2 pods wait")
	w.writesNothing()
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition("2")(cs) })
	w.eventually("pods wait for the update and after it", func() string {
		return tells(w.get(name).Status.Conditions, "lifecycle.")
	})
	w.writesNothing()
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.Lifecycle = nil })
	w.settle(name)
}

// Another manager goes on with what waits: one pod was let go of while nobody looked, one waits on.
func heldOverRestart(w, main *world) {
	const name = "restart"
	before := w.create(newCloneSet(name, 4, hooked(v1beta1.Lifecycle{PreDelete: marking(byLabel(drain)),
		InPlaceUpdate: marking(byLabel(serve))}, drain, serve)))
	w.change(name, image("nginx:2"))
	updating := w.reaches(name, lives{isPreparingUpdate: 2, isNormal: 2}, [6]int32{4, 2, 2, 0, 0, 0},
		"lifecycle.inPlaceUpdate")[isPreparingUpdate]
	leaving := updating[1]
	w.touch(leaving, func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "true" })
	held := lives{isPreparingUpdate: 1, isPreparingDelete: 1, isNormal: 2}
	w.reaches(name, held, [6]int32{4, 2, 2, 0, 0, 0}, "2 pods wait")
	w.marks(leaving, "["+heldForDelete+"]")

	main.stop()
	w.letGo(updating[0], serve)
	main.start()
	// It is updated, and its place is taken by nobody: it is not normal yet.
	w.reaches(name, lives{isUpdated: 1, isPreparingDelete: 1, isNormal: 2}, [6]int32{4, 3, 2, 1, 1, 0}, "2 pods wait")
	main.stop()
	w.put(updating[0], serve)
	w.letGo(leaving, drain)
	main.start()
	w.eventually("all are updated", func() string {
		for pod, object := range w.pods(name) {
			switch lifecycle.State(&object) {
			case isPreparingUpdate:
				w.letGo(pod, serve)
			case isUpdated:
				w.put(pod, serve)
			}
		}
		if got := imagesOf(w.pods(name)); !maps.Equal(got, map[string]int{"nginx:2": 4}) {
			return fmt.Sprint(got)
		}
		if s := w.get(name).Status; s.UpdatedAvailableReplicas != 4 || s.Replicas != 4 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	after := w.settle(name)
	for pod, object := range before {
		if stays := pod != leaving; (after[pod].UID == object.UID) != stays {
			w.Errorf("pod %s: stays %v, want %v", pod, !stays, stays)
		}
	}
}
