package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

func TestHooks(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	for _, story := range []struct {
		name string
		run  func(*world, string)
	}{
		{"pre-normal", preNormal},
		{"in-place-update", heldUpdate},
		{"partition-raised", heldUpdateCalledOff},
		{"two-parties", twoParties},
		{"mark", markBesideOthers},
		{"hooks-removed", hooksRemoved},
		{"pre-delete", heldScaleIn},
		{"pre-delete-and-pre-normal", pulledBackToPreNormal},
		{"specified-delete", heldSpecifiedDelete},
		{"pods-to-delete", heldPodsToDelete},
		{"recreate", heldRecreate},
		{"surge-recreate", heldSurge},
		{"exclude-preparing-delete", excludePreparingDelete},
		{"failed-pod", endedPodIsNotHeld},
		{"waits-quietly", waitsQuietly},
	} {
		t.Run(story.name, func(t *testing.T) {
			one := *w
			one.TB = t
			story.run(&one, story.name)
		})
	}
	t.Run("restart", func(t *testing.T) {
		one := *w
		one.TB = t
		heldOverRestart(&one, w)
	})
	t.Run("steady", func(t *testing.T) {
		one := *w
		one.TB = t
		steady(&one)
	})
}

// The labels and finalizers of the hooks in these stories.
const (
	drain     = "hooks.test/drain"
	serve     = "hooks.test/serve"
	known     = "hooks.test/known"
	registrar = "hooks.test/registrar"
)

// byLabel and byFinalizer are hooks of one part; the label's value is "yes".
func byLabel(key string) *v1beta1.LifecycleHook {
	return &v1beta1.LifecycleHook{LabelsHandler: map[string]string{key: "yes"}}
}

func byFinalizer(name string) *v1beta1.LifecycleHook {
	return &v1beta1.LifecycleHook{FinalizersHandler: []string{name}}
}

func marking(hook *v1beta1.LifecycleHook) *v1beta1.LifecycleHook {
	hook.MarkPodNotReady = true
	return hook
}

// hooked gives a CloneSet hooks, and its pods what is named: finalizers, and labels with the value "yes".
func hooked(l v1beta1.Lifecycle, on ...string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		cs.Spec.Lifecycle = &l
		cs.Spec.Template.Labels = maps.Clone(cs.Spec.Template.Labels) // the selector does not get them
		for _, name := range on {
			if name == registrar {
				cs.Spec.Template.Finalizers = []string{name}
				continue
			}
			cs.Spec.Template.Labels[name] = "yes"
		}
	}
}

// put puts the named parts of hooks on a pod, and letGo takes them off it.
func (w *world) put(pod string, names ...string)   { w.Helper(); w.serve(pod, true, names) }
func (w *world) letGo(pod string, names ...string) { w.Helper(); w.serve(pod, false, names) }

func (w *world) serve(name string, on bool, names []string) {
	w.Helper()
	w.touch(name, func(pod *corev1.Pod) {
		for _, name := range names {
			switch {
			case name == registrar:
				pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == name })
				if on {
					pod.Finalizers = append(pod.Finalizers, name)
				}
			case on:
				pod.Labels[name] = "yes"
			default:
				delete(pod.Labels, name)
			}
		}
	})
}

// touch changes the metadata of a pod.
func (w *world) touch(name string, change func(*corev1.Pod)) {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod))
	before := pod.DeepCopy()
	change(pod)
	w.must(w.Patch(w.Context(), pod, client.MergeFrom(before)))
}

// lives is how many pods are in which state of life.
type lives map[v1beta1.LifecycleState]int

const (
	isNormal          = v1beta1.LifecycleNormal
	isPreparingNormal = v1beta1.LifecyclePreparingNormal
	isPreparingUpdate = v1beta1.LifecyclePreparingUpdate
	isUpdating        = v1beta1.LifecycleUpdating
	isUpdated         = v1beta1.LifecycleUpdated
	isPreparingDelete = v1beta1.LifecyclePreparingDelete
)

// reaches waits until the pods are in these states and the status tells these counters: replicas, ready, available, and
// the same of the updated ones. Where waits is not empty the conditions tell it. It returns the pods' names by state,
// sorted.
func (w *world) reaches(name string, want lives, counters [6]int32, waits string) map[v1beta1.LifecycleState][]string {
	w.Helper()
	var out map[v1beta1.LifecycleState][]string
	w.eventually(fmt.Sprintf("%s reaches %v", name, want), func() string {
		pods, got := w.pods(name), lives{}
		out = map[v1beta1.LifecycleState][]string{}
		for _, pod := range slices.Sorted(maps.Keys(pods)) {
			state := v1beta1.LifecycleState(pods[pod].Labels[v1beta1.LabelLifecycleState])
			got[state]++
			out[state] = append(out[state], pod)
		}
		s := w.get(name).Status
		have := [6]int32{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas,
			s.UpdatedAvailableReplicas}
		if !maps.Equal(got, want) || have != counters {
			return fmt.Sprintf("states %v, counters %v", got, have)
		}
		return tells(s.Conditions, waits)
	})
	for _, pod := range w.pods(name) {
		w.published(&pod)
	}
	return out
}

