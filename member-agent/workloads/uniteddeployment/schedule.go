package uniteddeployment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// ReasonPodsScheduled is the reason of the condition Schedulable of a subset of which nothing else is to be said. The
// other reasons are those of its number, see package division.
const ReasonPodsScheduled = "PodsScheduled"

// The published defaults of the strategy Adaptive.
const (
	defaultCritical = 30 * time.Second
	defaultClosed   = 300 * time.Second
	// leastClosed bounds how often a subset is tried: times in a status have whole seconds.
	leastClosed = time.Second
	// mostCritical bounds what counts of the time that a pod may wait, so that sums of it are no overflow.
	mostCritical = 365 * 24 * time.Hour
)

// schedule is the strategy Adaptive.
type schedule struct {
	critical time.Duration // how long a pod may wait for a node
	closed   time.Duration // how long a subset gets no pods; with reserve: how long a reserved pod must be ready
	reserve  bool
}

// scheduleOf returns the strategy Adaptive with its defaults; nil for Fixed.
func scheduleOf(ud *kruise.UnitedDeployment) *schedule {
	strategy := &ud.Spec.Topology.ScheduleStrategy
	if strategy.Type != kruise.AdaptiveUnitedDeploymentScheduleStrategyType {
		return nil
	}
	s := &schedule{critical: defaultCritical, closed: defaultClosed}
	if a := strategy.Adaptive; a != nil {
		s.reserve = a.ReserveUnschedulablePods
		if a.RescheduleCriticalSeconds != nil {
			s.critical = time.Duration(*a.RescheduleCriticalSeconds) * time.Second
		}
		if a.UnschedulableDuration != nil {
			s.closed = time.Duration(*a.UnschedulableDuration) * time.Second
		}
	}
	if !s.reserve {
		// A subset is not tried again before pods that left it could try all others: else they would go to and fro between
		// the first ones, and never reach one that has room.
		others := time.Duration(max(0, len(ud.Spec.Topology.Subsets)-1))
		s.closed = max(s.closed, leastClosed, others*min(s.critical, mostCritical))
	}
	return s
}

// gate says whether a subset takes new pods.
type gate struct {
	closed bool
	since  metav1.Time // when it opened or closed
	again  time.Time   // when it opens; zero: it depends on its pods alone
	stuck  int32       // pods of it that wait for nodes
	turned bool        // it was not so before this pass
}

// gateOf returns the gate of a subset whose condition was old (nil: it had none). A pod that is stuck closes it, for a
// time; after that it opens once all its pods have nodes. So a subset whose min keeps a pod in it is tried by that pod,
// and the pod that an update puts in its place is not taken for room. A pod that does not exist counts as one without a
// node, unless something else keeps it from being made.
func gateOf(old *kruise.SubsetCondition, p placing, s *schedule, now time.Time) gate {
	g := gate{closed: p.stuck > 0, stuck: p.stuck}
	was := old != nil && old.Status == corev1.ConditionFalse
	if was {
		g.again = old.LastTransitionTime.Add(s.closed)
		g.closed = g.closed || now.Before(g.again) || p.unbound > 0
	}
	g.turned = g.closed != was
	if g.turned || old == nil {
		g.since = metav1.NewTime(now.Truncate(time.Second))
		g.again = g.since.Add(s.closed)
	} else {
		g.since = old.LastTransitionTime
	}
	if !g.closed || !g.again.After(now) {
		g.again = time.Time{}
	}
	return g
}

// reservedGate returns the gate of a subset whose pods are reserved: it is closed while there are some.
func reservedGate(old *kruise.SubsetCondition, reserved int32, now time.Time) gate {
	g := gate{closed: reserved > 0, since: metav1.NewTime(now.Truncate(time.Second)), stuck: reserved}
	was := old != nil && old.Status == corev1.ConditionFalse
	if g.turned = g.closed != was; !g.turned && old != nil {
		g.since = old.LastTransitionTime
	}
	return g
}

// wait returns how long until the gate opens by itself; 0 if it does not.
func (g gate) wait(now time.Time) time.Duration {
	if g.again.IsZero() {
		return 0
	}
	return g.again.Sub(now)
}

