package uniteddeployment

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Add adds the controller of UnitedDeployments to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	indexer := env.Manager.GetFieldIndexer()
	if err := errors.Join(indexChildren(ctx, indexer), indexPods(ctx, indexer)); err != nil {
		return err
	}
	r := &reconciler{cluster: env.ClusterName}
	b := workload.For(env, r.kind()).OwnsRevisions(ctx)
	r.Controller = b.Controller
	// Events of its own status pass too: a pass that saw an old status in the cache is followed by one that sees the new.
	b.Owns(&kruise.CloneSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, podEvents{client: env.Manager.GetClient()})
	return b.Complete()
}

func (r *reconciler) kind() workload.Kind[*kruise.UnitedDeployment, memory] {
	return workload.Kind[*kruise.UnitedDeployment, memory]{
		GVK:     kruise.UnitedDeploymentKind,
		New:     func() *kruise.UnitedDeployment { return &kruise.UnitedDeployment{} },
		NewList: func() client.ObjectList { return &kruise.UnitedDeploymentList{} },
		// A pass costs a few reads from the cache and one request per child that changes, so a few keep an API server busy.
		Workers: 4,
		Phases:  r.phases,
	}
}
