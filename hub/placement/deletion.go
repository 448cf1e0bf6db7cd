package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// Keeps reports whether a deleted workload keeps what is placed of it, because finalizers of others hold its object.
// So do the pods of a Deployment on one cluster: background deletion takes them after the Deployment has left the API
// server. Foreground deletion, orphaning and a terminating namespace do not wait for other finalizers there, nor here.
func Keeps(object client.Object, p *topology.WorkloadPlacement, terminating bool) bool {
	return conditions.HoldsDependents(object) && object.GetUID() == p.Spec.Workload.UID &&
		!terminating && !Orphaned(object, p) && !wire.Withdrawn(object)
}

// Orphaned reports whether a deleted workload leaves its pods running. The garbage collector removes the owner of the
// placement before it removes the finalizer, and another finalizer may hold the workload after that.
func Orphaned(object client.Object, p *topology.WorkloadPlacement) bool {
	return object.GetDeletionTimestamp() != nil && (conditions.Orphaning(object) || !OwnedBy(p, object))
}

// OwnedBy reports whether the placement names the object as an owner.
func OwnedBy(p *topology.WorkloadPlacement, object client.Object) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == object.GetUID() })
}

// decideDeleted is the plan for a workload that has a deletion timestamp.
func decideDeleted(s *State, rule kinds.Kind, placed bool) Step {
	if s.Placement == nil && (!s.federated || rule.Mode == kinds.Copy) {
		return Step{}
	}
	out := Step{Remove: placed && !Keeps(s.Object, s.Placement, s.terminating)}
	if s.terminating {
		out.Outcome = stepTerminating(s).Outcome
		return out
	}
	message := fmt.Sprintf("%s: %s", s.key.Sentence(), conditions.Waiting(s.Object))
	if placed && !out.Remove {
		message += "; until then its pods keep running, and changes of its spec are not carried out"
	}
	out.Outcome = s.refused(&kinds.Rejection{Reason: conditions.ReasonDeleting, Message: message}, false)
	return out
}

// stepTerminating is the plan for a workload whose namespace is being deleted. Its placement is deleted with the
// namespace.
func stepTerminating(s *State) Step {
	return Step{Outcome: s.refused(terminating(s), false)}
}

// terminating says that nothing is placed in a namespace that is being deleted.
func terminating(s *State) *kinds.Rejection {
	message := fmt.Sprintf(
		"namespace %s is being deleted: %s is removed from all members, and nothing is placed there until the namespace is "+
			"created again",
		s.key.Namespace,
		s.key.Sentence(),
	)
	if s.Object.GetDeletionTimestamp() != nil && len(s.Object.GetFinalizers()) > 0 {
		message += "; " + conditions.Waiting(s.Object)
	}
	return &kinds.Rejection{Reason: conditions.ReasonNamespaceTerminating, Message: message}
}

// isTerminating reports whether nothing can be created in a namespace any more.
func isTerminating(namespace *corev1.Namespace) bool {
	return namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating
}

// deletionChanged lets through the begin of a deletion, and what a deleted object waits for.
func deletionChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			began := (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
			return began ||
				e.ObjectNew.GetDeletionTimestamp() != nil && !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
		},
	}
}

// ownersChanged lets through that the garbage collector released an object.
func ownersChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return len(e.ObjectOld.GetOwnerReferences()) != len(e.ObjectNew.GetOwnerReferences())
		},
	}
}
