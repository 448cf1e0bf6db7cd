package uniteddeployment

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/topology/division"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run only this seed of the simulation over time, and print its trace")
	simSeeds = flag.Uint64("seeds", 120, "run so many seeds of the simulation over time")
)

// TestOverTime runs the real plans in worlds where subsets close and open, while the workload is scaled and updated,
// with and without reserved pods. It checks that the ready pods never fall below what the limits allow, that closed
// subsets keep their mins, that the counters of the status are exact, and that all comes to rest. A failure names its
// seed.
func TestOverTime(t *testing.T) {
	if *simSeed != 0 {
		s := newOverTime(t, *simSeed)
		err := s.run()
		t.Logf("%s", &s.trace)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	failed, passes := 0, 0
	for seed := range *simSeeds {
		s := newOverTime(t, seed+1)
		if err := s.run(); err != nil {
			if failed++; failed <= 5 {
				t.Errorf("seed %d: %v (run it again with -seed %d for its trace)", seed+1, err, seed+1)
			}
		}
		passes += s.passes
	}
	t.Logf("%d seeds, %d passes of the controller, %d failed", *simSeeds, passes, failed)
}

// overTime is a UnitedDeployment of CloneSets with the strategy Adaptive, and all around it: the controllers of the
// children, a scheduler and kubelets. Each acts in steps of its own; in between the others see what it left.
type overTime struct {
	*testing.T
	random  *rand.Rand
	o       *observed
	cells   []*simCell
	reserve bool
	short   bool // also the last subset may have no room
	passes  int
	pods    int // that were made, for names
	trace   strings.Builder

	wake    time.Duration // when the last plan asks for the next pass
	changes int           // of pods and children
	passed  int           // the changes that the last pass has seen
	due     time.Time     // when a pass is due without a change

	grown  bool  // more is asked for, and what children may take down of before is not withdrawn yet
	target int32 // pods that were ready at a time, at most what is asked for
	loss   int32 // what the limits of the children allow to be down since the update began
}

// simCell is a subset, its nodes and its child.
type simCell struct {
	name  string
	room  int // pods that may get nodes; those that have one keep it
	start time.Duration
	pods  []*simPod
	made  int
}

type simPod struct {
	*corev1.Pod
	revision string
	bound    time.Time
}

func newOverTime(t *testing.T, seed uint64) *overTime {
	random := rand.New(rand.NewPCG(seed, 24))
	s := &overTime{T: t, random: random, reserve: random.IntN(2) == 0}
	names := "abcd"[:2+random.IntN(3)]
	subsets := make([]string, len(names))
	for i, name := range names {
		c := &simCell{name: string(name), room: []int{0, 1, 3, 100}[random.IntN(4)],
			start: time.Duration(random.IntN(15)) * time.Second}
		s.cells = append(s.cells, c)
		low, high := "", ""
		if random.IntN(3) == 0 {
			low = fmt.Sprint(1 + random.IntN(2))
		}
		if random.IntN(3) == 0 && i+1 < len(names) {
			high = fmt.Sprint(2 + random.IntN(3))
		}
		subsets[i] = fmt.Sprintf("%s[%s,%s]", c.name, low, high)
	}
	if s.short = random.IntN(4) == 0; !s.short {
		s.cells[len(names)-1].room = 100 // what the others do not take has a place
	}
	ud := fixture(t, cloneSets, 1+random.Int32N(8), subsets...)
	rolling := &kruise.RollingUpdateCloneSetStrategy{MaxUnavailable: new(intstr.FromInt32(1 + random.Int32N(2)))}
	switch random.IntN(4) {
	case 0:
		rolling.MaxUnavailable, rolling.MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
	case 1:
		rolling.MaxUnavailable = new(intstr.FromString("50%"))
	}
	ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate = rolling
	ud.Spec.Topology.ScheduleStrategy = kruise.UnitedDeploymentScheduleStrategy{
		Type: kruise.AdaptiveUnitedDeploymentScheduleStrategyType,
		Adaptive: &kruise.AdaptiveUnitedDeploymentStrategy{
			ReserveUnschedulablePods:  s.reserve,
			RescheduleCriticalSeconds: new(5 + random.Int32N(15)), UnschedulableDuration: new(1 + random.Int32N(40)),
		},
	}
	s.o = &observed{
		ud: ud, revision: "web-1", known: map[types.UID]written{}, now: start, pods: map[types.UID][]*corev1.Pod{},
	}
	s.logf("seed %d: %s reserve %t, maxUnavailable %s, maxSurge %s, %+v", seed, strings.Join(subsets, " "), s.reserve,
		rolling.MaxUnavailable, rolling.MaxSurge, *scheduleOf(ud))
	return s
}

func (s *overTime) logf(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%4.0f s  %s\n", s.o.now.Sub(start).Seconds(), fmt.Sprintf(format, args...))
}

// run lets things happen, then fixes the nodes and waits for rest.
func (s *overTime) run() error {
	for range 60 + s.random.IntN(300) {
		if s.random.IntN(15) == 0 {
			s.disturb()
		}
		if err := s.step(); err != nil {
			return fmt.Errorf("%4.0f s: %w", s.o.now.Sub(start).Seconds(), err)
		}
	}
	s.logf("nothing is disturbed any more")
	if err := s.rest("with the nodes as they are"); err != nil {
		return err
	}
	for _, c := range s.cells {
		c.room = 100
	}
	s.logf("all subsets have room")
	if err := s.rest("with room in all subsets"); err != nil {
		return err
	}
	return s.settled()
}

// disturb changes the image, the replicas or the nodes of a subset.
func (s *overTime) disturb() {
	s.changes++
	switch s.random.IntN(3) {
	case 0:
		revision := fmt.Sprintf("web-%d", len(s.o.revision)+s.passes)
		s.logf("update to %s", revision)
		s.o.revision = revision
		s.o.ud.Generation++
		s.o.ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = revision
	case 1:
		n := s.random.Int32N(9)
		s.logf("scale to %d", n)
		s.grown = s.grown || n > orOne(s.o.ud.Spec.Replicas)
		s.o.ud.Generation++
		s.o.ud.Spec.Replicas = &n
		s.target = min(s.target, n)
	case 2:
		cells := s.cells
		if !s.short {
			cells = cells[:len(cells)-1]
		}
		c := cells[s.random.IntN(len(cells))]
		c.room = []int{0, 0, 1, 3, 100}[s.random.IntN(5)]
		s.logf("room for %d pods in %s", c.room, c.name)
	}
}

// step lets some of the controllers act, and time pass.
func (s *overTime) step() error {
	if s.random.IntN(2) == 0 {
		s.o.now = s.o.now.Add(time.Duration(1+s.random.IntN(3)) * time.Second)
	}
	for i, c := range s.cells {
		if s.random.IntN(2) == 0 {
			s.control(i)
		}
		if s.random.IntN(2) == 0 {
			s.changes += c.schedule(s.o.now)
		}
		s.changes += c.kubelet(s.o.now)
	}
	if err := s.checkReady(); err != nil {
		return err
	}
	if s.random.IntN(3) == 0 || s.changes == s.passed && s.o.now.Before(s.due) {
		return nil // it was not woken yet
	}
	s.passed = s.changes
	err := s.pass()
	s.due = s.o.now.Add(time.Hour)
	if s.wake > 0 {
		s.due = s.o.now.Add(s.wake)
	}
	return err
}

// child returns the child of a cell, nil if there is none.
func (s *overTime) child(c *simCell) *child {
	i := slices.IndexFunc(s.o.children, func(live child) bool { return live.subset == c.name })
	if i < 0 {
		return nil
	}
	return &s.o.children[i]
}

// pass is one pass of the controller of UnitedDeployments: the real plan and the real status.
func (s *overTime) pass() error {
	for _, c := range s.cells {
		pods := make([]*corev1.Pod, len(c.pods))
		for i := range c.pods {
			pods[i] = c.pods[i].Pod
		}
		s.o.pods[types.UID(c.name)] = pods
	}
	p, err := makePlan(s.o)
	if err != nil || p.refused != nil {
		return fmt.Errorf("plan: %w, %+v", err, p.refused)
	}
	s.passes++
	s.wake = p.wake
	if s.grown && !p.turned && len(p.create)+len(p.change) == 0 &&
		!slices.ContainsFunc(s.o.children, func(c child) bool { return !c.observed }) {
		s.grown = false
	}
	if !s.grown {
		s.reach()
	}
	fillStatus(&s.o.ud.Status, &observed{ud: s.o.ud.DeepCopy(), revision: s.o.revision, known: s.o.known}, p, nil, s.o.now)
	if p.turned || len(p.mark)+len(p.create)+len(p.change) > 0 {
		s.changes++
	}
	if err := s.checkPlan(p); err != nil || p.turned {
		return err
	}
	for _, m := range p.mark {
		m.pod.Labels = map[string]string{LabelReservedPod: m.value}
	}
	for _, c := range p.create {
		s.write(c.object, c.subset, nil)
	}
	for _, c := range p.change {
		s.write(c.object, c.live.subset, c.live)
	}
	if len(p.create)+len(p.change) > 0 {
		s.logf("plan: %s", s)
	}
	if !s.reserve {
		// the pods for mins that wait go, whatever comes next
		s.target = min(s.target, max(0, orOne(s.o.ud.Spec.Replicas)-s.tries()))
	}
	return nil
}

func (s *overTime) write(content client.Object, subset string, live *child) {
	object, _ := content.DeepCopyObject().(client.Object)
	object.SetName("web-" + subset)
	object.SetUID(types.UID(subset))
	c := childOf(object)
	c.observed = false
	if live == nil {
		s.o.children = append(s.o.children, c)
		return
	}
	c.pods = live.pods
	*live = c
}

func (s *overTime) String() string {
	var parts []string
	for _, c := range s.cells {
		ready, nodes := c.count()
		part := fmt.Sprintf("%s: room %d, no child", c.name, c.room)
		if live := s.child(c); live != nil {
			part = fmt.Sprintf("%s: %d of room %d, pods %d, nodes %d, ready %d", c.name, live.replicas, c.room, len(c.pods),
				nodes, ready)
			if value := liveUnavailable(live.object); value != nil {
				part += fmt.Sprintf(", told %d ready %d new, may lack %s", live.pods.ready, live.pods.updated, value)
			}
		}
		for _, row := range s.o.ud.Status.SubsetStatuses {
			if row.Name == c.name && row.Conditions[0].Status == corev1.ConditionFalse {
				part += fmt.Sprintf(", closed, reserved %d", row.ReservedPods)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " | ")
}

// control is the controller of a CloneSet: it scales, and updates within the limits of its spec. What it deletes is
// made anew the next time.
func (s *overTime) control(i int) {
	c := s.cells[i]
	live := s.child(c)
	if live == nil {
		return
	}
	set, _ := liveObject[*kruise.CloneSet](live)
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	replicas, revision := int(live.replicas), live.revision
	old := func(p *simPod) bool { return p.revision != revision }
	surge := 0
	if rolling.MaxSurge != nil && slices.ContainsFunc(c.pods, old) {
		surge = int(rolling.MaxSurge.IntVal)
	}
	most, _ := budget.Scaled(*rolling.MaxUnavailable, live.replicas, budget.Up)
	slices.SortStableFunc(c.pods, func(a, b *simPod) int { return cmp.Compare(keepRank(a), keepRank(b)) })
	ready, _ := c.count()
	spare := ready - replicas + int(most)
	switch {
	case len(c.pods) > replicas+surge:
		c.pods = c.pods[:replicas+surge]
	case len(c.pods) < replicas+surge:
		for len(c.pods) < replicas+surge {
			s.pods++
			c.made++
			name := fmt.Sprintf("%s-%d", c.name, s.pods)
			c.pods = append(c.pods, &simPod{revision: revision, Pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(s.o.now)},
				Status:     corev1.PodStatus{Phase: corev1.PodPending},
			}})
		}
	default:
		c.pods = slices.DeleteFunc(c.pods, func(p *simPod) bool {
			if !old(p) || rolling.Paused {
				return false
			}
			if podstate.Ready(p.Pod) {
				spare--
				return spare >= 0
			}
			return true
		})
	}
	before := live.pods
	if !live.observed {
		s.changes++
	}
	live.observed = true
	live.pods = counters{replicas: int32(len(c.pods))}
	for _, p := range c.pods {
		if podstate.Ready(p.Pod) {
			live.pods.ready++
			live.pods.available++
		}
		if !old(p) {
			live.pods.updated++
			if podstate.Ready(p.Pod) {
				live.pods.updatedReady++
				live.pods.updatedAvailable++
			}
		}
	}
	if live.pods != before {
		s.changes++
	}
}

// keepRank is the order in which a child keeps its pods: those that are ready longest.
func keepRank(p *simPod) int {
	switch {
	case podstate.Ready(p.Pod):
		return 0
	case p.Spec.NodeName != "":
		return 1
	}
	return 2
}

func (c *simCell) count() (ready, nodes int) {
	for _, p := range c.pods {
		if podstate.Ready(p.Pod) {
			ready++
		}
		if p.Spec.NodeName != "" {
			nodes++
		}
	}
	return ready, nodes
}

// schedule gives pods nodes while there is room, and tells the others that there is none.
func (c *simCell) schedule(now time.Time) (changes int) {
	_, nodes := c.count()
	for _, p := range c.pods {
		switch {
		case p.Spec.NodeName != "":
		case nodes < c.room:
			p.Spec.NodeName, p.bound, p.Status.Conditions = "n", now, nil
			nodes++
			changes++
		case p.Status.Conditions == nil:
			changes++
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable}}
		}
	}
	return changes
}

