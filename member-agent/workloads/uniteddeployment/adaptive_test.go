package uniteddeployment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// start is when the stories begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// waiting is a pod of this age that the scheduler finds no node for.
func waiting(name string, age time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start.Add(-age))},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
}

// ready is a pod that has been ready for this long.
func ready(name string, since time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-since))}}},
	}
}

// bound is a pod that has a node and starts.
func bound(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: "n"}}
}

// fresh is a pod that the scheduler has not looked at yet.
func fresh(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		CreationTimestamp: metav1.NewTime(start)}}
}

func reserved(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = map[string]string{LabelReservedPod: reservedValue}
	return pod
}

func TestPlace(t *testing.T) {
	const critical = 30 * time.Second
	old, young := time.Minute, 20*time.Second
	refused := &conditions.Cause{Reason: "FailedScale"}
	tests := []struct {
		why    string
		kind   kind
		asks   int32
		pods   []*corev1.Pod
		want   placing
		failed *conditions.Cause // of the child's controller
	}{
		{"no child's pods wait", cloneSetKind, 2, []*corev1.Pod{ready("p-0", 0), bound("p-1")}, placing{holds: 2}, nil},
		{"a pod waits for the critical time to pass", cloneSetKind, 2, []*corev1.Pod{ready("p-0", 0), waiting("p-1", young)},
			placing{holds: 2, next: 10 * time.Second, lacking: 1, unbound: 1}, nil},
		{"two of three are stuck", cloneSetKind, 3, []*corev1.Pod{ready("p-0", 0), waiting("p-1", old), waiting("p-2", old)},
			placing{stuck: 2, holds: 1, lacking: 2, unbound: 2}, nil},
		{"pods that start, or are not made yet, are no reason", deploymentKind, 4, []*corev1.Pod{bound("p-0"), bound("p-1")},
			placing{holds: 4, lacking: 2, unbound: 2}, nil},
		{"a pod too many may wait: a surge", cloneSetKind, 2,
			[]*corev1.Pod{ready("p-0", 0), ready("p-1", 0), waiting("p-2", old)}, placing{holds: 2}, nil},
		{"the child was made smaller, and has not done it yet", cloneSetKind, 1,
			[]*corev1.Pod{ready("p-0", 0), waiting("p-1", old), waiting("p-2", old)}, placing{holds: 1}, nil},
		{"one too many and one of its own", cloneSetKind, 2,
			[]*corev1.Pod{ready("p-0", 0), waiting("p-1", old), waiting("p-2", old)},
			placing{stuck: 1, holds: 1, lacking: 1, unbound: 1}, nil},
		{"the first pod of a StatefulSet holds up all others", statefulSetKind, 9, []*corev1.Pod{waiting("p-0", old)},
			placing{stuck: 1, holds: 0, lacking: 9, unbound: 9}, nil},
		{"the last pod of a StatefulSet is stuck", statefulSetKind, 3,
			[]*corev1.Pod{ready("p-0", 0), ready("p-1", 0), waiting("p-2", old)},
			placing{stuck: 1, holds: 2, lacking: 1, unbound: 1}, nil},
		{"a StatefulSet cannot give up a pod below one that runs", statefulSetKind, 3,
			[]*corev1.Pod{ready("p-0", 0), waiting("p-1", old), ready("p-2", 0)},
			placing{stuck: 1, holds: 3, lacking: 1, unbound: 1}, nil},
		{"pods that a quota refuses say nothing of nodes", cloneSetKind, 3, []*corev1.Pod{ready("p-0", 0)},
			placing{holds: 3, lacking: 2}, refused},
		{"pods that a quota refuses, and one that waits", cloneSetKind, 3, []*corev1.Pod{ready("p-0", 0), fresh("p-1")},
			placing{holds: 3, lacking: 2, unbound: 1}, refused},
		{"a pod of a StatefulSet that does not start keeps the next ones from being made", statefulSetKind, 3,
			[]*corev1.Pod{bound("p-0")}, placing{holds: 3, lacking: 2}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			c := &child{kind: tt.kind, replicas: tt.asks, object: emptyOf(tt.kind), failed: tt.failed}
			if got := place(c, tt.pods, critical, start); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Ordinals: &appsv1.StatefulSetOrdinals{Start: 7}}}
	c := &child{kind: statefulSetKind, replicas: 2, object: set}
	if got := place(c, []*corev1.Pod{ready("p-7", 0), waiting("p-8", old)}, critical, start); got.holds != 1 {
		t.Errorf("ordinals that start at 7: %+v", got)
	}
}

