package statefulset

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gatherEvents is how long events of pods are gathered before their StatefulSet is reconciled, unless its pods come one
// after the other.
const gatherEvents = 10 * time.Millisecond

// Add adds the controller of StatefulSets to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{}
	b := workload.For(env, r.kind()).OwnsPods(ctx).NamesClaims(ctx, hasClaim).OwnsRevisions(ctx)
	spreads := workload.NewSpreads(env.Manager.GetCache(), v1beta1.StatefulSetKind, gatherEvents)
	b.WatchesRawSource(spreads)
	r.Controller, r.ruling = b.Controller, spreads.Ruling
	var err error
	if r.noResize, err = workload.NoResize(env); err != nil {
		return err
	}
	if r.lacksFlotilla, err = workload.LacksSpecField(env, v1beta1.StatefulSetKind, "flotilla"); err != nil {
		return err
	}
	r.watching = env.Clock.Now()
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.StatefulSet, memory] {
	return workload.Kind[*v1beta1.StatefulSet, memory]{
		GVK:      v1beta1.StatefulSetKind,
		New:      func() *v1beta1.StatefulSet { return &v1beta1.StatefulSet{} },
		NewList:  func() client.ObjectList { return &v1beta1.StatefulSetList{} },
		Workers:  16,
		Phases:   r.phases,
		Selector: func(set *v1beta1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector },
		Member: func(set *v1beta1.StatefulSet, pod string) bool {
			_, ok := podname.Ordinal(set.Name, pod)
			return ok
		},
		PodDelay:      gatherEvents,
		OneByOne:      oneByOne,
		ScaleFailure:  string(v1beta1.StatefulSetConditionFailedCreatePod),
		UpdateFailure: string(v1beta1.StatefulSetConditionFailedUpdatePod),
	}
}

// hasClaim reports whether a claim is one of the StatefulSet's, by its name.
func hasClaim(set *v1beta1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	id := claimSet(set).ID(claim)
	return id != "" && slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		return volumes.Name(t.Name, set.Name, id) == claim.Name
	})
}
