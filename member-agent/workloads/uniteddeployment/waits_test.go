package uniteddeployment

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// noon is when the pods of these tests began.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The states of a pod in these tests.
const (
	serving     = "ready"
	neverReady  = "never ready"         // its containers run
	neverPulled = "never pulled"        // its image cannot be pulled
	wasReady    = "was ready"           // its containers run
	wasBroken   = "was ready, crashing" // and crash now
	terminated  = "terminating"
)

func statefulPod(ordinal int, revision, state string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("db-%d", ordinal),
			UID:    types.UID(fmt.Sprint("pod-", ordinal)),
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}, CreationTimestamp: metav1.NewTime(noon)},
		Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: noon},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}}},
	}
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(noon)}
	waiting := ""
	switch state {
	case serving:
		condition.Status = corev1.ConditionTrue
	case neverPulled:
		pod.Status.Phase, waiting = corev1.PodPending, "ImagePullBackOff"
	case wasReady:
		condition.LastTransitionTime = metav1.NewTime(noon.Add(time.Second))
	case wasBroken:
		condition.LastTransitionTime, waiting = metav1.NewTime(noon.Add(time.Second)), "CrashLoopBackOff"
	case terminated:
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	if waiting != "" {
		pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	}
	pod.Status.Conditions = []corev1.PodCondition{condition}
	return pod
}

// statefulSet has the current revision "current" and the update revision "update".
func statefulSet(pods []*corev1.Pod, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "set"},
		Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(0))},
		}},
		Status: appsv1.StatefulSetStatus{CurrentRevision: "current", UpdateRevision: "update", Replicas: int32(len(pods))},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

