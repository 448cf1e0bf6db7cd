package workloadspread

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Add adds the controller of WorkloadSpreads to the manager, whose scheme must know batch/v1 too.
func Add(ctx context.Context, env *workload.Env) error {
	if err := indexReplicaSets(ctx, env.Manager.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{registry: newRegistry(), deletions: &deletions{}}
	b := workload.For(env, r.kind()).ReadsPods(ctx)
	r.Controller = b.Controller
	asked := builder.WithPredicates(predicate.GenerationChangedPredicate{}) // the status of a target says nothing here
	newest := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{}))
	b.Watches(&corev1.Pod{}, podEvents{env.Manager.GetClient(), r.registry}).
		Watches(&v1beta1.CloneSet{}, r.workloadEvents(v1beta1.CloneSetKind), asked).
		Watches(&v1beta1.StatefulSet{}, r.workloadEvents(v1beta1.StatefulSetKind), asked).
		Watches(&appsv1.Deployment{}, r.workloadEvents(deploymentGVK), asked).
		Watches(&appsv1.StatefulSet{}, r.workloadEvents(nativeStatefulSetGVK), asked).
		WatchesMetadata(&appsv1.ReplicaSet{}, r.workloadEvents(replicaSetGVK), newest).
		WatchesMetadata(&batchv1.Job{}, r.workloadEvents(batchv1.SchemeGroupVersion.WithKind("Job")), asked).
		// Nodes bring no pass; their labels are to be in the cache when a pod's event comes.
		WatchesMetadata(&corev1.Node{}, handler.Funcs{})
	return b.Complete()
}

func (r *reconciler) kind() workload.Kind[*v1beta1.WorkloadSpread, number] {
	return workload.Kind[*v1beta1.WorkloadSpread, number]{
		GVK:     v1beta1.WorkloadSpreadKind,
		New:     func() *v1beta1.WorkloadSpread { return &v1beta1.WorkloadSpread{} },
		NewList: func() client.ObjectList { return &v1beta1.WorkloadSpreadList{} },
		Workers: 4, // most passes write nothing
		Phases:  r.phases,
		Events:  spreadEvents{r.registry},
	}
}
