package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// unrest says why a workload is not at rest with these pods of it, or that its status says something else than the
// pods; "" means all is well.
func unrest(kind kinds.Kind, object client.Object, pods []corev1.Pod) string {
	var status statusOf
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &status)
	}
	if err != nil {
		return err.Error()
	}
	var have podstate.Counters
	for i := range pods {
		if why := podUnrest(&pods[i]); why != "" {
			return why
		}
		ready := judge.ReadPod(&pods[i], false).Ready
		have.Add(pods[i].Labels[podset.LabelRevision] == status.Status.UpdateRevision, ready, ready)
	}
	for _, c := range status.Status.Conditions {
		if (c.Type == v1beta1.ConditionReconciling || c.Type == v1beta1.ConditionStalled) &&
			c.Status == metav1.ConditionTrue {
			return fmt.Sprintf("condition %s: %s", c.Type, c.Message)
		}
	}
	return status.unrest(kind, kind.Desired(object), have)
}

// statusOf is what all workloads have in their status.
type statusOf struct {
	Status struct {
		ObservedGeneration       int64              `json:"observedGeneration"`
		Replicas                 int32              `json:"replicas"`
		ReadyReplicas            int32              `json:"readyReplicas"`
		AvailableReplicas        int32              `json:"availableReplicas"`
		UpdatedReplicas          int32              `json:"updatedReplicas"`
		UpdatedReadyReplicas     int32              `json:"updatedReadyReplicas"`
		UpdatedAvailableReplicas int32              `json:"updatedAvailableReplicas"`
		CurrentRevision          string             `json:"currentRevision"`
		UpdateRevision           string             `json:"updateRevision"`
		Conditions               []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// podUnrest says why a pod cannot stay as it is.
func podUnrest(pod *corev1.Pod) string {
	switch {
	case !podstate.Active(pod):
		return fmt.Sprintf("pod %s is still there, phase %s, deletion asked for %v, finalizers %v", pod.Name,
			pod.Status.Phase, pod.DeletionTimestamp, pod.Finalizers)
	case podset.SpecifiedDelete(pod):
		return fmt.Sprintf("pod %s is still there, whose deletion was asked for", pod.Name)
	case judge.RunsOldImage(pod):
		return fmt.Sprintf("pod %s still runs its old image", pod.Name)
	}
	return ""
}

// unrest says in what the status differs from the pods, and the pods from what is desired.
func (o *statusOf) unrest(kind kinds.Kind, desired *judge.Desired, have podstate.Counters) string {
	s := &o.Status
	said := podstate.Counters{
		Replicas: s.Replicas, Ready: s.ReadyReplicas, Available: s.AvailableReplicas,
		Updated: s.UpdatedReplicas, UpdatedReady: s.UpdatedReadyReplicas, UpdatedAvailable: s.UpdatedAvailableReplicas,
	}
	updated := desired.Amounts("", desired.Replicas).Updated
	switch {
	case s.ObservedGeneration != desired.Generation:
		return fmt.Sprintf("generation %d is not acknowledged, but %d", desired.Generation, s.ObservedGeneration)
	case said != have:
		return fmt.Sprintf("the status says %+v, the pods say %+v", said, have)
	case have.Replicas != desired.Replicas || have.Available != desired.Replicas:
		return fmt.Sprintf("of %d pods there are %d, %d of them available", desired.Replicas, have.Replicas, have.Available)
	case int64(have.Updated) < int64(updated):
		return fmt.Sprintf("%d pods are updated, want %d", have.Updated, updated)
	case s.CurrentRevision != s.UpdateRevision && !kind.KeepsUpdated && int64(have.Updated) != int64(updated):
		return fmt.Sprintf("%d pods are updated, want %d and the others kept", have.Updated, updated)
	}
	return ""
}
