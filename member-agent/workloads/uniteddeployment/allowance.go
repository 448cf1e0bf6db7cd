package uniteddeployment

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// allowance says whether a hub lends what may be disrupted, and whether that has run out.
type allowance struct{ lent, over bool }

// How soon a UnitedDeployment asks again for its allowance while children are being updated: the end of a lease wakes nobody,
// and neither does the hub that is heard again.
const (
	askWhileOver = time.Second
	askWhileLent = 5 * time.Second
)

func (r *reconciler) allowed(ctx context.Context, ud *kruise.UnitedDeployment) allowance {
	var a allowance
	if r.allowance != nil {
		a.lent, a.over = r.allowance(ctx, ud)
	}
	return a
}

// Follows tells whether a child may do no more than the order permits that stands on its UnitedDeployment. That can be so before the
// UnitedDeployment has answered the order, for as long as another child of it is refused.
func Follows(ud *kruise.UnitedDeployment, set *kruise.CloneSet) bool {
	name := subsetOf(set, set.Spec.Selector)
	limits, bad := readLimits(ud)
	limit, ok := limits[name]
	i := slices.IndexFunc(ud.Spec.Topology.Subsets, func(s kruise.Subset) bool { return s.Name == name })
	if bad != nil || !ok || i < 0 || ud.Spec.Topology.Subsets[i].Replicas == nil {
		return false
	}
	if set.Spec.UpdateStrategy.Type == kruise.OnDeleteCloneSetUpdateStrategyType {
		return true // it updates nothing by itself
	}
	var stays int32
	if manual := ud.Spec.UpdateStrategy.ManualUpdate; manual != nil {
		stays = manual.Partitions[name]
	}
	limited := set.Spec.DeepCopy()
	limitCloneSet(limited, limit)
	if !equality.Semantic.DeepEqual(limited.UpdateStrategy, set.Spec.UpdateStrategy) {
		return false
	}
	partition := set.Spec.UpdateStrategy.RollingUpdate.Partition
	if partition == nil || partition.Type != intstr.Int {
		return false // the hub's orders have a number
	}
	return orOne(set.Spec.Replicas)-partition.IntVal <= max(0, ud.Spec.Topology.Subsets[i].Replicas.IntVal-stays)
}

// updatedAll tells whether as many pods are updated as are to be, and for a Deployment also that no others are left.
func updatedAll(live *child, expected int32) bool {
	return live.pods.updated >= expected && (live.kind != deploymentKind || live.pods.replicas == live.pods.updated)
}

// pause pauses a child that is being updated while there is no allowance. Children that are CloneSets ask for it themselves.
func (p *plan) pause(o *observed, s *subsetPlan, asked *order) {
	live := s.live
	if !o.allowance.lent || live == nil || live.revision == o.revision && live.observed && updatedAll(live, s.expected()) {
		return
	}
	p.sooner(askWhileLent)
	if !o.allowance.over {
		return
	}
	p.sooner(askWhileOver)
	if live.kind == cloneSetKind {
		return
	}
	limit := topology.SubsetLimit{}
	if asked.limit != nil {
		limit = *asked.limit
	}
	limit.Paused = true
	asked.limit = &limit
}