func TestGate(t *testing.T) {
	s := &schedule{critical: 30 * time.Second, closed: 300 * time.Second}
	condition := func(status corev1.ConditionStatus, ago time.Duration) *kruise.SubsetCondition {
		return &kruise.SubsetCondition{Type: kruise.SubsetSchedulable, Status: status,
			LastTransitionTime: metav1.NewTime(start.Add(-ago))}
	}
	tests := []struct {
		why   string
		old   *kruise.SubsetCondition
		stuck int32 // none of them has a node
		// closed, turned, and how long until it opens by itself.
		closed, turned bool
		wait, since    time.Duration
	}{
		{"new, and nothing known", nil, 0, false, false, 0, 0},
		{"new, and stuck", nil, 1, true, true, 300 * time.Second, 0},
		{"open, and stuck", condition(corev1.ConditionTrue, time.Hour), 2, true, true, 300 * time.Second, 0},
		{"open stays open", condition(corev1.ConditionTrue, time.Hour), 0, false, false, 0, time.Hour},
		{"closed for a while", condition(corev1.ConditionFalse, 100*time.Second), 0, true, false, 200 * time.Second,
			100 * time.Second},
		{"closed, while a pod of its min waits", condition(corev1.ConditionFalse, 100*time.Second), 1, true, false,
			200 * time.Second, 100 * time.Second},
		{"the time is over", condition(corev1.ConditionFalse, 300*time.Second), 0, false, true, 0, 0},
		{"the time is over, and the pod of its min still waits: nothing is written",
			condition(corev1.ConditionFalse, time.Hour), 1, true, false, 0, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := gateOf(tt.old, placing{stuck: tt.stuck, lacking: tt.stuck, unbound: tt.stuck}, s, start)
			if got.closed != tt.closed || got.turned != tt.turned || got.wait(start) != tt.wait ||
				!got.since.Time.Equal(start.Add(-tt.since)) {
				t.Errorf("got %+v, opens in %s", got, got.wait(start))
			}
		})
	}
}

func TestScheduleDefaults(t *testing.T) {
	ud := fixture(t, cloneSets, 1, "a")
	if scheduleOf(ud) != nil {
		t.Error("Fixed is the default")
	}
	strategy := &ud.Spec.Topology.ScheduleStrategy
	strategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
	if got := *scheduleOf(ud); got != (schedule{critical: 30 * time.Second, closed: 300 * time.Second}) {
		t.Errorf("defaults are %+v", got)
	}
	strategy.Adaptive = &kruise.AdaptiveUnitedDeploymentStrategy{RescheduleCriticalSeconds: new(int32(0)),
		UnschedulableDuration: new(int32(0))}
	if got := *scheduleOf(ud); got != (schedule{closed: time.Second}) {
		t.Errorf("0 and 0 are %+v: a subset would be tried without end", got)
	}
	ud = fixture(t, cloneSets, 1, "a", "b", "c")
	ud.Spec.Topology.ScheduleStrategy = *strategy
	strategy = &ud.Spec.Topology.ScheduleStrategy
	strategy.Adaptive = &kruise.AdaptiveUnitedDeploymentStrategy{RescheduleCriticalSeconds: new(int32(10)),
		UnschedulableDuration: new(int32(15))}
	if got := *scheduleOf(ud); got != (schedule{critical: 10 * time.Second, closed: 20 * time.Second}) {
		t.Errorf("10 and 15 of three subsets are %+v: pods would go to and fro between the first two", got)
	}
	strategy.Adaptive.ReserveUnschedulablePods = true
	if got := *scheduleOf(ud); got != (schedule{critical: 10 * time.Second, closed: 15 * time.Second, reserve: true}) {
		t.Errorf("10 and 15 with reserved pods are %+v: here it is how long they must be ready", got)
	}
}

