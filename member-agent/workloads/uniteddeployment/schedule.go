package uniteddeployment

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// ReasonPodsScheduled is the reason of the condition Schedulable of a subset of which nothing else is to be said. The other
// reasons are those of its number, see package division.
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
		// A subset is not tried again before pods that left it could try all others: else they would go to and fro between the
		// first ones, and never reach one that has room.
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

// gateOf returns the gate of a subset whose condition was old (nil: it had none). A pod that is stuck closes it, for a time;
// after that it opens once all its pods have nodes. So a subset whose min keeps a pod in it is tried by that pod, and the
// pod that an update puts in its place is not taken for room. A pod that does not exist counts as one without a node, unless
// something else keeps it from being made.
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
func (p *plan) sooner(wait time.Duration) { p.wake = counts.Sooner(p.wake, wait) }

// explain writes the conditions of the subsets: which is closed, since when, what stands in for it, and when it is tried again.
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

// condition returns the condition Schedulable. others says who stands in, "" if nobody does. The sentences have no figure that
// changes while nothing is decided.
func (s *subsetPlan) condition(strategy *schedule, others string) *kruise.SubsetCondition {
	c := &kruise.SubsetCondition{Type: kruise.SubsetSchedulable, Status: corev1.ConditionTrue, LastTransitionTime: s.gate.since, Reason: ReasonPodsScheduled}
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
		said = append(said, fmt.Sprintf("%d of its pods found no node; they are reserved until they have been ready for %s", s.reserved, strategy.closed))
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
