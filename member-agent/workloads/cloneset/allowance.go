package cloneset

import (
	"time"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// How soon a CloneSet asks again whether its allowance holds, while it is in the middle of something: the end of a lease wakes
// nobody, and neither does the hub that is heard again. It costs no request.
const (
	askWhileOver = time.Second
	askWhileLent = 5 * time.Second
)

// inForce are the limits of this pass. Without an allowance nothing that is available goes and nothing is added; what is
// missing is made up, and what is too many goes as far as replicas are available without it.
func (f *Facts) inForce() budget.Limits {
	l := f.Limits
	if f.Over {
		l.MaxUnavailable, l.MaxSurge = 0, 0
	}
	return l
}

// keepsAvailable tells whether what is too many goes only as far as replicas are available without it. A hub that lends nothing
// pauses, and maxUnavailable beside the pause is for the pods that a person names: what others are permitted meanwhile is theirs.
func (p *planner) keepsAvailable() bool { return p.Lent && p.paused() }

// untilAsked is when to ask for the allowance again, 0 for never: a CloneSet at rest asks nothing.
func (s *scope) untilAsked() time.Duration {
	c, wanted := s.plan.Counters, s.facts.Limits.Replicas
	atRest := c.Updated == s.plan.ExpectedUpdated && c.Replicas == wanted && c.Available >= wanted && len(s.cs.Spec.ScaleStrategy.PodsToDelete) == 0
	switch {
	case !s.facts.Lent || atRest:
		return 0
	case s.facts.Over:
		return askWhileOver
	}
	return askWhileLent
}
