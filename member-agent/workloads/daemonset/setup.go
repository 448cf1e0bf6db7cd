package daemonset

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gatherEvents is how long events of pods and nodes are gathered before a DaemonSet is reconciled. A pass looks at all
// nodes, and a rollout makes about five events per pod.
const gatherEvents = 20 * time.Millisecond

// Add adds the controller of DaemonSets to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{}
	b := workload.For(env, r.kind()).OwnsPods(ctx).OwnsRevisions(ctx).OnNodes(ctx)
	r.Controller = b.Controller
	var err error
	if r.noResize, err = workload.NoResize(env); err != nil {
		return err
	}
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.DaemonSet, memory] {
	return workload.Kind[*v1beta1.DaemonSet, memory]{
		GVK:           v1beta1.DaemonSetKind,
		New:           func() *v1beta1.DaemonSet { return &v1beta1.DaemonSet{} },
		NewList:       func() client.ObjectList { return &v1beta1.DaemonSetList{} },
		Workers:       16,
		Phases:        r.phases,
		Selector:      func(set *v1beta1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector },
		PodDelay:      gatherEvents,
		ScaleFailure:  string(v1beta1.DaemonSetConditionFailedCreatePod),
		UpdateFailure: string(v1beta1.DaemonSetConditionFailedUpdatePod),
	}
}