// oldGate returns the condition Schedulable that the status has of a subset, nil if it has none.
func oldGate(ud *kruise.UnitedDeployment, subset string) *kruise.SubsetCondition {
	for i := range ud.Status.SubsetStatuses {
		row := &ud.Status.SubsetStatuses[i]
		if row.Name != subset {
			continue
		}
		for j := range row.Conditions {
			if row.Conditions[j].Type == kruise.SubsetSchedulable {
				return &row.Conditions[j]
			}
		}
	}
	return nil
}

// oldReserved returns how many reserved pods the status has of a subset.
func oldReserved(ud *kruise.UnitedDeployment, subset string) int32 {
	for i := range ud.Status.SubsetStatuses {
		if row := &ud.Status.SubsetStatuses[i]; row.Name == subset {
			return row.ReservedPods
		}
	}
	return 0
}

// sooner makes the next pass come after wait at the latest; 0 asks for none.
func (p *plan) sooner(wait time.Duration) { p.wake = podstate.Sooner(p.wake, wait) }

// explain writes the conditions of the subsets: which is closed, since when, what replaces it, and when it is
// tried again.
func (p *plan) explain(s *schedule) {
	var others []string
	for i := range p.subsets {
		if more := p.subsets[i].desired - p.subsets[i].plain; more > 0 {
			others = append(others, fmt.Sprintf("%s runs %d more", p.subsets[i].name, more))
		}
	}
	for i := range p.subsets {
		p.subsets[i].schedulable = p.subsets[i].condition(s, strings.Join(others, ", "))
	}
}

// condition returns the condition Schedulable. others says who stands in, "" if nobody does. The sentences have no
// figure that changes while nothing is decided.
func (s *subsetPlan) condition(strategy *schedule, others string) *kruise.SubsetCondition {
	c := &kruise.SubsetCondition{Type: kruise.SubsetSchedulable, Status: corev1.ConditionTrue,
		LastTransitionTime: s.gate.since, Reason: ReasonPodsScheduled}
	if s.gate.closed {
		c.Status = corev1.ConditionFalse
	}
	said := s.says(strategy, others)
	if len(said) > 0 {
		c.Reason = s.why.Code
		switch {
		case !s.gate.closed || strategy.reserve:
		case s.gate.again.IsZero():
			said = append(said, "it is used again as soon as no pod of it waits for a node")
		default:
			said = append(said, "it is tried again at "+s.gate.again.UTC().Format(time.RFC3339))
		}
	}
	if s.held {
		said = append(said, "its update waits until more pods of other subsets are available")
	}
	c.Message = strings.Join(said, "; ")
	return c
}

// says returns the sentences on where the pods of the subset are, none if they are where they belong.
func (s *subsetPlan) says(strategy *schedule, others string) (said []string) {
	switch less := s.plain - s.desired; s.why.Code {
	case division.SubsetUnschedulable:
		said = append(said, "pods found no node")
		if less > 0 {
			said = append(said, fmt.Sprintf("it has %d of %d pods", s.desired, s.plain))
		}
		if less > 0 && others != "" {
			said = append(said, "instead "+others)
		}
	case division.SubsetNoAlternative:
		said = append(said, "pods found no node, and no other subset takes them, so they wait here")
	case division.SubsetReserved:
		said = append(said, fmt.Sprintf("%d of its pods found no node; they are reserved until they have been ready for "+
			"%s", s.reserved, strategy.closed))
		if others != "" {
			said = append(said, "meanwhile "+others)
		}
	case division.SubsetReturning:
		if less <= 0 {
			said = append(said, "pods that wait in other subsets are tried here, one at a time")
			break
		}
		said = append(said, fmt.Sprintf("pods come back to it: it is to have %d, and gets them step by step", s.plain))
	case division.SubsetStandIn:
		said = append(said, fmt.Sprintf("it runs %d pods of other subsets until they are ready there", -less))
	}
	return said
}

