package broadcastjob

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/checks"
)

// Reconciler brings BroadcastJobs to what their specs ask for.
type Reconciler struct {
	*workload.Controller[*v1beta1.BroadcastJob, memory]
	// ask asks an address of a check, and returns why the check does not hold, "" if it does.
	ask func(context.Context, *v1beta1.BatchHTTP) string
	// nodeNames asks the API server for the names of all nodes.
	nodeNames func(context.Context) ([]string, error)
}

// nodesAgain is how long a job that would end waits for nodes that the cache does not have yet.
const nodesAgain = 100 * time.Millisecond

// memory is what a job remembers between passes.
type memory struct {
	looks looks
	// invalid is what is wrong with the checks of a generation of the job, nil before they were looked at.
	invalid    *string
	generation int64
}

// invalidChecks says what is wrong with the expressions of the job's checks, "" if nothing is.
func (m *memory) invalidChecks(job *v1beta1.BroadcastJob) string {
	if m.invalid == nil || m.generation != job.Generation {
		m.generation, m.invalid = job.Generation, new(checks.InvalidInBatches(batchesOf(job)))
	}
	return *m.invalid
}

type pass = workload.Pass[*v1beta1.BroadcastJob, memory]

// scope is one pass over one job.
type scope struct {
	*pass
	job   *v1beta1.BroadcastJob
	facts Facts
	plan  Plan
	done  workload.Done
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, job: p.Object}, r.gather, r.decide, r.save, r.apply, r.report)
}

// decide makes the plan. A job that is being deleted has none.
func (r *Reconciler) decide(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving == nil {
		s.plan = Compute(s.facts)
		if wait, err := r.lacksNodes(ctx, s); err != nil || wait {
			return false, err
		}
		s.Memory.looks.over = s.facts.isOver(&s.plan)
		s.Sooner(s.plan.Wake)
		if s.facts.Progress.Ended.IsZero() && s.facts.mayCreate(&s.plan.Decided) {
			s.Sooner(s.Budget.AskAgain()) // a job that waits for its pods, or for the hub, asks nothing
		}
	}
	return true, nil
}

// save writes the status if the plan changes what must survive a restart. The pass ends then: the write brings the next
// one.
func (r *Reconciler) save(ctx context.Context, s *scope) (bool, error) {
	want := s.status()
	if s.Leaving != nil || sameProgress(&s.job.Status, &want) {
		return true, nil
	}
	have := s.job.Status
	if err := r.Report(ctx, s.pass, workload.Status{Have: &have, Want: &want}); err != nil {
		return false, err
	}
	r.tell(s, want)
	return false, nil
}

// lacksNodes reports whether the job would end while the cache lacks a node, and then looks again soon. An end is
// final, and the cache of nodes can be behind that of the jobs, so that a node that is older than the job would get no
// pod.
func (r *Reconciler) lacksNodes(ctx context.Context, s *scope) (bool, error) {
	order := s.facts.Policy.Order
	if s.plan.Decided.Phase != completions.PhaseCompleted || !s.facts.Progress.Ended.IsZero() ||
		order != nil && order.Ended {
		return false, nil
	}
	names, err := r.nodeNames(ctx)
	if err != nil {
		return false, err
	}
	known := sets.New[string]()
	for i := range s.facts.Nodes { // the plan is made of these
		known.Insert(s.facts.Nodes[i].Name)
	}
	if known.HasAll(names...) {
		return false, nil
	}
	s.Sooner(nodesAgain)
	return true, nil
}
