package imagelistpulljob

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconciler makes the ImagePullJobs of ImageListPullJobs.
type Reconciler struct {
	*workload.Controller[*v1beta1.ImageListPullJob, memory]
}

// memory is what a job remembers between passes.
type memory struct{}

type pass = workload.Pass[*v1beta1.ImageListPullJob, memory]

// scope is one pass over one job.
type scope struct {
	*pass
	job  *v1beta1.ImageListPullJob
	plan Plan
}

// Add adds the controller of ImageListPullJobs to the manager.
func Add(_ context.Context, env *workload.Env) error {
	r := &Reconciler{}
	b := workload.For(env, workload.Kind[*v1beta1.ImageListPullJob, memory]{
		GVK:     v1beta1.ImageListPullJobKind,
		New:     func() *v1beta1.ImageListPullJob { return &v1beta1.ImageListPullJob{} },
		NewList: func() client.ObjectList { return &v1beta1.ImageListPullJobList{} },
		Workers: 4,
		Phases: func(p *pass) []workload.Phase {
			return workload.Phases(&scope{pass: p, job: p.Object}, r.decide, r.apply, r.report)
		},
	})
	r.Controller = b.Controller
	b.Owns(&v1beta1.ImagePullJob{})
	return b.Complete()
}

// decide reads the children and makes the plan. A job that is being deleted has none.
func (r *Reconciler) decide(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	facts := Facts{Job: s.job, Now: r.Clock.Now()}
	var list v1beta1.ImagePullJobList
	err := r.Client.List(ctx, &list, client.InNamespace(s.job.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("list its ImagePullJobs: %w", err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.job) {
			facts.Children = append(facts.Children, &list.Items[i])
		}
	}
	if s.plan, err = Make(facts); err == nil && !s.plan.Next.IsZero() {
		s.Sooner(max(s.plan.Next.Sub(facts.Now), time.Second))
	}
	return true, err
}
