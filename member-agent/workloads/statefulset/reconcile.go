package statefulset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
)

// Reconciler brings StatefulSets to what their specs ask for.
type Reconciler struct {
	*workload.Controller[*v1beta1.StatefulSet, memory]
	// ruling returns the WorkloadSpread that rules the StatefulSet of this name, or nil.
	ruling func(context.Context, types.NamespacedName) *v1beta1.WorkloadSpread
	// noResize reports whether the API server lacks pods/resize.
	noResize func(context.Context) (bool, error)
	// lacksFlotilla reports whether the definition of StatefulSets lacks spec.flotilla.
	lacksFlotilla func(context.Context) (bool, error)
	// watching is since when this agent watches updates.
	watching time.Time
}

// memory is what is known of images that are pulled ahead: a pass decides everything else from what it sees.
type memory struct{ ahead ahead.State }

type pass = workload.Pass[*v1beta1.StatefulSet, memory]

// scope is one pass over one StatefulSet.
type scope struct {
	*pass
	set   *v1beta1.StatefulSet
	facts Facts
	plan  Plan
	done  workload.Done
	// outdated is how many claims are not what their templates ask for.
	outdated int
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, set: p.Object}, r.gather, r.decide, r.apply, r.trim, r.report)
}

// decide makes the plan.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if !s.Plans(&s.set.Spec.Template, s.facts.Limits.Replicas, &s.facts.Revisions) {
		s.plan = observe(s.facts)
		return true, nil
	}
	var err error
	if s.plan, err = Compute(s.facts); err != nil {
		return false, fmt.Errorf("plan: %w", err)
	}
	if s.Stalled == nil {
		s.Stalled = s.plan.Stalled
	}
	s.Sooner(s.plan.Wake)
	if c := s.plan.Counters; c.Updated < s.plan.ExpectedUpdated || c.Available < s.facts.Limits.Replicas ||
		c.Replicas != s.facts.Limits.Replicas {
		s.Sooner(s.Budget.AskAgain()) // a StatefulSet at rest asks nothing
	}
	return true, nil
}
