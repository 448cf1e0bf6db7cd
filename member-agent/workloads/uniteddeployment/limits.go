package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// readLimits returns the limits that a hub lends to the subsets, nil if there are none.
func readLimits(ud *kruise.UnitedDeployment) (map[string]topology.SubsetLimit, *problem) {
	value, ok := ud.Annotations[topology.AnnotationSubsetLimits]
	if !ok {
		return nil, nil
	}
	limits := map[string]topology.SubsetLimit{}
	if err := json.Unmarshal([]byte(value), &limits); err != nil {
		return nil, &problem{ReasonInvalidLimits, fmt.Sprintf("annotation %s cannot be read: %v; the hub writes it, remove it if no hub owns this object", topology.AnnotationSubsetLimits, err)}
	}
	return limits, nil
}

// A workload with neither maxUnavailable nor maxSurge could never be updated, so the API refuses it or corrects it: no
// permission at all is said by pausing, and the 1 beside it has no effect while paused.
func resolved(limit topology.SubsetLimit) topology.SubsetLimit {
	if limit.MaxUnavailable <= 0 && limit.MaxSurge <= 0 {
		return topology.SubsetLimit{MaxUnavailable: 1, Paused: true}
	}
	return limit
}

// limitCloneSet puts the limits of the hub in the place of the template's. With OnDelete the controller updates nothing
// by itself, so there is nothing to limit.
func limitCloneSet(spec *kruise.CloneSetSpec, limit topology.SubsetLimit) {
	if spec.UpdateStrategy.Type == kruise.OnDeleteCloneSetUpdateStrategyType {
		return
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateCloneSetStrategy{}
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	keepsAll := budget.KeepsAll(budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge}, ptr.Deref(spec.Replicas, 1))
	if none := limit.MaxUnavailable <= 0 && limit.MaxSurge <= 0; none && keepsAll {
		// A pause takes the surge away, and would not take maxUnavailable: pods that are too many go by that.
		limit = topology.SubsetLimit{MaxSurge: 1, Paused: true}
	}
	limit = resolved(limit)
	rolling.MaxUnavailable = new(intstr.FromInt32(limit.MaxUnavailable))
	rolling.MaxSurge = new(intstr.FromInt32(limit.MaxSurge))
	rolling.Paused = rolling.Paused || limit.Paused
}

// limitDeployment does so for a Deployment. A paused Deployment does not even create its first ReplicaSet, so it is paused
// only if mayPause: there are pods, or it has made a ReplicaSet of this template.
func limitDeployment(spec *appsv1.DeploymentSpec, limit topology.SubsetLimit, mayPause bool) {
	limit = resolved(limit)
	spec.Paused = spec.Paused || limit.Paused && mayPause
	if spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return
	}
	spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
		MaxUnavailable: new(intstr.FromInt32(limit.MaxUnavailable)),
		MaxSurge:       new(intstr.FromInt32(limit.MaxSurge)),
	}
}

// paused tells whether a child object holds its updates.
func paused(object client.Object) bool {
	switch o := object.(type) {
	case *kruise.CloneSet:
		return o.Spec.UpdateStrategy.RollingUpdate != nil && o.Spec.UpdateStrategy.RollingUpdate.Paused
	case *appsv1.Deployment:
		return o.Spec.Paused
	}
	return false
}

// PassedOn returns the sequence of the newest order of a UnitedDeployment that a child carries out. It is the one that all
// children carry out, unless this child already permits no more than a newer order does.
func PassedOn(owner, owned client.Object) int64 {
	ud, ok := owner.(*kruise.UnitedDeployment)
	if !ok {
		return 0
	}
	if set, ok := owned.(*kruise.CloneSet); ok && follows(ud, set) {
		return max(ud.Status.ObservedSequence, sequence(ud))
	}
	return ud.Status.ObservedSequence
}

// follows reports whether a child permits no more than the order on its UnitedDeployment does. That can be so before the
// UnitedDeployment has answered the order, for as long as another child of it is refused.
func follows(ud *kruise.UnitedDeployment, set *kruise.CloneSet) bool {
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
	granted := ud.Spec.Topology.Subsets[i].Replicas.IntVal - stays
	return orOne(set.Spec.Replicas)-partition.IntVal <= max(0, granted)
}

// updatedAll reports whether as many pods are updated as are to be, and for a Deployment also that no others are left.
func updatedAll(live *child, expected int32) bool {
	return live.pods.updated >= expected && (live.kind != deploymentKind || live.pods.replicas == live.pods.updated)
}

// pause pauses a child that is being updated while the budget has expired. Children that are CloneSets ask for it
// themselves.
func (p *plan) pause(o *observed, s *subsetPlan, asked *order) {
	live := s.live
	if !o.budget.Granted || live == nil ||
		live.revision == o.revision && live.observed && updatedAll(live, s.expected()) {
		return
	}
	p.sooner(o.budget.AskAgain())
	if !o.budget.Expired || live.kind == cloneSetKind {
		return
	}
	limit := topology.SubsetLimit{}
	if asked.limit != nil {
		limit = *asked.limit
	}
	limit.Paused = true
	asked.limit = &limit
}
