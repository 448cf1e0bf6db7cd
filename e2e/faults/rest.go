package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// unrest says why a CloneSet is not at rest with these pods of it, or that its status says something else than the
// pods; "" means all is well.
func unrest(cs *v1beta1.CloneSet, pods []corev1.Pod) string {
	var have counts.Counters
	for i := range pods {
		if why := podUnrest(&pods[i]); why != "" {
			return why
		}
		ready := judge.ReadPod(&pods[i], false).Ready
		have.Add(pods[i].Labels[podset.LabelRevision] == cs.Status.UpdateRevision, ready, ready)
	}
	for _, c := range cs.Status.Conditions {
		if (c.Type == v1beta1.ConditionReconciling || c.Type == v1beta1.ConditionStalled) &&
			c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("condition %s: %s", c.Type, c.Message)
		}
	}
	return statusUnrest(cs, have)
}

// podUnrest says why a pod cannot stay as it is.
func podUnrest(pod *corev1.Pod) string {
	switch {
	case !counts.Active(pod):
		return fmt.Sprintf("pod %s is still there, phase %s, deletion asked for %v, finalizers %v", pod.Name,
			pod.Status.Phase, pod.DeletionTimestamp, pod.Finalizers)
	case podset.SpecifiedDelete(pod):
		return fmt.Sprintf("pod %s is still there, whose deletion was asked for", pod.Name)
	case judge.RunsOldImage(pod):
		return fmt.Sprintf("pod %s still runs its old image", pod.Name)
	}
	return ""
}

// statusUnrest says in what the status differs from the pods, and the pods from the spec.
func statusUnrest(cs *v1beta1.CloneSet, have counts.Counters) string {
	s := cs.Status
	said := counts.Counters{
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
	return ""
}
