package cloneset_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// recording is what a watch has told of the pods of one CloneSet, since it began.
type recording struct {
	w      *world
	began  time.Time
	watch  watch.Interface
	mu     sync.Mutex
	states map[string][]*corev1.Pod
}

// record begins to watch the pods of a CloneSet.
func (w *world) record(name string) *recording {
	w.Helper()
	api, err := kubernetes.NewForConfig(w.config)
	w.must(err)
	selector := "app=" + name
	list, err := api.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{LabelSelector: selector})
	w.must(err)
	r := &recording{w: w, states: map[string][]*corev1.Pod{}, began: time.Now()}
	r.watch, err = api.CoreV1().Pods("default").Watch(w.Context(),
		metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion})
	w.must(err)
	w.Cleanup(r.watch.Stop)
	go func() {
		for event := range r.watch.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			r.mu.Lock()
			r.states[pod.Name] = append(r.states[pod.Name], pod)
			r.mu.Unlock()
		}
	}()
	return r
}

// until ends the recording as soon as it has told of these states of pods, and returns all states of them.
func (r *recording) until(pods map[string]corev1.Pod) map[string][]*corev1.Pod {
	r.w.Helper()
	var out map[string][]*corev1.Pod
	r.w.eventually("the watch tells of the last states", func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		out = map[string][]*corev1.Pod{}
		for name, pod := range pods {
			seen := false
			for _, state := range r.states[name] {
				seen = seen || state.ResourceVersion == pod.ResourceVersion
			}
			if !seen {
				return fmt.Sprintf("not of pod %s", name)
			}
			out[name] = r.states[name]
		}
		return ""
	})
	r.watch.Stop()
	return out
}

// podWrite is a write of the controller to a pod.
type podWrite struct {
	pod, subresource, verb string
	code                   int
	at                     time.Time
}

func (p podWrite) String() string { return strings.TrimSuffix(p.verb+" "+p.subresource, " ") }

// podWrites returns the controller's writes to pods, as the audit log has them.
func (w *world) podWrites() []podWrite {
	w.Helper()
	file, err := os.Open(w.cluster.AuditLog())
	w.must(err)
	defer file.Close()
	var out []podWrite
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Verb, UserAgent          string
			RequestReceivedTimestamp time.Time
			ObjectRef                struct{ Resource, Subresource, Name string }
			ResponseStatus           struct{ Code int }
		}
		if json.Unmarshal(lines.Bytes(), &entry) == nil && strings.HasPrefix(entry.UserAgent, controllerAgent) &&
			entry.ObjectRef.Resource == "pods" {
			out = append(out, podWrite{pod: entry.ObjectRef.Name, subresource: entry.ObjectRef.Subresource, verb: entry.Verb,
				code: entry.ResponseStatus.Code, at: entry.RequestReceivedTimestamp})
		}
	}
	return out
}

// expectWrites waits until the controller has made exactly these writes to each of the pods since the recording began,
// and returns them by pod. What the API server refused because the pod had just changed is none. A line of the audit
// log may come a little later than its answer.
func (r *recording) expectWrites(pods map[string]corev1.Pod, want ...string) map[string][]podWrite {
	r.w.Helper()
	out := map[string][]podWrite{}
	r.w.eventually("the audit log has the writes", func() string {
		clear(out)
		for _, write := range r.w.podWrites() {
			if write.at.After(r.began) && write.code != http.StatusConflict {
				out[write.pod] = append(out[write.pod], write)
			}
		}
		for name := range pods {
			if len(out[name]) < len(want) {
				return fmt.Sprintf("pod %s: %v, want %v", name, out[name], want)
			}
		}
		return ""
	})
	for name := range pods {
		if got := fmt.Sprint(out[name]); got != fmt.Sprint(want) {
			r.w.Errorf("pod %s: writes %s, want %v", name, got, want)
		}
	}
	return out
}

