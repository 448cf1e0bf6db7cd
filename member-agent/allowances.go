package memberagent

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/link"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/uniteddeployment"
)

// allowances answers the workload controllers whether a hub lends an object what it may disrupt, and whether that has run out.
// A nil pointer stands for an agent without a hub.
type allowances struct {
	reader client.Reader // the manager's cache
	hub    *link.Link

	generations *apply.Generations
}

func (a *allowances) foreignCloneSet(set *apps.CloneSet) bool {
	return a != nil && set.Labels[topology.LabelHub] != "" && a.generations.Foreign(apps.CloneSetKind, set)
}

func (a *allowances) foreignUnitedDeployment(ud *apps.UnitedDeployment) bool {
	return a != nil && ud.Labels[topology.LabelHub] != "" && a.generations.Foreign(apps.UnitedDeploymentKind, ud)
}

// ordered wakes a controller when objects of the kind are as ordered again; nil for an agent without a hub.
func (a *allowances) ordered(kind schema.GroupVersionKind) source.Source {
	if a == nil {
		return nil
	}
	return a.generations.Source(kind)
}

func (a *allowances) ofUnitedDeployment(_ context.Context, ud *apps.UnitedDeployment) (lent, over bool) {
	if a == nil || ud.Labels[topology.LabelHub] == "" {
		return false, false
	}
	return true, !a.hub.MayDisrupt(apps.UnitedDeploymentKind.Kind, client.ObjectKeyFromObject(ud), sequenceOf(ud))
}

// ofCloneSet answers for a child of a UnitedDeployment by what its parent has carried down to all children, or to this one.
func (a *allowances) ofCloneSet(ctx context.Context, set *apps.CloneSet) (lent, over bool) {
	if a == nil {
		return false, false
	}
	if set.Labels[topology.LabelHub] != "" {
		return true, !a.hub.MayDisrupt(apps.CloneSetKind.Kind, client.ObjectKeyFromObject(set), sequenceOf(set))
	}
	parent := metav1.GetControllerOfNoCopy(set)
	if parent == nil || parent.Kind != apps.UnitedDeploymentKind.Kind {
		return false, false
	}
	ud := &apps.UnitedDeployment{}
	name := types.NamespacedName{Namespace: set.Namespace, Name: parent.Name}
	// A parent that is gone is about to take its child with it.
	if err := a.reader.Get(ctx, name, ud, client.UnsafeDisableDeepCopy); err != nil || ud.UID != parent.UID || ud.Labels[topology.LabelHub] == "" {
		return false, false
	}
	sequence := ud.Status.ObservedSequence
	if uniteddeployment.Follows(ud, set) {
		sequence = max(sequence, sequenceOf(ud))
	}
	return true, !a.hub.MayDisrupt(apps.UnitedDeploymentKind.Kind, name, sequence)
}

// sequenceOf returns the sequence of the newest order that stands in the object, 0 for none.
func sequenceOf(object client.Object) int64 {
	sequence, err := strconv.ParseInt(object.GetAnnotations()[topology.AnnotationSequence], 10, 64)
	if err != nil {
		return 0
	}
	return sequence
}