func TestReserve(t *testing.T) {
	s := &schedule{critical: 30 * time.Second, closed: 300 * time.Second, reserve: true}
	old, young := time.Minute, 20*time.Second
	tests := []struct {
		why   string
		asks  int32
		pods  []*corev1.Pod
		was   int32 // were reserved at the last pass
		known map[types.UID]string
		want  string // the marks, then how many are reserved
		next  time.Duration
	}{
		{"nobody waits", 2, []*corev1.Pod{ready("a", 0), bound("b")}, 0, nil, "0", 0},
		{"one will be", 1, []*corev1.Pod{waiting("a", young)}, 0, nil, "0", 10 * time.Second},
		{"one is, and the next one with it", 3, []*corev1.Pod{waiting("a", old), waiting("b", young), bound("c")}, 0, nil,
			"a=true b=true 2", 10 * time.Second},
		{"the subset is closed", 1, []*corev1.Pod{waiting("a", young)}, 1, nil, "a=true 1", 10 * time.Second},
		{"our own mark is not seen yet", 1, []*corev1.Pod{waiting("a", old)}, 0, map[types.UID]string{"a": reservedValue},
			"1", 0},
		{"reserved, and ready for too short", 1, []*corev1.Pod{reserved(ready("a", 100*time.Second))}, 1, nil, "1",
			200 * time.Second},
		{"reserved, and ready for long enough", 1, []*corev1.Pod{reserved(ready("a", 300*time.Second))}, 1, nil, "a=false 0",
			0},
		{"reserved, and starting", 1, []*corev1.Pod{reserved(bound("a"))}, 1, nil, "1", 0},
		{"old pods of a slow rollout are not", 2, []*corev1.Pod{ready("a", time.Hour), ready("b", time.Hour)}, 1, nil, "0",
			0},
		{"a pod of a surge is not", 2, []*corev1.Pod{ready("a", 0), waiting("b", old), waiting("c", old)}, 0, nil, "b=true 1",
			0},
		{"an update replaces a reserved pod: the scheduler has not seen the new one", 1, []*corev1.Pod{fresh("a")}, 1, nil,
			"a=true 1", 0},
		{"an update deletes a reserved pod: the new one does not exist yet", 2, []*corev1.Pod{ready("a", 0)}, 1, nil, "1", 0},
		{"the new pod has a node already", 2, []*corev1.Pod{ready("a", 0), bound("b")}, 1, nil, "b=true 1", 0},
		{"of two new pods the one without a node", 2, []*corev1.Pod{bound("a"), fresh("b")}, 1, nil, "b=true 1", 0},
		{"a pod that serves is updated beside a reserved one", 2, []*corev1.Pod{fresh("a"), reserved(waiting("b", old))}, 1,
			nil, "1", 0},
		{"the reserved pod was scaled in", 1, []*corev1.Pod{ready("a", 0)}, 1, nil, "0", 0},
		{"the reserved pod counts again", 1, []*corev1.Pod{reserved(ready("a", 300*time.Second))}, 1, nil, "a=false 0", 0},
		{"a surge beside a reserved pod", 2, []*corev1.Pod{ready("a", 0), reserved(waiting("b", old)), waiting("c", young)},
			1, nil, "1", 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := reserve(tt.pods, max(tt.asks, 1), tt.was, tt.known, s, start)
			var text []string
			for _, m := range got.marks {
				text = append(text, m.pod.Name+"="+m.value)
			}
			text = append(text, fmt.Sprint(got.pods))
			if strings.Join(text, " ") != tt.want || got.next != tt.next {
				t.Errorf("got %v, next %s; want %s, %s", text, got.next, tt.want, tt.next)
			}
		})
	}
}

