package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// propagationOf is how the object of a Work is deleted.
func propagationOf(w *work.Work) client.PropagationPolicy {
	if w.Annotations[topology.AnnotationPropagation] == string(metav1.DeletePropagationForeground) {
		return client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}

// lingers reports whether an object of this hub is being deleted and still exists.
func lingers(facts Facts) bool {
	return !facts.Suspended && facts.Live != nil && Owner(facts.Live) == facts.Order.HubID && facts.Live.GetDeletionTimestamp() != nil
}

// deletingMessage says of an object that is being deleted and still exists what it waits for, and what comes after.
func deletingMessage(facts Facts) string {
	message := fmt.Sprintf("%s in the member: %s", facts.Order.Ref, conditions.Waiting(facts.Live))
	if !facts.Deleting {
		message += "; the hub did not order that: the object is created again when it is gone"
	}
	return message
}

// terminating reports whether the cache shows that a namespace is being deleted. Where it cannot tell, the API server will.
func (r *Reconciler) terminating(ctx context.Context, name string) bool {
	if name == "" {
		return false
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return r.member.Get(ctx, client.ObjectKey{Name: name}, namespace) == nil && namespace.DeletionTimestamp != nil
}

// awaitNamespace says that the namespace of an order is being deleted in the member, and when to look again. Nothing is
// tried before: the namespace is created again when it is gone.
func (r *Reconciler) awaitNamespace(w *work.Work, m *memo) ctrl.Result {
	m.Refused, m.RetryAt = m.order.Hash, r.Clock.Now().Add(namespaces.LookAgain)
	if w.DeletionTimestamp.IsZero() {
		r.outcome(w, m, false, work.ReasonNamespaceTerminating, fmt.Sprintf(
			"%s waits: namespace %s is being deleted in the member, and nothing can be created there; the agent creates both when it is gone",
			m.order.Ref, m.order.Ref.Namespace))
	}
	return ctrl.Result{RequeueAfter: namespaces.LookAgain}
}
