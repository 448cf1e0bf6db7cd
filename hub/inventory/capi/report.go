package capi

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// longestMessage is that of an event; a condition holds more, and nobody reads it.
const longestMessage = 1000

// report writes the condition Joined, if it changed, and an event where its reason did.
func (r *Reconciler) report(ctx context.Context, f *facts, v *verdict) error {
	status, kind := metav1.ConditionFalse, corev1.EventTypeWarning
	if v.joined {
		status = metav1.ConditionTrue
	}
	if v.joined || v.reason == topology.ReasonAgentStarting || v.reason == topology.ReasonMemberDraining ||
		v.reason == topology.ReasonMemberLeft {
		kind = corev1.EventTypeNormal
	}
	if len(v.message) > longestMessage {
		v.message = strings.ToValidUTF8(v.message[:longestMessage], "") + "…"
	}
	conditions := append([]metav1.Condition(nil), f.cluster.Status.Conditions...)
	had := meta.FindStatusCondition(f.cluster.Status.Conditions, topology.ClusterJoined)
	if !meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: topology.ClusterJoined, Status: status, Reason: v.reason, Message: v.message,
		ObservedGeneration: f.cluster.Generation, LastTransitionTime: metav1.NewTime(f.now),
	}) {
		return nil
	}
	now := meta.FindStatusCondition(conditions, topology.ClusterJoined)
	want := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": now.Type, "status": string(now.Status), "reason": now.Reason, "message": now.Message,
		"observedGeneration": now.ObservedGeneration,
		"lastTransitionTime": now.LastTransitionTime.UTC().Format(time.RFC3339),
	}}}}}
	want.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	want.SetNamespace(f.cluster.Namespace)
	want.SetName(f.cluster.Name)
	if err := r.management.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(want), manager,
		client.ForceOwnership); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the condition %s of Cluster %s: %w", now.Type, id(f.cluster), err)
	}
	if had == nil || had.Reason != v.reason {
		r.events.Eventf(f.cluster, nil, kind, v.reason, "Join", "%s", v.message)
	}
	return nil
}
