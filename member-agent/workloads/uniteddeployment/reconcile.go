package uniteddeployment

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// reconciler brings UnitedDeployments to what their specs ask for. What it waits for comes as an event of the object,
// of a child or of a pod; with the strategy Adaptive also time is waited for.
type reconciler struct {
	*workload.Controller[*kruise.UnitedDeployment, memory]
	// cluster is what this cluster answers to node selector requirements on topology.flotilla.dev/cluster: those that it
	// fulfils are left out of the pods. "" if it has no name.
	cluster string
}

type pass = workload.Pass[*kruise.UnitedDeployment, memory]

// scope is one pass over one UnitedDeployment.
type scope struct {
	*pass
	ud     *kruise.UnitedDeployment
	seen   *observed
	todo   *plan
	failed error // what apply could not do
}

func (r *reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, ud: p.Object}, r.gather, r.decide, r.apply, r.report, r.trim)
}

// decide makes the plan.
func (r *reconciler) decide(ctx context.Context, s *scope) (bool, error) {
	var err error
	s.todo, err = r.plan(ctx, s)
	if r.TurnAway(s.pass, err) { // of the revision
		s.todo, err = leave(s.seen, s.Leaving), nil
	}
	if err != nil {
		return false, err
	}
	s.Sooner(s.todo.wake)
	if s.todo.turned {
		// Which subset is closed is known from the status alone, so it is written before pods go for it. Its event brings
		// the pass that does the rest.
		_, err = r.report(ctx, s)
	}
	return !s.todo.turned, err
}

// plan names the revision of the template, which may have to be written first, and makes the plan.
func (r *reconciler) plan(ctx context.Context, s *scope) (*plan, error) {
	if s.Leaving != nil {
		return leave(s.seen, s.Leaving), nil
	}
	seen, why := s.seen, refuse(s.ud)
	if why == nil {
		seen.limits, why = readLimits(s.ud)
	}
	if why == nil {
		seen.previous, why = readPrevious(s.ud)
	}
	if why != nil {
		return refusedPlan(seen, why), nil
	}
	if err := r.revise(ctx, seen); err != nil {
		return nil, err
	}
	return makePlan(seen)
}

// leave is the plan of a pass that only reports.
func leave(o *observed, cause *conditions.Cause) *plan { return &plan{leaving: cause, others: all(o)} }

// refusedOnly reports whether every error is a refusal of the content, which no retry changes.
func refusedOnly(err error) bool {
	if err == nil {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !refusedOnly(e) {
				return false
			}
		}
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusUnprocessableEntity
}
