package advancedcronjob

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// indexField is the index of jobs by the UID of the AdvancedCronJob that controls them.
const indexField = "flotilla.advancedcronjob"

// Add adds the controller of AdvancedCronJobs to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	for _, job := range []client.Object{&batchv1.Job{}, &v1beta1.BroadcastJob{}} {
		if err := env.Manager.GetFieldIndexer().IndexField(ctx, job, indexField, ownerUID); err != nil {
			return fmt.Errorf("index %T by their AdvancedCronJobs: %w", job, err)
		}
	}
	r := &Reconciler{}
	b := workload.For(env, r.kind())
	r.Controller = b.Controller
	b.Owns(&batchv1.Job{}).Owns(&v1beta1.BroadcastJob{})
	return b.Complete()
}

func ownerUID(job client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(job); ref != nil && ref.Kind == v1beta1.AdvancedCronJobKind.Kind {
		return []string{string(ref.UID)}
	}
	return nil
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
