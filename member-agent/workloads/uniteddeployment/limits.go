package uniteddeployment

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
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