func TestCase4WaitsOfStatefulSets(t *testing.T) {
	parallel := func(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
	counting := func(set *appsv1.StatefulSet) {
		parallel(set)
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	}
	onDelete := func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	partition := func(n int32) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
	}
	undone := func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = "update" }
	from := func(n int32) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
	}
	type P = []*corev1.Pod
	one := statefulPod
	for _, tt := range []struct {
		name     string
		replicas int32
		pods     P
		change   []func(*appsv1.StatefulSet)
		held     bool          // the hub lends nothing
		after    time.Duration // since noon; 0: an hour
		replace  string
		stalled  string
		failed   string
		says     string
		next     time.Duration
	}{
		{name: "all are Ready", replicas: 2, pods: P{one(0, "update", serving), one(1, "current", serving)}},
		{name: "undo after an image that cannot be pulled", replicas: 4, change: []func(*appsv1.StatefulSet){undone},
			pods: P{one(0, "update", serving), one(1, "update", serving), one(2, "update", serving),
				one(3, "broken", neverPulled)},
			replace: "db-3", after: time.Second},
		{name: "another template after a pod that runs and never was Ready", replicas: 2,
			pods: P{one(0, "current", serving), one(1, "broken", neverReady)}, replace: "db-1"},
		{name: "the first template was broken", replicas: 2, pods: P{one(0, "current", neverPulled)}, replace: "db-0"},
		{name: "the first of two goes first", replicas: 3,
			pods: P{one(0, "broken", neverReady), one(1, "broken", neverReady), one(2, "current", serving)}, replace: "db-0"},
		{name: "a pod of the wanted revision comes first", replicas: 2,
			pods: P{one(0, "update", neverReady), one(1, "broken", neverReady)}},
		{name: "ordinals that do not start at 0", replicas: 2, change: []func(*appsv1.StatefulSet){from(5), partition(1)},
			pods: P{one(5, "current", serving), one(6, "broken", neverReady)}, replace: "db-6"},
		{name: "the hub lends nothing", replicas: 1, pods: P{one(0, "broken", neverPulled)}, held: true},
		{name: "the partition keeps it", replicas: 1, pods: P{one(0, "broken", neverPulled)},
			change: []func(*appsv1.StatefulSet){partition(1)}, stalled: ReasonPodNotReplaced,
			says: "kubectl delete pod db-0 -n shop"},
		{name: "the partition keeps it, and it may start yet", replicas: 1, pods: P{one(0, "broken", neverReady)},
			change: []func(*appsv1.StatefulSet){partition(1)}, after: 4 * time.Minute, next: 6 * time.Minute},
		{name: "below the partition the current revision is wanted", replicas: 1, pods: P{one(0, "current", neverReady)},
			change: []func(*appsv1.StatefulSet){partition(1)}},
		{name: "OnDelete", replicas: 1, pods: P{one(0, "broken", neverPulled)},
			change: []func(*appsv1.StatefulSet){onDelete}, stalled: ReasonPodNotReplaced,
			says: "container main fails with ImagePullBackOff"},
		{name: "OnDelete and all are Ready", replicas: 1, pods: P{one(0, "current", serving)},
			change: []func(*appsv1.StatefulSet){onDelete}},
		{name: "it was Ready", replicas: 1, pods: P{one(0, "current", wasReady)}, stalled: ReasonPodNotReplaced,
			says: "db-0"},
		{name: "it was Ready, a moment ago", replicas: 1, pods: P{one(0, "current", wasReady)},
			after: time.Minute + time.Second, next: 9 * time.Minute},
		{name: "it was Ready and crashes", replicas: 1, pods: P{one(0, "current", wasBroken)},
			after: time.Minute + time.Second, stalled: ReasonPodNotReplaced, says: "CrashLoopBackOff"},
		{name: "Parallel replaces it by itself", replicas: 2, change: []func(*appsv1.StatefulSet){parallel},
			pods: P{one(0, "broken", neverReady), one(1, "current", serving)}},
		{name: "Parallel with a maxUnavailable does not", replicas: 2, change: []func(*appsv1.StatefulSet){counting},
			pods: P{one(0, "update", neverReady), one(1, "broken", neverReady)}, replace: "db-1"},
		{name: "the wanted revision is broken", replicas: 1, pods: P{one(0, "update", neverPulled)},
			stalled: waits.ReasonContainerFailing, says: "correct the template"},
		{name: "the wanted revision is broken, since a minute", replicas: 1, pods: P{one(0, "update", neverPulled)},
			after: time.Minute, next: 9 * time.Minute},
		{name: "the wanted revision starts slowly", replicas: 1, pods: P{one(0, "update", neverReady)}},
		{name: "it is being deleted", replicas: 2, pods: P{one(0, "current", terminated)},
			stalled: waits.ReasonPodTerminating, says: "node n1"},
		{name: "one beyond the number is being deleted", replicas: 1,
			pods: P{one(0, "update", serving), one(1, "update", terminated)}, stalled: waits.ReasonPodTerminating},
		{name: "scale-in of one that is not Ready", replicas: 1,
			pods: P{one(0, "update", serving), one(1, "update", wasReady)}},
		{name: "scale-in of two that are not Ready", replicas: 1,
			pods:    P{one(0, "update", serving), one(1, "update", wasReady), one(2, "update", wasReady)},
			stalled: ReasonPodNotReplaced, says: "kubectl delete pod db-2 -n shop"},
		{name: "a pod is not created", replicas: 3, pods: P{one(0, "update", serving), one(1, "update", serving)},
			stalled: ReasonPodNotCreated, says: "kubectl describe statefulset db -n shop"},
		{name: "a pod is not created, since two minutes", replicas: 3,
			pods: P{one(0, "update", serving), one(1, "update", serving)}, after: 2 * time.Minute,
			failed: ReasonPodNotCreated, says: "pod db-2 is not created", next: 8 * time.Minute},
		{name: "a pod is created just now", replicas: 3, pods: P{one(0, "update", serving), one(1, "update", serving)},
			after: 10 * time.Second, next: 50 * time.Second},
		{name: "the cache is behind", replicas: 3, pods: P{one(0, "update", serving)}, next: askForPods,
			change: []func(*appsv1.StatefulSet){func(set *appsv1.StatefulSet) { set.Status.Replicas = 3 }}},
		{name: "a pod in the middle is not created", replicas: 3,
			pods: P{one(0, "update", serving), one(2, "update", neverPulled)}, stalled: ReasonPodNotCreated, says: "db-1"},
		{name: "any number", replicas: 2_000_000_000, change: []func(*appsv1.StatefulSet){parallel},
			pods: P{one(0, "update", serving)}, stalled: ReasonPodNotCreated, says: "db-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.after == 0 {
				tt.after = time.Hour
			}
			w := waitOfStatefulSet(statefulSet(tt.pods, tt.change...), tt.replicas, tt.pods, !tt.held, times{floor: noon,
				unready: noon, now: noon.Add(tt.after)})
			var replace, stalled, failed, text string
			if w.replace != nil {
				replace = w.replace.Name
			}
			if w.stalled != nil {
				stalled, text = w.stalled.Reason, w.stalled.Message
			}
			if w.failed != nil {
				failed, text = w.failed.Reason, w.failed.Message
			}
			if replace != tt.replace || stalled != tt.stalled || failed != tt.failed || w.next != tt.next ||
				!strings.Contains(text, tt.says) {
				t.Errorf("deletes %q, stalled %q, failed %q, looks again in %s: %s", replace, stalled, failed, w.next, text)
			}
		})
	}
}

