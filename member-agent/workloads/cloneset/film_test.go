package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

// film is what the API server told of the pods of one CloneSet, in its order: what happened in between, not only the
// end.
type film struct {
	w      *world
	name   string
	begin  map[string]corev1.Pod
	watch  watch.Interface
	mu     sync.Mutex
	scenes []scene
}

// scene is one change of a pod. now are all pods that are there after it, by name; the pods are shared between scenes.
type scene struct {
	kind watch.EventType
	pod  *corev1.Pod
	now  map[string]*corev1.Pod
}

// film begins now. It sees the pods that match the selector of newCloneSet.
func (w *world) film(name string) *film {
	w.Helper()
	watcher, err := client.NewWithWatch(w.config, client.Options{Scheme: apiserver.Scheme(w)})
	w.must(err)
	var list corev1.PodList
	where := []client.ListOption{client.InNamespace("default"), client.MatchingLabels{"app": name}}
	w.must(watcher.List(w.Context(), &list, where...))
	f := &film{w: w, name: name, begin: map[string]corev1.Pod{}}
	for _, pod := range list.Items {
		f.begin[pod.Name] = pod
	}
	where = append(where, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	f.watch, err = watcher.Watch(w.Context(), &corev1.PodList{}, where...)
	w.must(err)
	w.Cleanup(f.watch.Stop)
	go func() {
		for event := range f.watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				f.mu.Lock()
				f.scenes = append(f.scenes, scene{kind: event.Type, pod: pod})
				f.mu.Unlock()
			}
		}
	}()
	return f
}

// end waits until the film has caught up with what the API server says now, and returns it.
func (f *film) end() []scene {
	f.w.Helper()
	var out []scene
	f.w.eventually("the film of "+f.name+" catches up", func() string {
		var list corev1.PodList
		f.w.must(f.w.List(f.w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": f.name}))
		f.mu.Lock()
		out = slices.Clone(f.scenes)
		f.mu.Unlock()
		last := f.replay(out)
		if len(last) != len(list.Items) {
			return fmt.Sprintf("%d pods of %d", len(last), len(list.Items))
		}
		for _, pod := range list.Items {
			if seen := last[pod.Name]; seen == nil || seen.ResourceVersion != pod.ResourceVersion {
				return pod.Name + " is not there yet"
			}
		}
		return ""
	})
	return out
}

// replay fills in the pods of each scene and returns those of the last one.
func (f *film) replay(scenes []scene) map[string]*corev1.Pod {
	now := map[string]*corev1.Pod{}
	for name, pod := range f.begin {
		now[name] = &pod
	}
	for i := range scenes {
		now = maps.Clone(now)
		if pod := scenes[i].pod; scenes[i].kind == watch.Deleted {
			delete(now, pod.Name)
		} else {
			now[pod.Name] = pod
		}
		scenes[i].now = now
	}
	return now
}

// firsts returns the names of pods in the order in which is became true of them; pods of which it was true at the
// beginning are left out.
func (f *film) firsts(scenes []scene, is func(*corev1.Pod) bool) []string {
	seen, out := map[string]bool{}, []string{}
	for name, pod := range f.begin {
		seen[name] = is(&pod)
	}
	for _, s := range scenes {
		if !seen[s.pod.Name] && is(s.pod) {
			seen[s.pod.Name] = true
			out = append(out, s.pod.Name)
		}
	}
	return out
}

// serving tells whether traffic may come to the pod.
func serving(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	ready, shut := false, false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		shut = shut || c.Type == v1beta1.InPlaceUpdateReady && c.Status != corev1.ConditionTrue
	}
	return ready && !shut
}

// active tells whether the pod counts: it has not ended and is not on its way out.
func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

func tally(pods map[string]*corev1.Pod, is func(*corev1.Pod) bool) int {
	n := 0
	for _, pod := range pods {
		if is(pod) {
			n++
		}
	}
	return n
}

// runs tells whether the spec of a pod names the image.
func runs(image string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image }
}

// expectBounds fails unless at every moment at least least pods were in service and at most most counted.
func (f *film) expectBounds(scenes []scene, least, most int) {
	f.w.Helper()
	for _, s := range scenes {
		in, all := tally(s.now, serving), tally(s.now, active)
		if in < least || all > most {
			f.w.Errorf("after %s of pod %s: %d pods of %d are in service, want at least %d of at most %d",
				strings.ToLower(string(s.kind)), s.pod.Name, in, all, least, most)
			return
		}
	}
}

// relabel gives a pod labels; an empty value takes a label away.
func (w *world) relabel(name string, values map[string]string) {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod))
	before := pod.DeepCopy()
	for key, value := range values {
		if value == "" {
			delete(pod.Labels, key)
		} else {
			pod.Labels[key] = value
		}
	}
	w.must(w.Patch(w.Context(), pod, client.MergeFrom(before)))
}

// conditionOf returns a condition of the CloneSet, an empty one if it has none of that type.
func conditionOf(cs *v1beta1.CloneSet, kind v1beta1.CloneSetConditionType) v1beta1.CloneSetCondition {
	for _, c := range cs.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1beta1.CloneSetCondition{}
}

// expectSoon waits until the status answers the spec and check finds nothing wrong with it.
func (w *world) expectSoon(name, what string, check func(cs *v1beta1.CloneSet) string) {
	w.Helper()
	w.eventually(what, func() string {
		cs := w.get(name)
		if cs.Status.ObservedGeneration != cs.Generation {
			return "the generation is not observed"
		}
		return check(cs)
	})
}

// expectUpdated waits until n pods are updated and in service.
func (w *world) expectUpdated(name string, n int32) {
	w.Helper()
	w.expectSoon(name, fmt.Sprintf("%d pods of %s are updated", n, name), func(cs *v1beta1.CloneSet) string {
		if s := cs.Status; s.UpdatedReplicas != n || s.UpdatedAvailableReplicas != n {
			return fmt.Sprintf("%d are, %d of them available: %s", s.UpdatedReplicas, s.UpdatedAvailableReplicas,
				conditionOf(cs, v1beta1.ConditionReconciling).Message)
		}
		return ""
	})
}

// sorted returns the names of pods.
func sorted[P any](pods map[string]P) []string { return slices.Sorted(maps.Keys(pods)) }
