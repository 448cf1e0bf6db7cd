package advancedcronjob

import (
	"context"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconciler starts the jobs of AdvancedCronJobs.
type Reconciler struct {
	*workload.Controller[*v1beta1.AdvancedCronJob, memory]
}

// memory is what an AdvancedCronJob remembers between passes.
type memory struct {
	// started is the newest tick that a job was created for: neither the cache nor the status may show it yet.
	started time.Time
}

type pass = workload.Pass[*v1beta1.AdvancedCronJob, memory]

// scope is one pass over one AdvancedCronJob.
type scope struct {
	*pass
	cron  *v1beta1.AdvancedCronJob
	facts Facts
	plan  Plan
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, cron: p.Object}, r.gather, r.decide, r.apply, r.report)
}

func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	s.plan = Compute(s.facts)
	s.Stalled = s.plan.Stalled
	if s.Leaving != nil {
		s.Stalled = nil
		s.plan.Start, s.plan.Delete, s.plan.Wake = time.Time{}, nil, 0
	}
	s.Sooner(s.plan.Wake)
	if s.facts.Held != nil {
		s.Sooner(workload.AskWhileExpired)
	}
	return true, nil
}
