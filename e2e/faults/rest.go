package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// unrest says why a CloneSet is not at rest with these pods of it, or that its status says something else than the pods;
// "" means all is well.
func unrest(cs *v1beta1.CloneSet, pods []corev1.Pod) string {
	var have podstate.Counters
	for i := range pods {
		pod := &pods[i]
		switch {
		case !podstate.Active(pod):
			return fmt.Sprintf("pod %s is still there, phase %s, deletion asked for %v, finalizers %v", pod.Name, pod.Status.Phase, pod.DeletionTimestamp, pod.Finalizers)
		case podset.SpecifiedDelete(pod):
			return fmt.Sprintf("pod %s is still there, whose deletion was asked for", pod.Name)
		case restarts(pod):
			return fmt.Sprintf("pod %s still runs its old image", pod.Name)
		}
		ready := serves(pod)
		have.Add(pod.Labels[podset.LabelRevision] == cs.Status.UpdateRevision, ready, ready)
	}
	s := cs.Status
	said := podstate.Counters{
		Replicas: s.Replicas, Ready: s.ReadyReplicas, Available: s.AvailableReplicas,
		Updated: s.UpdatedReplicas, UpdatedReady: s.UpdatedReadyReplicas, UpdatedAvailable: s.UpdatedAvailableReplicas,
	}
	replicas := ptr.Deref(cs.Spec.Replicas, 1)
	kept, err := budget.Partition(cs.Spec.UpdateStrategy.RollingUpdate.Partition, replicas)
	switch {
	case err != nil:
		return err.Error()
	case s.ObservedGeneration != cs.Generation:
		return fmt.Sprintf("generation %d is not acknowledged, but %d", cs.Generation, s.ObservedGeneration)
	case said != have:
		return fmt.Sprintf("the status says %+v, the pods say %+v", said, have)
	case have.Replicas != replicas || have.Available != replicas:
		return fmt.Sprintf("of %d pods there are %d, %d of them available", replicas, have.Replicas, have.Available)
	case have.Updated < replicas-kept:
		return fmt.Sprintf("%d pods are updated, want %d", have.Updated, replicas-kept)
	case s.CurrentRevision != s.UpdateRevision && have.Updated != replicas-kept:
		return fmt.Sprintf("%d pods are updated, want %d and the others kept", have.Updated, replicas-kept)
	}
	for _, c := range s.Conditions {
		if (c.Type == v1beta1.ConditionReconciling || c.Type == v1beta1.ConditionStalled) && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("condition %s: %s", c.Type, c.Message)
		}
	}
	return ""
}