// first returns the number of the first state of which is holds, or len(states).
func first(states []*corev1.Pod, is func(*corev1.Pod) bool) int {
	for i, pod := range states {
		if is(pod) {
			return i
		}
	}
	return len(states)
}

func conditionIs(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

func shut(pod *corev1.Pod) bool {
	return conditionIs(pod, v1beta1.InPlaceUpdateReady, corev1.ConditionFalse) &&
		conditionIs(pod, corev1.PodReady, corev1.ConditionFalse)
}

func gateOpen(pod *corev1.Pod) bool {
	return conditionIs(pod, v1beta1.InPlaceUpdateReady, corev1.ConditionTrue)
}

func imageIs(container, image string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return specOf(pod, container).Image == image }
}

func hasLabel(key, value string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Labels[key] == value }
}

func hasAnnotation(key string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Annotations[key] != "" }
}

func specOf(pod *corev1.Pod, name string) corev1.Container {
	for _, c := range pod.Spec.Containers {
		if c.Name == name {
			return c
		}
	}
	return corev1.Container{}
}

func ranBy(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// expectInService fails if a pod was out of service at any time of the recording.
func expectInService(w *world, states map[string][]*corev1.Pod) {
	w.Helper()
	for name, list := range states {
		for _, pod := range list {
			if !conditionIs(pod, corev1.PodReady, corev1.ConditionTrue) || !gateOpen(pod) {
				w.Errorf("pod %s was out of service: %v", name, pod.Status.Conditions)
			}
		}
	}
}

// expectGate fails if a container got another image while anybody could count on its pod, or if the gate was opened
// before the containers ran what the pod says.
func expectGate(w *world, states map[string][]*corev1.Pod) {
	w.Helper()
	for name, list := range states {
		for i := 1; i < len(list); i++ {
			for _, c := range list[i].Spec.Containers {
				if c.Image != specOf(list[i-1], c.Name).Image && !shut(list[i]) {
					w.Errorf("pod %s: container %s got %s with conditions %v", name, c.Name, c.Image, list[i].Status.Conditions)
				}
				runs := ranBy(list[i], c.Name)
				if gateOpen(list[i]) && !gateOpen(list[i-1]) &&
					(!inplace.SameImage(runs.Image, strings.TrimSuffix(c.Image, "-again")) || runs.State.Running == nil) {
					w.Errorf("pod %s was opened when container %s, to run %s, was %+v", name, c.Name, c.Image, runs)
				}
			}
		}
	}
}

// expectRestarts fails unless the container of each pod restarted so often since the pod was made.
func (w *world) expectRestarts(pods map[string]corev1.Pod, container string, want int32) {
	w.Helper()
	for name, pod := range pods {
		if got := ranBy(&pod, container).RestartCount; got != want {
			w.Errorf("pod %s: container %s restarted %d times, want %d", name, container, got, want)
		}
	}
}

// stalled waits until the CloneSet is stalled for this reason, with these words in the message.
func (w *world) stalled(name, reason string, words ...string) {
	w.Helper()
	w.eventually("Stalled says why", func() string {
		conditions := w.get(name).Status.Conditions
		for _, c := range conditions {
			if c.Type != v1beta1.ConditionStalled || c.Status != corev1.ConditionTrue || c.Reason != reason {
				continue
			}
			for _, word := range words {
				if !strings.Contains(c.Message, word) {
					return fmt.Sprintf("no %q in %q", word, c.Message)
				}
			}
			return ""
		}
		return fmt.Sprint(conditions)
	})
}

// expectAnew fails if any pod is still the one that it was.
func (w *world) expectAnew(before, after map[string]corev1.Pod) {
	w.Helper()
	for name := range after {
		if _, same := before[name]; same {
			w.Errorf("pod %s was not made anew", name)
		}
	}
	if len(before) != len(after) {
		w.Errorf("%d pods became %d", len(before), len(after))
	}
}