// kubelet makes pods ready that have had a node for long enough.
func (c *simCell) kubelet(now time.Time) (changes int) {
	for _, p := range c.pods {
		if p.Spec.NodeName != "" && !podstate.Ready(p.Pod) && now.Sub(p.bound) >= c.start {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(now)}}
			changes++
		}
	}
	return changes
}

// tries is how much of the mins of closed subsets has no node.
func (s *overTime) tries() (n int32) {
	for i, c := range s.cells {
		live := s.child(c)
		if live == nil || !s.closed(c) || s.o.ud.Spec.Topology.Subsets[i].MinReplicas == nil {
			continue
		}
		_, nodes := c.count()
		n += max(0, min(s.o.ud.Spec.Topology.Subsets[i].MinReplicas.IntVal, live.replicas)-int32(nodes))
	}
	return n
}

// nowhere reports whether pods wait in a closed subset because no other one takes them.
func (s *overTime) nowhere() bool {
	return slices.ContainsFunc(s.cells, func(c *simCell) bool {
		gate := oldGate(s.o.ud, c.name)
		return gate != nil && gate.Reason == division.SubsetNoAlternative
	})
}

func (s *overTime) closed(c *simCell) bool {
	gate := oldGate(s.o.ud, c.name)
	return gate != nil && gate.Status == corev1.ConditionFalse
}

