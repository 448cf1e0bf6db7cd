package cloneset

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gatherEvents is how long events of pods are gathered before their CloneSet is reconciled: a rollout makes about five
// events per pod, and 20 ms is small against the second that a pod takes to start.
const gatherEvents = 20 * time.Millisecond

// Add adds the controller of CloneSets to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{shortHash: env.ShortHash}
	b := workload.For(env, r.kind()).OwnsPods(ctx).OwnsClaims(ctx).OwnsRevisions(ctx)
	spreads := workload.NewSpreads(env.Manager.GetCache(), v1beta1.CloneSetKind, gatherEvents)
	b.WatchesRawSource(spreads)
	r.Controller, r.ruling = b.Controller, spreads.Ruling
	var err error
	if r.noResize, err = workload.NoResize(env); err != nil {
		return err
	}
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.CloneSet, memory] {
	return workload.Kind[*v1beta1.CloneSet, memory]{
		GVK:      v1beta1.CloneSetKind,
		New:      func() *v1beta1.CloneSet { return &v1beta1.CloneSet{} },
		NewList:  func() client.ObjectList { return &v1beta1.CloneSetList{} },
		Workers:  16,
		Phases:   r.phases,
		Selector: func(cs *v1beta1.CloneSet) *metav1.LabelSelector { return cs.Spec.Selector },
		PodDelay: gatherEvents,
		// As published.
		ScaleFailure:  string(v1beta1.CloneSetConditionFailedScale),
		UpdateFailure: string(v1beta1.CloneSetConditionFailedUpdate),
	}
}