// Clients of the scale subresource, HorizontalPodAutoscaler among them, take the selector of the status apart.
func TestScaleClientsReadTheSelector(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		ud := fixture(t, cloneSets, 1, "a")
		ud.Spec.Topology.ScheduleStrategy = kruise.UnitedDeploymentScheduleStrategy{
			Type:     kruise.AdaptiveUnitedDeploymentScheduleStrategyType,
			Adaptive: &kruise.AdaptiveUnitedDeploymentStrategy{ReserveUnschedulablePods: reserve},
		}
		fillStatus(&ud.Status, &observed{ud: ud.DeepCopy()}, &plan{}, nil, start)
		read, err := metav1.ParseToLabelSelector(ud.Status.LabelSelector)
		if err != nil {
			t.Errorf("reserve %t: %q: %v", reserve, ud.Status.LabelSelector, err)
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(read)
		pod := labels.Set{LabelReservedPod: reservedValue}
		maps.Copy(pod, ud.Spec.Selector.MatchLabels)
		if err != nil || selector.Matches(pod) == reserve {
			t.Errorf("reserve %t: %s finds a reserved pod: %t, %v", reserve, selector, !reserve, err)
		}
	}
}

// Reserved pods do not use up what may be unavailable.
func TestReservedPodsDoNotBlockRollouts(t *testing.T) {
	for _, tt := range []struct {
		why                string
		unavailable, surge string
		reserved           int32
		cloneSet, deploy   string
	}{
		{"the defaults, 4 of 10 are reserved", "", "", 4, "6", "6"},
		{"numbers", "2", "1", 4, "6", "6"},
		{"percentages, of the other pods", "50%", "0", 4, "7", "7"},
		{"none is reserved", "50%", "1", 0, "50%", "50%"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			number := func(s string) *intstr.IntOrString {
				if s == "" {
					return nil
				}
				return new(intstr.Parse(s))
			}
			set := &kruise.CloneSetSpec{}
			set.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateCloneSetStrategy{MaxUnavailable: number(tt.unavailable),
				MaxSurge: number(tt.surge)}
			allowReservedInCloneSet(set, order{replicas: 10, reserved: tt.reserved, waiting: tt.reserved})
			d := &appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: number(tt.unavailable)}}}
			allowReservedInDeployment(d, order{replicas: 10, reserved: tt.reserved, waiting: tt.reserved})
			if got := set.UpdateStrategy.RollingUpdate.MaxUnavailable.String(); got != tt.cloneSet {
				t.Errorf("CloneSet: %s, want %s", got, tt.cloneSet)
			}
			if got := d.Strategy.RollingUpdate.MaxUnavailable.String(); got != tt.deploy {
				t.Errorf("Deployment: %s, want %s", got, tt.deploy)
			}
		})
	}
}

// adaptiveStory plays children and a scheduler in memory: what the plan asks for happens, pods find nodes in subsets
// that have room.
type adaptiveStory struct {
	*testing.T
	o    *observed
	room map[string]int32 // pods that a subset's nodes take; missing ones take all
	text []string
}

func newAdaptiveStory(t *testing.T, n int32, subsets ...string) *adaptiveStory {
	t.Helper()
	ud := fixture(t, cloneSets, n, subsets...)
	ud.Spec.Topology.ScheduleStrategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
	return &adaptiveStory{T: t, room: map[string]int32{},
		o: &observed{ud: ud, revision: "web-1", known: map[types.UID]written{}, now: start,
			pods: map[types.UID][]*corev1.Pod{}}}
}