// Whatever a StatefulSet looks like, a pod that serves, that served, or that its order keeps is never deleted.
func TestCase4OnlyPodsThatNeverWereReadyAreDeleted(t *testing.T) {
	states := []string{serving, neverReady, neverPulled, wasReady, wasBroken, terminated}
	revisions := []string{"current", "update", "broken"}
	deleted := 0
	for seed := range uint64(20000) {
		random := rand.New(rand.NewPCG(seed, 4))
		var pods []*corev1.Pod
		state := map[types.UID]string{}
		for ordinal := range 1 + random.IntN(6) {
			if random.IntN(8) == 0 {
				continue
			}
			name := states[random.IntN(len(states))]
			pod := statefulPod(ordinal, revisions[random.IntN(len(revisions))], name)
			pods, state[pod.UID] = append(pods, pod), name
		}
		partition := int32(random.IntN(7))
		set := statefulSet(pods, func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Partition = &partition
			if random.IntN(3) == 0 {
				set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			}
			if random.IntN(3) == 0 {
				set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
			}
			if random.IntN(5) == 0 {
				set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			}
		})
		mayReplace := random.IntN(4) > 0
		w := waitOfStatefulSet(set, int32(random.IntN(7)), pods, mayReplace, times{floor: noon, unready: noon,
			now: noon.Add(time.Hour)})
		pod := w.replace
		if pod == nil {
			continue
		}
		deleted++
		is, revision := state[pod.UID], pod.Labels[appsv1.ControllerRevisionHashLabelKey]
		if is != neverReady && is != neverPulled || revision == "update" || !mayReplace || position(set,
			pod) < int64(partition) ||
			set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || w.stalled != nil {
			t.Fatalf("seed %d: %s of revision %s, which is %s, is deleted; partition %d, strategy %+v", seed, pod.Name,
				revision, is, partition, set.Spec.UpdateStrategy)
		}
	}
	if deleted < 200 {
		t.Errorf("only %d of these had a pod to delete", deleted)
	}
}

func TestCase4DeploymentsPastTheirDeadline(t *testing.T) {
	deployment := func(change func(*appsv1.Deployment)) *child {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web",
			Labels: map[string]string{kruise.LabelSubset: "a"}}}
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing,
			Status: corev1.ConditionFalse, Reason: deadlineExceeded}}
		change(d)
		c := fromDeployment(d)
		return &c
	}
	broken := statefulPod(1, "x", neverPulled)
	for _, tt := range []struct {
		name   string
		change func(*appsv1.Deployment)
		pods   []*corev1.Pod
		says   string // "": it is not past its deadline
	}{
		{"a pod fails", func(*appsv1.Deployment) {}, []*corev1.Pod{statefulPod(2, "x", neverPulled), broken},
			"ContainerFailing: pod db-1: container main"},
		{"nobody knows why", func(*appsv1.Deployment) {}, []*corev1.Pod{statefulPod(0, "x", neverReady)},
			"kubectl describe deployment web -n shop"},
		{"a quota refuses pods", func(d *appsv1.Deployment) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure,
				Status: corev1.ConditionTrue,
				Reason: "FailedCreate", Message: "exceeded quota: pods"})
		}, nil, "FailedCreate: exceeded quota: pods"},
		{"paused", func(d *appsv1.Deployment) { d.Spec.Paused = true }, nil, ""},
		{"its controller has not seen the change", func(d *appsv1.Deployment) { d.Generation = 2 }, nil, ""},
		{"it moves", func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = corev1.ConditionTrue }, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := deployment(tt.change)
			p := &plan{subsets: []subsetPlan{{name: "a", live: c}}}
			waiting := map[types.UID][]*corev1.Pod{}
			if pastDeadline(c) {
				waiting["web"] = tt.pods
			}
			p.planWaits(&observed{ud: &kruise.UnitedDeployment{}, now: noon, waiting: waiting})
			stalled, _ := causes(p, nil)
			if tt.says == "" {
				if stalled != nil {
					t.Errorf("stalled: %+v", stalled)
				}
				return
			}
			if stalled == nil || stalled.Reason != ReasonChildStalled || !strings.Contains(stalled.Message, tt.says) {
				t.Errorf("stalled: %+v", stalled)
			}
		})
	}
}

// TestCase4FacetsWakeForFailures: a container that begins to fail wakes the controller, which else would count no time
// for it.
func TestCase4FacetsWakeForFailures(t *testing.T) {
	pod := func(reason string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Labels = map[string]string{kruise.LabelSubset: "a"}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		return p
	}
	if facetsOf(pod("ContainerCreating")) == facetsOf(pod("ImagePullBackOff")) {
		t.Error("an image that cannot be pulled wakes nobody")
	}
	if facetsOf(pod("ErrImagePull")) != facetsOf(pod("ImagePullBackOff")) {
		t.Error("each try to pull wakes the controller")
	}
	ready := pod("ContainerCreating")
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	if facetsOf(pod("ContainerCreating")) == facetsOf(ready) {
		t.Error("containers that are ready while a readiness gate is not wake nobody")
	}
}
