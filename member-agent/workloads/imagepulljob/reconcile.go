package imagepulljob

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconciler pulls the images of ImagePullJobs.
type Reconciler struct {
	*workload.Controller[*v1beta1.ImagePullJob, memory]
	images *nodeimages.Store
	// secrets is nil where the agent may not read the Secrets of all namespaces.
	secrets *keeper
}

// memory is what a job remembers between passes.
type memory struct{}

type pass = workload.Pass[*v1beta1.ImagePullJob, memory]

// scope is one pass over one job.
type scope struct {
	*pass
	// job is the object, without what its status says about another image.
	job   *v1beta1.ImagePullJob
	facts Facts
	plan  Plan
	// image and tag are what a NodeImage lists the image under.
	image, tag string
	// secrets are the copies of the Secrets that the job names. held says why no node may pull with them.
	secrets []v1beta1.PullSecretReference
	held    *conditions.Cause
	// pods are those of the job, by their nodes.
	pods map[string]*podOf
	// replaced are pods of the job that pull another image.
	replaced []*corev1.Pod
	// messages say why the pull on a node failed.
	messages map[string]string
	// unschedulable is why pods have no node yet, "" for none of them.
	unschedulable string
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, job: OfItsImage(p.Object)}, r.gather, r.decide,
		r.finalize, r.request, r.report, r.release)
}

// decide makes the plan. A job that is being deleted has none: the controller of NodeImages and the garbage collector
// take away what it has.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if s.Leaving != nil || s.Stalled != nil {
		return true, nil
	}
	plan, err := Make(s.facts)
	if err != nil {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidStrategy, Message: err.Error()}
		return true, nil
	}
	s.plan = plan
	if s.job.Status.Flotilla == nil || AnotherImage(s.job) {
		// The status says who pulls, and which image, before anything does: a restart must not change that.
		s.plan.Request, s.plan.Status.Active = nil, plan.Status.Active-int32(len(plan.Request))
	}
	if !plan.Next.IsZero() {
		s.Sooner(max(plan.Next.Sub(s.facts.Now), soonest))
	}
	if plan.Status.CompletionTime == nil {
		s.Sooner(s.Budget.AskAgain())
	}
	return true, nil
}