// pass makes a plan and writes its status; what the plan asks of the children happens unless it only turned a gate.
func (s *adaptiveStory) pass() *plan {
	s.Helper()
	p, err := makePlan(s.o)
	if err != nil || p.refused != nil {
		s.Fatalf("plan: %v, %+v", err, p.refused)
	}
	fillStatus(&s.o.ud.Status, &observed{ud: s.o.ud.DeepCopy(), revision: s.o.revision, known: s.o.known}, p, nil, s.o.now)
	if p.turned {
		return p
	}
	for _, c := range p.create {
		object, _ := c.object.DeepCopyObject().(client.Object)
		object.SetName("web-" + c.subset)
		object.SetUID(types.UID(c.subset))
		s.o.children = append(s.o.children, childOf(object))
	}
	for _, c := range p.change {
		for i := range s.o.children {
			if live := &s.o.children[i]; live.object.GetUID() == c.live.object.GetUID() {
				object, _ := c.object.DeepCopyObject().(client.Object)
				object.SetName(live.object.GetName())
				object.SetUID(live.object.GetUID())
				pods := live.pods
				*live = childOf(object)
				live.pods = pods
			}
		}
	}
	s.play()
	return p
}

// play lets pods come and go: those with a node first stay, and new ones find a node where there is room.
func (s *adaptiveStory) play() {
	for i := range s.o.children {
		c := &s.o.children[i]
		room, bounded := s.room[c.subset]
		var nodes, waits []*corev1.Pod
		for _, pod := range s.o.pods[c.object.GetUID()] {
			switch {
			case pod.Spec.NodeName == "" && bounded && int32(len(nodes)) >= room:
				waits = append(waits, pod)
			default:
				pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
				nodes = append(nodes, pod)
			}
		}
		for int32(len(nodes)+len(waits)) < c.replicas {
			pod := waiting(fmt.Sprint(c.subset, "-", s.o.now.Unix(), "-", len(nodes)+len(waits)), 0)
			pod.CreationTimestamp = metav1.NewTime(s.o.now)
			if bounded && int32(len(nodes)) >= room {
				waits = append(waits, pod)
			} else {
				pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
				nodes = append(nodes, pod)
			}
		}
		has := min(int32(len(nodes)), c.replicas)
		pods := slices.Concat(nodes, waits)
		pods = pods[:min(len(pods), int(c.replicas))]
		c.observed = true
		c.pods = counters{replicas: int32(len(pods)), ready: has, available: has, updated: has, updatedReady: has,
			updatedAvailable: has}
		s.o.pods[c.object.GetUID()] = pods
	}
}

// settle passes until nothing changes, checks that no ready pod is lost on the way, and notes the replicas.
func (s *adaptiveStory) settle(why string) *adaptiveStory {
	s.Helper()
	least := min(s.ready(), orOne(s.o.ud.Spec.Replicas))
	for range 50 {
		p := s.pass()
		if s.ready() < least {
			s.Errorf("%s: %d pods are ready, %d were", why, s.ready(), least)
		}
		least = min(max(least, s.ready()), orOne(s.o.ud.Spec.Replicas))
		if !p.turned && len(p.change)+len(p.create) == 0 {
			var parts []string
			for _, row := range s.o.ud.Status.SubsetStatuses {
				part := fmt.Sprintf("%s=%d", row.Name, row.DesiredReplicas)
				if row.Conditions[0].Status == corev1.ConditionFalse {
					part += "!"
				}
				parts = append(parts, part)
			}
			s.text = append(s.text, why+": "+strings.Join(parts, " "))
			return s
		}
	}
	s.Fatalf("%s: 50 passes and no rest", why)
	return s
}

func (s *adaptiveStory) ready() (n int32) {
	for i := range s.o.children {
		n += s.o.children[i].pods.ready
	}
	return n
}

func (s *adaptiveStory) after(d time.Duration) *adaptiveStory {
	s.o.now = s.o.now.Add(d)
	return s
}

