package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// failingPod returns a pod of the owner whose container app waits for a reason.
func failingPod(name, owner, reason, image string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "db"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: owner,
				UID: types.UID(owner), Controller: new(true)}}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app", Image: image}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "app",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func withoutNode(message string, since time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status.ContainerStatuses = "", nil
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: message, LastTransitionTime: metav1.NewTime(since)}}
	}
}

// liveObject returns a member object of a hub.
func liveObject(kind, name string) *unstructured.Unstructured {
	live := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name,
			"labels": map[string]any{topology.LabelHub: "hub"}},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}}}}}
	live.SetGroupVersionKind(apps.GroupVersion.WithKind(kind))
	return live
}

// TestReasonsOfPods holds that a report has the few most frequent reasons, in an order that does not depend on that of
// the pods, and that pods without a node are one reason whatever the scheduler says of each.
func TestReasonsOfPods(t *testing.T) {
	pods := []corev1.Pod{
		*failingPod("a-3", "db", "ErrImagePull", "x:1"),
		*failingPod("a-1", "db", "ImagePullBackOff", "x:1"),
		*failingPod("b-2", "db", "", "x", withoutNode("0/4 nodes are available", noon)),
		*failingPod("b-1", "db", "", "x", withoutNode("0/3 nodes are available", noon)),
		*failingPod("b-0", "db", "", "x", withoutNode("0/3 nodes are available", noon.Add(time.Minute-time.Second))),
		*failingPod("c-1", "db", "InvalidImageName", "X"),
		*failingPod("d-1", "db", "CrashLoopBackOff", "x"),
		*failingPod("e-1", "db", "RunContainerError", "x"),
		*failingPod("f-1", "db", "", "x", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }),
	}
	want := "[{CrashLoopBackOff cannot start 2 app d-1} {ImagePullBackOff cannot pull image x:1 2 app a-1} " +
		"{Unschedulable 0/3 nodes are available 2  b-1} {InvalidImageName cannot pull image X 1 app c-1}]"
	for range 10 {
		got, next := reasonsOf(pods, noon.Add(time.Minute))
		if fmt.Sprint(got) != want || next != 9*time.Second {
			t.Fatalf("%v after %s, want %s", got, next, want)
		}
		pods = append(pods[1:], pods[0])
	}
}

// TestReasonsOfNodesAreFew holds that pods on many nodes that are off, or cannot set pods up, are a reason each.
func TestReasonsOfNodesAreFew(t *testing.T) {
	var pods []corev1.Pod
	for i := range 300 {
		pod := failingPod(fmt.Sprintf("a-%03d", i), "db", "ContainerCreating", "x")
		pod.Spec.NodeName = fmt.Sprintf("n%d", i%100)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers,
			Status: corev1.ConditionFalse}}
		if i%3 == 0 {
			pod.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		pods = append(pods, *pod)
	}
	got, _ := reasonsOf(pods, noon.Add(time.Hour))
	if len(got) != 2 || got[0].Count != 200 || got[1].Count != 100 || got[0].Pod != "a-001" {
		t.Errorf("%v", got)
	}
}

// TestReasonsAreThoseOfTheObject holds that pods of others, and objects without the mark of this hub, do not count.
func TestReasonsAreThoseOfTheObject(t *testing.T) {
	subset := func(pod *corev1.Pod) { pod.Labels[apps.LabelSubset] = "a" }
	pods := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, failingIndex, indexFailing).WithObjects(
		failingPod("db-1", "db", "ErrImagePull", "x"), failingPod("other-1", "other", "ErrImagePull", "y"),
		failingPod("web-a-1", "web-a", "ErrImagePull", "z", subset), failingPod("starts", "db", "", "x"),
	).Build()
	r := &Reconciler{Options: Options{Pods: pods, Kinds: kinds(), MemberClock: clocktesting.NewFakePassiveClock(noon)}}
	for _, tc := range []struct{ kind, name, hub, want string }{
		{"CloneSet", "db", "hub", "[{ImagePullBackOff cannot pull image x 1 app db-1}]"},
		{"UnitedDeployment", "web", "hub", "[{ImagePullBackOff cannot pull image z 1 app web-a-1}]"},
		{"CloneSet", "db", "another", "[]"},
		{"ConfigMap", "db", "hub", "[]"},
	} {
		got, _, err := r.reasons(t.Context(), liveObject(tc.kind, tc.name), tc.hub)
		if err != nil || fmt.Sprint(got) != tc.want {
			t.Errorf("%s %s of %s: %v (%v), want %s", tc.kind, tc.name, tc.hub, got, err, tc.want)
		}
	}
}