// tells checks that the conditions tell what is waited for.
func tells(conditions []v1beta1.CloneSetCondition, waits string) string {
	for _, c := range conditions {
		switch {
		case c.Type != v1beta1.ConditionReady && c.Type != v1beta1.ConditionReconciling:
		case waits == "" && c.Reason == "WaitingForHook":
			return fmt.Sprintf("%s waits: %s", c.Type, c.Message)
		case waits != "" && (c.Reason != "WaitingForHook" || !strings.Contains(c.Message, waits)):
			return fmt.Sprintf("%s has reason %s: %s", c.Type, c.Reason, c.Message)
		case waits != "" && (c.Type == v1beta1.ConditionReady) == (c.Status == corev1.ConditionTrue):
			return fmt.Sprintf("%s is %s", c.Type, c.Status)
		}
	}
	return ""
}

// published checks what another manager of the same API reads on a pod in any state of life.
func (w *world) published(pod *corev1.Pod) {
	w.Helper()
	if _, err := time.Parse(time.RFC3339, pod.Annotations[v1beta1.AnnotationLifecycleTimestamp]); err != nil {
		w.Errorf("pod %s: since when its state holds: %v", pod.Name, err)
	}
	var gates []string
	for _, gate := range pod.Spec.ReadinessGates {
		gates = append(gates, string(gate.ConditionType))
	}
	if !slices.Equal(gates, []string{"InPlaceUpdateReady", "KruisePodReady"}) {
		w.Errorf("pod %s has gates %v", pod.Name, gates)
	}
}

// marks waits until the pod's mark has this message, "" for none, and Ready follows it.
func (w *world) marks(pod, message string) {
	w.Helper()
	w.eventually("pod "+pod+" is marked "+message, func() string {
		got := &corev1.Pod{}
		w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: pod}, got))
		mark := podstate.Condition(got, lifecycle.KruisePodReady)
		if mark == nil || mark.Message != message || (mark.Status == corev1.ConditionTrue) != (message == "") {
			return fmt.Sprintf("%+v", mark)
		}
		if podstate.Ready(got) != (message == "") {
			return fmt.Sprintf("Ready is %v", podstate.Ready(got))
		}
		return ""
	})
}

// follow watches pods of one CloneSet; the order of what happened to all of them is kept.
type follow struct {
	w      *world
	watch  watch.Interface
	mu     sync.Mutex
	events []watch.Event
	now    map[string]corev1.Pod
}

// follow begins to watch. The pods must be at rest.
func (w *world) follow(name string) *follow {
	w.Helper()
	c, err := client.NewWithWatch(w.config, client.Options{Scheme: apiserver.Scheme(w)})
	w.must(err)
	var list corev1.PodList
	of := []client.ListOption{client.InNamespace("default"), client.MatchingLabels{"app": name}}
	w.must(c.List(w.Context(), &list, of...))
	f := &follow{w: w, now: map[string]corev1.Pod{}}
	for _, pod := range list.Items {
		f.now[pod.Name] = pod
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	f.watch, err = c.Watch(w.Context(), &list, append(of, from)...)
	w.must(err)
	w.Cleanup(f.watch.Stop)
	go func() {
		for event := range f.watch.ResultChan() {
			f.mu.Lock()
			f.events = append(f.events, event)
			f.mu.Unlock()
		}
	}()
	return f
}

// told is what a watch told from its beginning until now.
type told struct {
	// states are the states of life that each pod had, one after the other.
	states map[string][]v1beta1.LifecycleState
	// most is the greatest number of pods that are not being deleted, fewest the smallest of available ones, at any
	// moment.
	most, fewest int
}

// until waits until the watch has told of these pods as they are, and returns what happened.
func (f *follow) until(pods map[string]corev1.Pod) told {
	f.w.Helper()
	f.w.eventually("the watch tells of the last states", func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		last := map[string]string{}
		for name, pod := range f.now {
			last[name] = pod.ResourceVersion
		}
		for _, event := range f.events {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				last[pod.Name] = pod.ResourceVersion
			}
		}
		for name, pod := range pods {
			if last[name] != pod.ResourceVersion {
				return "not of pod " + name
			}
		}
		return ""
	})
	f.watch.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := told{states: map[string][]v1beta1.LifecycleState{}}
	now := maps.Clone(f.now)
	look := func() {
		existing, available := 0, 0
		for _, pod := range now {
			if pod.DeletionTimestamp == nil {
				existing++
			}
			if pod.DeletionTimestamp == nil && podstate.Ready(&pod) && lifecycle.Available(&pod) {
				available++
			}
			list := out.states[pod.Name]
			if state := lifecycle.State(&pod); len(list) == 0 || list[len(list)-1] != state {
				out.states[pod.Name] = append(list, state)
			}
		}
		out.most, out.fewest = max(out.most, existing), min(out.fewest, available)
	}
	out.fewest = len(now)
	look()
	for _, event := range f.events {
		pod, ok := event.Object.(*corev1.Pod)
		switch {
		case !ok:
		case event.Type == watch.Deleted:
			delete(now, pod.Name)
		default:
			now[pod.Name] = *pod
		}
		look()
	}
	return out
}
