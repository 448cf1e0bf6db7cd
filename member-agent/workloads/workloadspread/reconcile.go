package workloadspread

import (
	"context"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// reconciler keeps what WorkloadSpreads say of existing pods.
type reconciler struct {
	*workload.Controller[*v1beta1.WorkloadSpread, number]
	registry  *registry
	deletions *deletions
}

type pass = workload.Pass[*v1beta1.WorkloadSpread, number]

// scope is one pass over one WorkloadSpread.
type scope struct {
	*pass
	ws      *v1beta1.WorkloadSpread
	seen    *observed
	todo    *plan
	removed int   // pods that apply deleted
	failed  error // what apply could not do
}

func (r *reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, ws: p.Object}, r.gather, r.decide, r.apply, r.report)
}

// decide makes the plan.
func (r *reconciler) decide(_ context.Context, s *scope) (bool, error) {
	s.todo = makePlan(s.seen)
	return true, nil
}
