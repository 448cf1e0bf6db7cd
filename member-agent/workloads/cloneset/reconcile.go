package cloneset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
)

// Reconciler brings CloneSets to what their specs ask for.
type Reconciler struct {
	*workload.Controller[*v1beta1.CloneSet, memory]
	// ruling returns the WorkloadSpread that rules the CloneSet of this name, or nil.
	ruling func(context.Context, types.NamespacedName) *v1beta1.WorkloadSpread
	// noResize reports whether the API server lacks pods/resize; nil means that it has it.
	noResize func(context.Context) (bool, error)
	// shortHash makes labels of new pods name their revision by its hash alone.
	shortHash bool
}

// memory is what is remembered of a CloneSet between passes.
type memory struct {
	// reusableIDs are instance ids with claims whose pod was refused.
	reusableIDs []string
	// ahead is what is known of images that are pulled ahead.
	ahead ahead.State
}

type pass = workload.Pass[*v1beta1.CloneSet, memory]

// scope is one pass over one CloneSet.
type scope struct {
	*pass
	cs    *v1beta1.CloneSet
	facts Facts
	plan  Plan
	done  workload.Done
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, cs: p.Object},
		r.gather, r.decide, r.apply, r.turnedAway, r.trim, r.report, r.prune)
}

// decide makes the plan.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if !s.Plans(&s.cs.Spec.Template, s.facts.Limits.Replicas, &s.facts.Revisions) {
		s.plan = observe(s.facts)
		return true, nil
	}
	plan, err := Compute(s.facts)
	if err != nil {
		return false, fmt.Errorf("plan: %w", err)
	}
	if s.Stalled == nil {
		s.Stalled = plan.Stalled
	}
	s.plan = plan
	s.Sooner(plan.Wake)
	s.Sooner(s.untilAsked())
	return true, nil
}

// untilAsked is when to ask for the budget again, 0 for never: a CloneSet at rest asks nothing.
func (s *scope) untilAsked() time.Duration {
	c, wanted := s.plan.Counters, s.facts.Limits.Replicas
	atRest := c.Updated == s.plan.ExpectedUpdated && c.Replicas == wanted && c.Available >= wanted &&
		len(s.cs.Spec.ScaleStrategy.PodsToDelete) == 0
	if atRest {
		return 0
	}
	return s.facts.Budget.AskAgain()
}

// turnedAway makes this a pass that only reports if a create was refused because the namespace is being deleted.
func (r *Reconciler) turnedAway(_ context.Context, s *scope) (bool, error) {
	r.TurnAway(s.pass, nil)
	return true, nil
}