func (s *adaptiveStory) scale(n int32) *adaptiveStory {
	s.o.ud.Spec.Replicas = &n
	return s
}

// TestAdaptiveStories tells what becomes of pods that find no node; "!" marks a subset that is closed.
func TestAdaptiveStories(t *testing.T) {
	t.Run("a full subset, and room again", func(t *testing.T) {
		s := newAdaptiveStory(t, 6, "a[,2]", "b[,2]", "c")
		s.room["b"] = 0
		s.settle("new").after(29 * time.Second).settle("not yet").after(time.Second).settle("b is full")
		s.scale(8).settle("8").scale(6).settle("6")
		s.room["b"] = 9
		s.after(299 * time.Second).settle("b has room, and is not tried yet").after(time.Second).settle("b is tried")
		want := []string{
			"new: a=2 b=2 c=2", "not yet: a=2 b=2 c=2", "b is full: a=2 b=0! c=4", "8: a=2 b=0! c=6", "6: a=2 b=0! c=4",
			"b has room, and is not tried yet: a=2 b=0! c=4", "b is tried: a=2 b=2 c=2",
		}
		if diff := cmp.Diff(want, s.text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("tried in vain", func(t *testing.T) {
		s := newAdaptiveStory(t, 4, "a", "b")
		s.room["a"] = 1
		s.settle("new").after(30 * time.Second).settle("a takes one").after(300 * time.Second).settle("tried again").after(30 * time.Second).settle("in vain")
		want := []string{"new: a=4 b=0", "a takes one: a=1! b=3", "tried again: a=2 b=3", "in vain: a=1! b=3"}
		if diff := cmp.Diff(want, s.text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("nobody takes them", func(t *testing.T) {
		s := newAdaptiveStory(t, 3, "a", "b")
		s.room["a"], s.room["b"] = 0, 0
		s.settle("new").after(30 * time.Second).settle("a is full").after(30 * time.Second).settle("b is full too")
		s.room["a"] = 9
		s.play()
		s.after(300 * time.Second).settle("a has room")
		want := []string{"new: a=3 b=0", "a is full: a=0! b=3", "b is full too: a=3! b=0!", "a has room: a=3 b=0"}
		if diff := cmp.Diff(want, s.text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a min keeps a pod that tries", func(t *testing.T) {
		s := newAdaptiveStory(t, 3, "a[1,2]", "b")
		s.room["a"] = 0
		s.settle("new").after(30 * time.Second).settle("a is full").after(time.Hour).settle("an hour later")
		s.room["a"] = 9
		s.play()
		s.settle("a has room")
		want := []string{"new: a=2 b=1", "a is full: a=1! b=2", "an hour later: a=1! b=2", "a has room: a=2 b=1"}
		if diff := cmp.Diff(want, s.text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A person reads which subset is closed since when, what stands in for it, and when it is tried again.
func TestConditionsSayWhatHappens(t *testing.T) {
	s := newAdaptiveStory(t, 4, "a[,2]", "b")
	s.room["a"] = 0
	s.settle("new").after(30 * time.Second).settle("full")
	row := s.o.ud.Status.SubsetStatuses[0]
	c := row.Conditions[0]
	if c.Reason != division.SubsetUnschedulable || !c.LastTransitionTime.Time.Equal(start.Add(30*time.Second)) {
		t.Errorf("condition %+v", c)
	}
	if want := "pods found no node; it has 0 of 2 pods; instead b runs 2 more; it is tried again at " +
		"2026-01-02T03:09:35Z"; c.Message != want {
		t.Errorf("message %q, want %q", c.Message, want)
	}
	s.room["a"] = 1
	s.after(300 * time.Second).pass()
	s.pass()
	if c = s.o.ud.Status.SubsetStatuses[0].Conditions[0]; c.Reason != division.SubsetReturning ||
		c.Status != corev1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	if c := s.o.ud.Status.SubsetStatuses[1].Conditions[0]; c.Reason != division.SubsetStandIn ||
		c.Message != "it runs 2 pods of other subsets until they are ready there" {
		t.Errorf("condition of b %+v", c)
	}
}

// A restarted controller knows from the status alone that a subset is closed.
func TestTheStatusIsTheMemory(t *testing.T) {
	s := newAdaptiveStory(t, 4, "a[,2]", "b")
	s.room["a"] = 0
	s.settle("new").after(30 * time.Second)
	if p := s.pass(); !p.turned || len(p.change) != 2 {
		t.Fatalf("closing: turned %v, %d changes", p.turned, len(p.change))
	}
	if got := s.o.ud.Status.SubsetStatuses[0].Conditions[0].Status; got != corev1.ConditionFalse {
		t.Fatalf("before pods go the status says %s", got)
	}
	s.settle("closed").after(100 * time.Second).settle("later")
	if p := s.pass(); p.wake != 200*time.Second {
		t.Errorf("the next pass is due in %s, want 200 s", p.wake)
	}
}

func TestChildOfPod(t *testing.T) {
	pod := func(api, owner, name, subset, hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{kruise.LabelSubset: subset, appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: api, Kind: owner, Name: name, Controller: new(true)}},
		}}
	}
	for _, tt := range []struct {
		why  string
		pod  *corev1.Pod
		want string
	}{
		{"CloneSet", pod("apps.kruise.io/v1beta1", "CloneSet", "web-a-x", "a", "h"), "CloneSet/web-a-x"},
		{"StatefulSet", pod("apps/v1", "StatefulSet", "web-a-x", "a", ""), "StatefulSet/web-a-x"},
		{"Deployment", pod("apps/v1", "ReplicaSet", "web-a-x-5d", "a", "5d"), "Deployment/web-a-x"},
		{"another ReplicaSet", pod("apps/v1", "ReplicaSet", "web-a-x-5d", "a", "77"), ""},
		{"an advanced StatefulSet", pod("apps.kruise.io/v1beta1", "StatefulSet", "web-a-x", "a", ""),
			"StatefulSet.apps.kruise.io/web-a-x"},
		{"a StatefulSet of others", pod("example.com/v1", "StatefulSet", "web-a-x", "a", ""), ""},
		{"no subset", pod("apps.kruise.io/v1beta1", "CloneSet", "web-a-x", "", ""), ""},
		{"no owner", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{kruise.LabelSubset: "a"}}}, ""},
	} {
		got := ""
		if k, name, ok := childOfPod(tt.pod); ok {
			got = podKey(k, name)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.want)
		}
	}
}

// The next step of a return waits until the pods in whose place the last one came are gone.
func TestPodsComeBackAsOthersGo(t *testing.T) {
	s := newAdaptiveStory(t, 8, "b[,4]", "c")
	s.room["b"] = 0
	s.settle("new").after(30 * time.Second).settle("full")
	s.room["b"] = 9
	s.after(300 * time.Second)
	replicas := func(p *plan) string { return fmt.Sprintf("b=%d c=%d", p.subsets[0].desired, p.subsets[1].desired) }
	s.pass() // says that b is open
	if got := replicas(s.pass()); got != "b=2 c=8" {
		t.Fatalf("the first step: %s", got)
	}
	c := &s.o.children[1]
	p, err := makePlan(s.o)
	if err != nil || replicas(p) != "b=2 c=6" {
		t.Errorf("two are available, and those of c are there: %s, %v", replicas(p), err)
	}
	c.replicas = 6 // asked, not done
	if p, err = makePlan(s.o); err != nil || replicas(p) != "b=2 c=6" {
		t.Errorf("two of c are asked to go: %s, %v", replicas(p), err)
	}
	c.pods.replicas, c.pods.ready, c.pods.available = 6, 6, 6
	if p, err = makePlan(s.o); err != nil || replicas(p) != "b=4 c=6" {
		t.Errorf("two of c are gone: %s, %v", replicas(p), err)
	}
}
