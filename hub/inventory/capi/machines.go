package capi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// hook is what is done about the hook of a Machine.
type hook int

const (
	keepHook hook = iota
	setHook
	dropHook
)

// hookOf decides on the hook of a Machine. stays tells whether the Cluster is a member and not being deleted, left
// whether it is none any more. It is pure.
func hookOf(m *clusterv1.Machine, deleted, left bool) hook {
	_, has := m.Annotations[topology.MachineHook]
	going := m.DeletionTimestamp != nil
	switch {
	case has && (left || going && !deleted):
		return dropHook
	case !has && !left && !going:
		return setHook
	}
	return keepHook
}

// hooks makes the hooks of the Machines as they have to be. left: the member has left, or there is none.
func (r *Reconciler) hooks(ctx context.Context, f *facts, left bool) error {
	for i := range f.machines {
		m := &f.machines[i]
		base := m.DeepCopy()
		switch hookOf(m, f.cluster.DeletionTimestamp != nil, left) {
		case keepHook:
			continue
		case setHook:
			meta := metav1.ObjectMeta{Annotations: m.Annotations}
			metav1.SetMetaDataAnnotation(&meta, topology.MachineHook, "flotilla-capi")
			m.Annotations = meta.Annotations
		case dropHook:
			delete(m.Annotations, topology.MachineHook)
		}
		if err := r.management.Patch(ctx, m, client.MergeFrom(base), manager); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write the hook of Machine %s/%s: %w", m.Namespace, m.Name, err)
		}
	}
	return nil
}

// lost returns since when a member is not heard of that is to be fenced if it has no machines; false if there is
// nothing to fence. machines is how many Machines and MachinePools it has.
func lost(member *topology.MemberCluster, machines int) (metav1.Time, bool) {
	ready := meta.FindStatusCondition(member.Status.Conditions, topology.MemberReady)
	if machines > 0 || member.Annotations[topology.AnnotationMachinesSeen] != "true" || ready == nil ||
		ready.Status == metav1.ConditionTrue {
		return metav1.Time{}, false
	}
	if fence := member.Spec.Fence; fence != nil && fence.LostSince.Equal(&ready.LastTransitionTime) {
		return metav1.Time{}, false
	}
	return ready.LastTransitionTime, true
}

// fence says of a member that is not heard of, and whose machines are gone, that nothing runs there. What is gone is
// asked past the cache.
func (r *Reconciler) fence(ctx context.Context, f *facts) error {
	member, ours := f.named()
	if !ours {
		return nil
	}
	since, fences := lost(member, len(f.machines)+len(f.pools))
	if !fences {
		return nil
	}
	machines, pools := &clusterv1.MachineList{}, &clusterv1.MachinePoolList{}
	for _, list := range []client.ObjectList{machines, pools} {
		if err := r.managementLive.List(ctx, list, client.InNamespace(f.cluster.Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: f.cluster.Name}); err != nil {
			return fmt.Errorf("list %T of Cluster %s: %w", list, id(f.cluster), err)
		}
	}
	if len(machines.Items)+len(pools.Items) > 0 {
		return nil
	}
	base := member.DeepCopy()
	member.Spec.Fence = &topology.Fence{LostSince: since, By: string(manager), At: metav1.NewTime(f.now)}
	if err := r.hub.Patch(ctx, member, client.MergeFrom(base), manager); err != nil {
		return fmt.Errorf("confirm the loss of MemberCluster %s: %w", member.Name, err)
	}
	r.events.Eventf(
		f.cluster,
		nil,
		"Normal",
		"Fenced",
		"Fence",
		"the member %s is not heard of, and its machines are gone: its replicas are placed elsewhere",
		member.Name,
	)
	return nil
}
