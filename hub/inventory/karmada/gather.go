package karmada

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// facts are what a member depends on.
type facts struct {
	name string
	// cluster is nil where Karmada has none of the name, or is removing it.
	cluster *karmada.Cluster
	// member is a copy of the cache's, nil for none.
	member *topology.MemberCluster
	// namespace: that of the member's Works is there.
	namespace bool
	// together is how many members became NotReady together with this one, 0 if so few that each is given up by itself.
	together int
}

func (r *Reconciler) gather(ctx context.Context, name string) (*facts, error) {
	f := &facts{name: name}
	u := karmada.Object(karmada.ClusterKind())
	switch err := r.clusters.Get(ctx, client.ObjectKey{Name: name}, u); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("get Cluster %s of Karmada: %w", name, err)
	case u.GetDeletionTimestamp() == nil:
		f.cluster = &karmada.Cluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, f.cluster); err != nil {
			return nil, fmt.Errorf("read Cluster %s of Karmada: %w", name, err)
		}
	}
	member := &topology.MemberCluster{}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, member); {
	case err == nil:
		f.member = member
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get MemberCluster %s: %w", name, err)
	}
	namespace := &corev1.Namespace{}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: wire.MemberNamespace(name)}, namespace); {
	case err == nil:
		f.namespace = namespace.DeletionTimestamp == nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get the namespace of MemberCluster %s: %w", name, err)
	}
	return f, r.countFailed(ctx, f)
}

// countFailed looks at how many members fail with one that is not heard of.
func (r *Reconciler) countFailed(ctx context.Context, f *facts) error {
	if f.member == nil || !meta.IsStatusConditionFalse(f.member.Status.Conditions, topology.MemberReady) {
		return nil
	}
	members := &topology.MemberClusterList{}
	if err := r.client.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	f.together = failover.Together(wire.HealthOf(members.Items))[f.name]
	return nil
}

// gone asks the API server itself whether Karmada has the Cluster: what a cache lost takes no member with it.
func (r *Reconciler) gone(ctx context.Context, name string) (bool, error) {
	u := karmada.Object(karmada.ClusterKind())
	err := r.live.Get(ctx, client.ObjectKey{Name: name}, u)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Cluster %s of Karmada from the API server: %w", name, err)
	}
	return err != nil || u.GetDeletionTimestamp() != nil, nil
}
