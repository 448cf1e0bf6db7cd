package daemonset

import (
	"context"
	"fmt"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
)

// Reconciler brings DaemonSets to what their specs ask for.
type Reconciler struct {
	*workload.Controller[*v1beta1.DaemonSet, memory]
	// noResize reports whether the API server lacks pods/resize.
	noResize func(context.Context) (bool, error)
}

// memory is what a DaemonSet remembers between passes.
type memory struct {
	backoff backoff
	// ahead is what is known of images that are pulled ahead.
	ahead ahead.State
}

type pass = workload.Pass[*v1beta1.DaemonSet, memory]

// scope is one pass over one DaemonSet.
type scope struct {
	*pass
	set   *v1beta1.DaemonSet
	facts Facts
	plan  Plan
	done  workload.Done
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, set: p.Object}, r.gather, r.decide, r.apply, r.trim, r.report)
}

// decide makes the plan.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	const pods = 1 // some are always needed
	if !s.Plans(&s.set.Spec.Template, pods, &s.facts.Revisions) {
		s.plan = observe(s.facts)
		return true, nil
	}
	var err error
	if s.plan, err = Compute(s.facts); err != nil {
		return false, fmt.Errorf("plan: %w", err)
	}
	s.Sooner(s.plan.Wake)
	if !s.plan.complete() {
		s.Sooner(s.Budget.AskAgain()) // a DaemonSet at rest asks nothing
	}
	return true, nil
}
