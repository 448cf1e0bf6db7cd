package agent

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// report writes the conditions when one changed. They name no generation, which the answer to each session of the agent
// raises: kubectl wait would wait for a write that says nothing new. The agent writes the same status: the
// resourceVersion is not needed, because conditions have this one writer.
func (r *Reconciler) report(ctx context.Context, member *topology.MemberCluster, conditions []metav1.Condition) error {
	base := member.DeepCopy()
	for _, c := range conditions {
		c.LastTransitionTime = metav1.NewTime(r.clock.Now())
		if have := meta.FindStatusCondition(member.Status.Conditions, c.Type); have != nil &&
			have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message &&
			have.ObservedGeneration == c.ObservedGeneration {
			continue
		}
		meta.SetStatusCondition(&member.Status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(base.Status.Conditions, member.Status.Conditions) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, member, client.MergeFrom(base),
		store.ManagerInventory); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write conditions of MemberCluster %s: %w", member.Name, err)
	}
	return nil
}