// divide gives each subset its number. With the strategy Adaptive it decides first which subsets take pods.
func (p *plan) divide(o *observed, kept map[string]*child) error {
	subsets := o.ud.Spec.Topology.Subsets
	n := orOne(o.ud.Spec.Replicas)
	p.subsets = make([]subsetPlan, len(subsets))
	input, current := make([]division.Subset, len(subsets)), make([]int32, len(subsets))
	now := make([]*child, len(subsets))
	for i, s := range subsets {
		p.subsets[i] = subsetPlan{name: s.Name, live: kept[s.Name]}
		input[i] = division.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas}
		if now[i] = standing(kept[s.Name], p.others, s.Name); now[i] != nil {
			current[i] = now[i].replicas
		}
	}
	strategy := scheduleOf(o.ud)
	if strategy == nil {
		p.forgetMarks(o)
		shares, err := division.Subsets(n, input, current)
		p.take(shares)
		p.part(o)
		return err
	}
	plain, err := division.Adaptive(n, input, nil)
	if err != nil {
		return err
	}
	seen := make([]division.Seen, len(subsets))
	for i := range p.subsets {
		p.subsets[i].plain = plain[i].Replicas
		seen[i] = p.see(o, strategy, &p.subsets[i], now[i])
	}
	divide := division.Adaptive
	if strategy.reserve {
		divide = division.Reserve
	} else {
		p.forgetMarks(o)
	}
	shares, err := divide(n, input, seen)
	p.take(shares)
	p.hold(n)
	p.part(o)
	if strategy.reserve {
		p.cover(now, n)
	}
	p.restrain(o, now, n)
	return err
}

// part gives each subset how many of its pods are not to be updated.
func (p *plan) part(o *observed) {
	manual := o.ud.Spec.UpdateStrategy.ManualUpdate
	if manual == nil || templateKind(o.ud) == deploymentKind {
		return
	}
	for i := range p.subsets {
		s := &p.subsets[i]
		s.partition = min(max(0, manual.Partitions[s.name]), s.desired)
	}
}

// hold lets pods come back to a subset only as far as no more exist than n and the step of division.Adaptive, also
// while the pods in whose place they come are still going.
func (p *plan) hold(n int32) {
	above := -int64(n) - (int64(n)+3)/4
	for i := range p.subsets {
		s := &p.subsets[i]
		above += int64(max(s.desired, s.existing()))
	}
	for i := range p.subsets {
		s := &p.subsets[i]
		if s.why.Code != division.SubsetReturning || above <= 0 {
			continue
		}
		var has int32
		if s.live != nil {
			has = s.live.replicas
		}
		less := int32(min(above, int64(max(0, s.desired-max(has, s.existing())))))
		s.desired, s.later = s.desired-less, less
		above -= int64(less)
	}
}

// existing is how many pods the subset's child has, or may have made since its controller was heard.
func (s *subsetPlan) existing() int32 {
	if s.live == nil {
		return 0
	}
	if !s.live.observed {
		return max(s.live.pods.replicas, s.live.replicas)
	}
	return s.live.pods.replicas
}

func (p *plan) take(shares []division.SubsetShare) {
	for i := range shares {
		p.subsets[i].desired, p.subsets[i].why = shares[i].Replicas, shares[i].Reason
	}
}

// forgetMarks releases the pods that an earlier strategy reserved.
func (p *plan) forgetMarks(o *observed) {
	for i := range p.subsets {
		if live := p.subsets[i].live; live != nil {
			p.mark = append(p.mark, release(o.pods[live.object.GetUID()], o.marked)...)
		}
	}
}

// see decides whether the subset takes pods, and returns what the division needs to know of it. now is the child that
// has its pods, nil if there is none.
func (p *plan) see(o *observed, strategy *schedule, s *subsetPlan, now *child) division.Seen {
	old := oldGate(o.ud, s.name)
	var seen division.Seen
	var at placing
	if now != nil {
		pods := o.pods[now.object.GetUID()]
		at = place(now, pods, strategy.critical, o.now)
		seen.Replicas, seen.Ready = now.replicas, working(now, pods, s.plain)
		seen.Bound = now.replicas - at.lacking
		if strategy.reserve {
			r := reserve(pods, now.replicas, oldReserved(o.ud, s.name), o.marked, strategy, o.now)
			p.mark = append(p.mark, r.marks...)
			p.sooner(r.next)
			s.reserved = min(r.pods, now.replicas)
			// A reserved pod that an update has made beside all that it replaces does not wait for any of these.
			s.waiting = max(0, min(s.reserved-r.ready, now.replicas-now.pods.available))
			seen.Unsteady = loose(o, now, s.reserved)
		}
	}
	if strategy.reserve {
		s.gate = reservedGate(old, s.reserved, o.now)
	} else {
		s.gate = gateOf(old, at, strategy, o.now)
		p.sooner(at.next)
		p.sooner(s.gate.wait(o.now))
		s.placed = max(at.holds, seen.Ready)
		if s.gate.closed {
			// Pods of a closed subset that have nodes keep them, also while they start or are updated; nothing ready goes for
			// them.
			seen.Starting = max(0, at.holds-seen.Ready)
		}
	}
	p.turned = p.turned || s.gate.turned
	seen.Reserved, seen.Unschedulable = s.reserved, s.gate.closed
	seen.Waiting = old != nil && old.Reason == division.SubsetNoAlternative
	return seen
}

