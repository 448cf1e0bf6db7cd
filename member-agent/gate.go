package memberagent

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/link"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gate tells the workload controllers what a hub decides: this cluster, if it is a hub, and the hub of this member.
type gate struct {
	client client.Client // reads from the manager's cache
	kinds  []Kind
	// hub and generations are nil without a hub.
	hub         *link.Link
	generations *apply.Generations
}

var _ workload.Gate = &gate{}

// Federated reports whether the object is divided by this cluster, which is its hub: by the label of its namespace, and
// of a cluster-scoped object by its own.
func (g *gate) Federated(ctx context.Context, object client.Object) (bool, error) {
	if object.GetNamespace() == "" {
		return object.GetLabels()[topology.LabelFederated] == "true", nil
	}
	return g.federated(ctx, object.GetNamespace())
}

// federated reads the manager's cache of namespaces, metadata only.
func (g *gate) federated(ctx context.Context, namespace string) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := g.client.Get(ctx, types.NamespacedName{Name: namespace}, object); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	return object.Labels[topology.LabelFederated] == "true", nil
}

// Budget returns what the hub grants an object that it ordered. An object that such an object made has the budget of
// its controller, as far as that has passed it on. The amounts of an object that was orphaned hold until a person
// removes them.
func (g *gate) Budget(ctx context.Context, object client.Object) (workload.Budget, error) {
	budget, err := g.lease(ctx, object)
	if err != nil {
		return workload.Budget{}, err
	}
	if budget.Amounts, err = workload.AmountsOf(object); err != nil {
		// Nothing is disrupted until the agent has corrected what another writer changed.
		budget.Granted, budget.Expired = true, true
	}
	return budget, nil
}

// lease returns whether limits are granted to the object, and whether that has expired.
func (g *gate) lease(ctx context.Context, object client.Object) (workload.Budget, error) {
	if g.hub == nil {
		return workload.Budget{}, nil
	}
	if object.GetLabels()[topology.LabelHub] != "" {
		gvk, err := g.client.GroupVersionKindFor(object)
		if err != nil {
			return workload.Budget{}, err
		}
		key, sequence := client.ObjectKeyFromObject(object), workload.Sequence(object)
		budget := g.budget(gvk, key, sequence)
		budget.UnconfirmedSince = g.hub.UnconfirmedSince(gvk.GroupKind(), key, sequence)
		return budget, nil
	}
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return workload.Budget{}, nil
	}
	i := slices.IndexFunc(g.kinds, func(k Kind) bool {
		return k.PassedOn != nil && workload.IsKind(ref, k.GVK.GroupKind())
	})
	if i < 0 {
		return workload.Budget{}, nil
	}
	parent, key := g.kinds[i].New(), types.NamespacedName{Namespace: object.GetNamespace(), Name: ref.Name}
	// The garbage collector is about to delete the object of a controller that is gone.
	if err := g.client.Get(ctx, key, parent, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return workload.Budget{}, nil
	} else if err != nil {
		return workload.Budget{}, fmt.Errorf("read %s %s, the controller of %s: %w", ref.Kind, key, object.GetName(), err)
	}
	if parent.GetUID() != ref.UID || parent.GetLabels()[topology.LabelHub] == "" {
		return workload.Budget{}, nil
	}
	return g.budget(g.kinds[i].GVK, key, g.kinds[i].PassedOn(parent, object)), nil
}

// budget returns the budget of an object that carries out the order with this sequence.
func (g *gate) budget(gvk schema.GroupVersionKind, key types.NamespacedName, sequence int64) workload.Budget {
	return workload.Budget{Granted: true, Expired: !g.hub.MayDisrupt(gvk.GroupKind(), key, sequence)}
}

// Foreign reports whether a hub ordered the object, and not the content that it has now.
func (g *gate) Foreign(object client.Object) bool {
	if g.generations == nil || object.GetLabels()[topology.LabelHub] == "" {
		return false
	}
	gvk, err := g.client.GroupVersionKindFor(object)
	return err == nil && g.generations.Foreign(gvk, object)
}

// Ordered wakes a controller when objects of the kind are as ordered again; nil without a hub.
func (g *gate) Ordered(kind schema.GroupVersionKind) source.Source {
	if g.generations == nil {
		return nil
	}
	return g.generations.Source(kind)
}
