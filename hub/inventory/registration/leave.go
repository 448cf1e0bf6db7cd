package registration

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// worksOf returns the Works that the hub wrote for a member, and how many of others there are in its namespace: other
// systems name their namespaces so, too.
func worksOf(ctx context.Context, c client.Reader, name string) (own []work.Work, others int, err error) {
	list := &work.WorkList{}
	if err := c.List(ctx, list, client.InNamespace(wire.MemberNamespace(name))); err != nil {
		return nil, 0, fmt.Errorf("list Works of member %s: %w", name, err)
	}
	for i := range list.Items {
		if _, ok := list.Items[i].Annotations[topology.AnnotationHubID]; ok {
			own = append(own, list.Items[i])
		} else {
			others++
		}
	}
	return own, others, nil
}

// Orders returns how many Works the hub has for a member, and which workloads have replicas there, as "<Kind>
// <namespace>/<name>", sorted.
func Orders(ctx context.Context, c client.Reader, name string) (works int, workloads []string, err error) {
	own, _, err := worksOf(ctx, c, name)
	if err != nil {
		return 0, nil, err
	}
	placed := &topology.WorkloadPlacementList{}
	if err := c.List(ctx, placed); err != nil {
		return 0, nil, fmt.Errorf("list WorkloadPlacements: %w", err)
	}
	for i := range placed.Items {
		for _, cell := range placed.Items[i].Spec.Cells {
			if cell.Cluster == name && cell.Replicas > 0 {
				workloads = append(workloads, wire.KeyOfPlacement(&placed.Items[i]).Sentence())
				break
			}
		}
	}
	slices.Sort(workloads)
	return len(own), workloads, nil
}

// Dismiss lets a member take part no longer: its workloads go to the others, as far as they can take them. It keeps its
// rights, so that its agent can carry that out.
func Dismiss(ctx context.Context, c client.Client, name string) error {
	member := &topology.MemberCluster{}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, member); client.IgnoreNotFound(err) != nil || err != nil {
		return client.IgnoreNotFound(err)
	}
	if !member.Spec.Accepted {
		return nil
	}
	base := member.DeepCopy()
	member.Spec.Accepted = false
	if err := c.Patch(ctx, member, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("dismiss MemberCluster %s: %w", name, err)
	}
	return nil
}

// Revoke ends the membership: the MemberCluster and every right of its agent go. What runs in the member is not
// touched. It is done when it returns, and can be called again.
func Revoke(ctx context.Context, c client.Client, name string) error {
	// The MemberCluster first: the approver gives no rights to one that is not there.
	member := &topology.MemberCluster{}
	member.Name = name
	if err := c.Delete(ctx, member); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MemberCluster %s: %w", name, err)
	}
	r := &Reconciler{client: c}
	have, err := r.rightsOf(ctx, name)
	if err != nil {
		return err
	}
	next := &certificatesv1.CertificateSigningRequest{}
	next.Name = topology.MemberObject(name)
	// Without its ServiceAccount the tokens of a member are void; its certificate is good for nothing without the rights.
	holder := &corev1.ServiceAccount{}
	holder.Namespace, holder.Name = topology.MembersNamespace, topology.MemberObject(name)
	for _, object := range append(append([]client.Object{holder}, have...), append(joinThings(name), next)...) {
		if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// Preserve lets everything that a member has orders for stay there when the orders go: its agent may see them go before
// its rights do.
func Preserve(ctx context.Context, c client.Client, name string) error {
	own, _, err := worksOf(ctx, c, name)
	if err != nil {
		return err
	}
	for i := range own {
		w := &own[i]
		base := w.DeepCopy()
		w.Spec.PreserveResourcesOnDeletion = new(true)
		if err := c.Patch(ctx, w, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("let what Work %s/%s made stay: %w", w.Namespace, w.Name, err)
		}
	}
	return nil
}

// Forget removes what is left of a member that was revoked: its Lease, its orders, and its namespace unless there are
// Works of others in it. No agent carries out anything of them any more, so nobody else takes away the finalizers. It
// returns how many Works were left.
func Forget(ctx context.Context, c client.Client, name string) (int, error) {
	// The Lease first: whoever joins under this name is to be heard of by a Lease of its own.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace(name), Name: name}}
	if err := c.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("delete Lease %s/%s: %w", lease.Namespace, name, err)
	}
	own, others, err := worksOf(ctx, c, name)
	if err != nil {
		return 0, err
	}
	for i := range own {
		w := &own[i]
		base := w.DeepCopy()
		w.Finalizers = nil
		w.Spec.PreserveResourcesOnDeletion = new(true) // should an agent still see it
		if err := c.Patch(ctx, w, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
			return len(own), fmt.Errorf("let Work %s/%s go: %w", w.Namespace, w.Name, err)
		}
		if err := c.Delete(ctx, w); client.IgnoreNotFound(err) != nil {
			return len(own), fmt.Errorf("delete Work %s/%s: %w", w.Namespace, w.Name, err)
		}
	}
	if others > 0 {
		return len(own), nil
	}
	if err := c.Delete(ctx, memberNamespaceOf(name)); client.IgnoreNotFound(err) != nil {
		return len(own), fmt.Errorf("delete namespace %s: %w", wire.MemberNamespace(name), err)
	}
	return len(own), nil
}