// checkReady: the ready pods never fall below those that were ready before and are still asked for, less what the
// limits of the children allow while there are pods to update. The mins of closed subsets are asked for although they
// cannot be ready.
func (s *overTime) checkReady() error {
	n := orOne(s.o.ud.Spec.Replicas)
	if tries := s.tries(); !s.reserve && tries > 0 {
		n = max(0, n-tries)
		s.target = min(s.target, n)
	}
	var ready, kept, limits, room int32
	updating := false
	for _, c := range s.cells {
		has, nodes := c.count()
		ready += int32(has)
		room += int32(max(c.room, nodes))
		live := s.child(c)
		if live == nil {
			continue
		}
		kept += min(int32(has), live.replicas)
		updating = updating || live.revision != s.o.revision || slices.ContainsFunc(c.pods, func(p *simPod) bool {
			return p.revision != s.o.revision
		})
		value := s.o.ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable
		most, _ := budget.Scaled(*value, max(live.replicas, int32(len(c.pods))), budget.Up)
		limits += most
	}
	s.target = min(s.target, room) // what an update took down where there is no room any more is nobody's to keep
	least := min(s.target, n)
	switch {
	case updating:
		s.loss = max(s.loss, limits)
	case kept >= least:
		s.loss = 0
	}
	if ready < least-s.loss {
		return fmt.Errorf("%d pods are ready, %d were and are asked for, the limits allow %d to be down: %s", ready, least,
			s.loss, s)
	}
	return nil
}

