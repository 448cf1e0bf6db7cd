package resourcedistribution

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconciler keeps the copies of ResourceDistributions.
type Reconciler struct {
	*workload.Controller[*v1beta1.ResourceDistribution, memory]
	// copies has the metadata of objects with the label of copies.
	copies cache.Cache
}

// memory is what a ResourceDistribution remembers between passes.
type memory struct {
	generation int64
	// compared are the versions of copies that were as the resource, by namespace.
	compared map[string]string
	// conflicts are the namespaces in which an object of others has the name; asked is when that was asked last.
	conflicts map[string]bool
	asked     time.Time
}

type pass = workload.Pass[*v1beta1.ResourceDistribution, memory]

// scope is one pass over one ResourceDistribution.
type scope struct {
	*pass
	distribution *v1beta1.ResourceDistribution
	resource     *resource
	facts        Facts
	plan         Plan
	done         outcome
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, distribution: p.Object}, r.gather, r.decide, r.apply, r.report)
}

// refuse says why nothing is distributed.
func (r *Reconciler) refuse(p *pass) []workload.Phase {
	stall := func(_ context.Context, s *scope) (bool, error) {
		s.Stalled = &conditions.Cause{Reason: reasonNotEnabled, Message: "this agent does not carry out " +
			"ResourceDistributions, since it may not read and write the Secrets and ConfigMaps of all namespaces: set " +
			"resourceDistribution.enabled of its chart, or --resource-distribution"}
		return true, nil
	}
	return workload.Phases(&scope{pass: p, distribution: p.Object}, stall, r.report)
}

// decide makes the plan. A ResourceDistribution that is being deleted has none: the garbage collector deletes copies.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if s.Leaving != nil || s.Stalled != nil {
		return true, nil
	}
	plan, err := Compute(s.facts)
	if err != nil {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidSelector, Message: err.Error()}
	}
	s.plan = plan
	return true, nil
}
