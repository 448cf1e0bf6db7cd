package advancedcronjob

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Add adds the controller of AdvancedCronJobs to the manager.
func Add(_ context.Context, env *workload.Env) error {
	r := &Reconciler{}
	b := workload.For(env, r.kind())
	r.Controller = b.Controller
	b.Owns(&batchv1.Job{}).Owns(&v1beta1.BroadcastJob{}).Owns(&v1beta1.ImageListPullJob{})
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.AdvancedCronJob, memory] {
	return workload.Kind[*v1beta1.AdvancedCronJob, memory]{
		GVK:     v1beta1.AdvancedCronJobKind,
		New:     func() *v1beta1.AdvancedCronJob { return &v1beta1.AdvancedCronJob{} },
		NewList: func() client.ObjectList { return &v1beta1.AdvancedCronJobList{} },
		Workers: 4,
		Phases:  r.phases,
	}
}