// TestChangedReasonsAreReported holds that no event of a pod wakes a report but one that changes its reason.
func TestChangedReasonsAreReported(t *testing.T) {
	pulls, waits := failingPod("a", "db", "ErrImagePull", "x"), failingPod("a", "db", "ImagePullBackOff", "x")
	starts, crashes := failingPod("a", "db", "", "x"), failingPod("a", "db", "CrashLoopBackOff", "x")
	var got strings.Builder
	for _, pair := range [][2]*corev1.Pod{{pulls, waits}, {waits, crashes}, {starts, waits}, {waits, starts},
		{starts, starts}} {
		fmt.Fprint(&got, reasonsChanged().Update(event.UpdateEvent{ObjectOld: pair[0], ObjectNew: pair[1]}), " ")
	}
	if want := "false true true true false "; got.String() != want {
		t.Errorf("%s, want %s", got.String(), want)
	}
}

// TestReasonsWait holds when a report leaves that has nothing new but reasons of pods.
func TestReasonsWait(t *testing.T) {
	pulls := []work.PodReason{{Reason: "ImagePullBackOff", Message: "x", Count: 1, Pod: "a"}}
	more := []work.PodReason{{Reason: "ImagePullBackOff", Message: "x", Count: 2, Pod: "a"}}
	other := []work.PodReason{{Reason: "ImagePullBackOff", Message: "y", Count: 1, Pod: "b"}}
	for name, tc := range map[string]struct {
		last, next      []work.PodReason
		seen, sent, now time.Duration
		want            time.Duration
	}{
		"first seen now":               {nil, pulls, 0, -1, 0, 2 * time.Second},
		"seen for a while":             {nil, pulls, 0, -1, 3 * time.Second, 0},
		"more pods soon after":         {pulls, more, 3 * time.Second, 0, 5 * time.Second, 5 * time.Second},
		"none any more":                {pulls, nil, 3 * time.Second, 0, 10 * time.Second, 0},
		"another message and example":  {pulls, other, 20 * time.Second, 0, 30 * time.Second, 30 * time.Second},
		"another message for a minute": {pulls, other, 20 * time.Second, 0, time.Minute, 0},
	} {
		sent := time.Time{}
		if tc.sent >= 0 {
			sent = noon.Add(tc.sent)
		}
		if got := reasonsPause(noon.Add(tc.seen), sent, noon.Add(tc.now), tc.last, tc.next); got != tc.want {
			t.Errorf("%s: waits %s, want %s", name, got, tc.want)
		}
	}
}

// TestReasonsLeaveWithOtherReports holds that reasons wait only while nothing else is new.
func TestReasonsLeaveWithOtherReports(t *testing.T) {
	reasons := []work.PodReason{{Reason: "ImagePullBackOff", Count: 1}}
	last := work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: 1}}
	alone := work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: 1, NotReady: reasons}}
	both := work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: 2, NotReady: reasons}}
	if Same(last, alone) {
		t.Error("statuses with other reasons are the same")
	}
	m := &memo{status: last}
	if got := m.holdReasons(alone, noon); got != reasonsSettle {
		t.Errorf("reasons alone wait %s, want %s", got, reasonsSettle)
	}
	if got := m.holdReasons(both, noon); got != 0 {
		t.Errorf("reasons beside another change wait %s, want none", got)
	}
	if got := m.holdReasons(alone, noon.Add(reasonsSettle)); got != 0 {
		t.Errorf("reasons that were seen for %s wait %s more", reasonsSettle, got)
	}
	if got := m.holdReasons(last, noon); got != 0 || !m.unlike.IsZero() {
		t.Errorf("without a difference: %s, seen %s", got, m.unlike)
	}
}

// TestReasonsThatAHubDoesNotKeep holds that an agent does not write reasons again and again to an earlier hub, whose
// definition of Works lacks them.
func TestReasonsThatAHubDoesNotKeep(t *testing.T) {
	sent := work.WorkStatus{Report: &work.Report{HubID: "hub", NotReady: []work.PodReason{{Reason: "ImagePullBackOff"}}}}
	kept := &memo{status: sent}
	kept.sentReasons(true, sent, noon, 7)
	dropped := &memo{status: work.WorkStatus{Report: &work.Report{HubID: "hub"}}}
	dropped.sentReasons(true, sent, noon, 7)
	if kept.unkept != 0 || dropped.unkept != 7 || !kept.reasonsAt.Equal(noon) {
		t.Errorf("kept in %d, dropped in session %d, at %s", kept.unkept, dropped.unkept, kept.reasonsAt)
	}
}