// reach notes how many pods are ready, as far as the children have reported it.
func (s *overTime) reach() {
	n, ready := orOne(s.o.ud.Spec.Replicas), int32(0)
	if !s.reserve {
		n = max(0, n-s.tries())
	}
	for _, c := range s.cells {
		if live := s.child(c); live != nil {
			has, _ := c.count()
			ready += min(live.pods.ready, int32(has), live.replicas)
		}
	}
	s.target = max(s.target, min(n, ready))
}

// checkPlan: the sum is what is asked for, a closed subset keeps its min, and the counters of the status are exact.
func (s *overTime) checkPlan(p *plan) error {
	n := orOne(s.o.ud.Spec.Replicas)
	var sum, exist, unreserved, reserved, lows int32
	for i := range p.subsets {
		sub := &p.subsets[i]
		sum += sub.desired
		exist += max(sub.desired, sub.existing())
		reserved += sub.reserved
		if sub.live != nil {
			unreserved += max(0, sub.live.pods.replicas-sub.reserved)
		}
		low := int32(0)
		if value := s.o.ud.Spec.Topology.Subsets[i].MinReplicas; value != nil {
			low = value.IntVal
		}
		if sub.gate.closed && !s.reserve {
			_, nodes := s.cells[i].count()
			lows += max(low, int32(nodes))
		} else {
			lows += low
		}
		if sub.gate.closed && lows <= n && sub.desired < low {
			return fmt.Errorf("closed subset %s has %d pods, its min is %d", sub.name, sub.desired, low)
		}
	}
	if exist < n || !s.reserve && sum > n+(n+3)/4 || sum > n*int32(len(p.subsets)+1) {
		return fmt.Errorf("%d pods are asked for in all, replicas is %d: %s", sum, n, s)
	}
	status := &s.o.ud.Status
	if status.ReservedPods != reserved || status.Replicas != unreserved {
		return fmt.Errorf("status has %d replicas and %d reserved pods, want %d and %d: %s",
			status.Replicas, status.ReservedPods, unreserved, reserved, s)
	}
	return nil
}