// working is how many of the pods of a child count as ready. Pods that are to take the place of others count once they
// are available; those that others are to replace, which are more than plain, as long as they are ready: of these the
// pods themselves say it sooner than the child's status does.
func working(c *child, pods []*corev1.Pod, plain int32) int32 {
	if c.replicas <= plain {
		return min(c.pods.available, c.replicas)
	}
	ready := c.pods.ready
	if len(pods) > 0 {
		ready = 0
	}
	for _, pod := range pods {
		if podstate.Ready(pod) {
			ready++
		}
	}
	return min(ready, c.replicas)
}

// placing is how the pods of a child stand with the scheduler.
type placing struct {
	// stuck is how many of the pods that the child is to have have waited for a node for too long. A pod that it has
	// beyond them, as during a surge, may wait.
	stuck int32
	// holds is the most pods that the child has if none of the stuck ones is kept, at most what it is to have.
	holds int32
	// lacking is how many of the pods that the child is to have are without a node: stuck, new, or not made yet.
	lacking int32
	// unbound is how many of these wait for a node, or will: not those that something else keeps from being made.
	unbound int32
	// next is how long until another pod counts as stuck; 0 if no pod waits.
	next time.Duration
}

// place says how the pods of a child stand. A pod is stuck once it is critical old and the scheduler finds no node for
// it.
func place(c *child, pods []*corev1.Pod, critical time.Duration, now time.Time) placing {
	p := placing{holds: c.replicas}
	var stuck, top, bound int32
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
		is, after := spread.Stuck(pod, critical, now)
		p.next = podstate.Sooner(p.next, after)
		if is {
			stuck++
			continue
		}
		top = max(top, rank(c, pod)+1)
	}
	active := int32(len(pods))
	p.stuck = max(0, stuck-max(0, active-c.replicas))
	p.lacking = max(0, c.replicas-bound)
	if p.unbound = p.lacking; keptFromPods(c, pods) {
		p.unbound = min(p.lacking, active-bound)
	}
	switch {
	case p.stuck == 0:
	case c.kind.hasOrdinals():
		// A StatefulSet gives up its highest pods first: those below one that has a node cannot be taken away.
		p.holds = min(c.replicas, top)
	default:
		// A pod that an update has just deleted comes again, and keeps its place.
		p.holds = min(c.replicas, max(c.replicas, active)-stuck)
	}
	return p
}

// keptFromPods reports whether the child's controller makes no pods for another reason than that it has just deleted
// some: the API server refuses them, or a pod of a StatefulSet that has a node comes first and is not Ready.
func keptFromPods(c *child, pods []*corev1.Pod) bool {
	if c.failed != nil {
		return true
	}
	var ordered bool
	switch o := c.object.(type) {
	case *appsv1.StatefulSet:
		ordered = inOrder(o)
	case *kruise.StatefulSet:
		ordered = o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	}
	return ordered && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" && !podstate.Ready(pod)
	})
}

// rank returns the place of a StatefulSet's pod in the order in which they are made, from 0; 0 for pods of other kinds.
func rank(c *child, pod *corev1.Pod) int32 {
	switch o := c.object.(type) {
	case *appsv1.StatefulSet:
		return max(0, int32(position(o, pod)))
	case *kruise.StatefulSet:
		return advancedRank(o, pod)
	}
	return 0
}

// advancedRank returns the place of a pod among the ordinals that are not reserved; 0 for a pod that is to go.
func advancedRank(set *kruise.StatefulSet, pod *corev1.Pod) int32 {
	ordinal, ok := podname.Ordinal(set.Name, pod.Name)
	all, err := ordinals.NewSet(ptr.Deref(set.Spec.Ordinals, kruise.StatefulSetOrdinals{}).Start, orOne(set.Spec.Replicas),
		set.Spec.ReserveOrdinals)
	if !ok || err != nil {
		return 0
	}
	if position, ok := all.Position(ordinal); ok {
		return int32(position)
	}
	return 0
}