// rest waits until nothing is due, and then checks that no subset makes pods again and again: a subset in which a pod
// waits is tried by that pod, and where pods are reserved nothing is made at all.
func (s *overTime) rest(why string) error {
	strategy := scheduleOf(s.o.ud)
	long := 2*(strategy.closed+strategy.critical) + 40*time.Second
	wait := func(d time.Duration) error {
		same := 0
		for end := s.o.now.Add(d); s.o.now.Before(end) && same < 40; {
			before := s.changes
			if err := s.step(); err != nil {
				return fmt.Errorf("%s: %4.0f s: %w", why, s.o.now.Sub(start).Seconds(), err)
			}
			if same++; s.changes != before {
				same = 0
			}
			if same > 10 && same%10 == 0 { // the pods wait for the time that the controller asked for, and for nothing else
				s.o.now = s.o.now.Add(max(s.wake, 15*time.Second))
			}
		}
		return nil
	}
	if err := wait(20 * long); err != nil {
		return err
	}
	waits := make([]bool, len(s.cells))
	for i, c := range s.cells {
		_, nodes := c.count()
		low := s.o.ud.Spec.Topology.Subsets[i].MinReplicas
		waits[i] = low != nil && int32(nodes) < min(low.IntVal, int32(len(c.pods)))
		c.made = 0
	}
	began := s.o.now
	if err := wait(2 * long); err != nil {
		return err
	}
	if s.reserve || !s.short {
		for i, c := range s.cells {
			if c.made > 0 && (waits[i] || s.reserve) {
				return fmt.Errorf("%s: %d pods were made in %s at rest: %s", why, c.made, c.name, s)
			}
		}
		return nil
	}
	if !s.nowhere() {
		return nil // a step of pods comes back each time that a subset opens
	}
	// Pods wait because all lack room: each subset is tried with one pod each time that it opens.
	tries := 2 + int(s.o.now.Sub(began)/strategy.closed)
	for _, c := range s.cells {
		if c.made > tries {
			return fmt.Errorf("%s: %d pods were made in %s where all may lack room, in %s: %s", why, c.made, c.name,
				s.o.now.Sub(began), s)
		}
	}
	return nil
}

// settled: with room in all subsets each has its own number, and all pods are ready.
func (s *overTime) settled() error {
	p, err := makePlan(s.o)
	if err != nil {
		return err
	}
	n := orOne(s.o.ud.Spec.Replicas)
	for i, c := range s.cells {
		if ready, _ := c.count(); int32(ready) != p.subsets[i].plain || len(c.pods) != ready ||
			p.subsets[i].desired != p.subsets[i].plain {
			return fmt.Errorf("subset %s has %d ready of %d pods, it is to have %d: %s", c.name, ready, len(c.pods),
				p.subsets[i].plain, s)
		}
	}
	status := &s.o.ud.Status
	if status.Replicas != n || status.ReadyReplicas != n || status.UpdatedReadyReplicas != n || status.ReservedPods != 0 ||
		status.CurrentRevision != s.o.revision {
		return fmt.Errorf("the status of %d replicas is %+v", n, status)
	}
	return nil
}
