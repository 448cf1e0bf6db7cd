package karmada

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// Reconciler mirrors one Cluster of Karmada at a time. It alone writes MemberClusters, but for what is a person's in
// their spec.
type Reconciler struct {
	client   client.Client
	clusters client.Reader
	live     client.Reader
	clock    clock.PassiveClock
	hubID    string
}

// NewReconciler returns a reconciler that writes with c and reads c's cache. clusters is a cache of Karmada's Clusters;
// live reads past both, before a member is deleted.
func NewReconciler(c client.Client, clusters, live client.Reader, clk clock.PassiveClock, hubID string) *Reconciler {
	return &Reconciler{client: c, clusters: clusters, live: live, clock: clk, hubID: hubID}
}

// Reconcile gathers what Karmada says of a cluster, and writes its MemberCluster where that differs.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case f.cluster == nil:
		return ctrl.Result{}, r.remove(ctx, f)
	case f.member == nil:
		return ctrl.Result{}, r.create(ctx, f)
	case f.member.DeletionTimestamp != nil:
		return ctrl.Result{}, nil // its end is an event, and makes it anew
	}
	if err := r.apply(ctx, f); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, f)
}

// remove deletes the member of a Cluster that is gone or going. A member that somebody made by hand stays, and is told
// that it has none.
func (r *Reconciler) remove(ctx context.Context, f *facts) error {
	switch {
	case f.member == nil || f.member.DeletionTimestamp != nil:
		return nil
	case f.member.Labels[topology.LabelInventory] != topology.InventoryKarmada:
		return r.report(ctx, f)
	}
	if gone, err := r.gone(ctx, f.name); err != nil || !gone {
		return err
	}
	uid := f.member.UID
	if err := r.client.Delete(ctx, f.member, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MemberCluster %s, whose Cluster is gone from Karmada: %w", f.name, err)
	}
	return nil
}

func (r *Reconciler) create(ctx context.Context, f *facts) error {
	member := &topology.MemberCluster{}
	member.Name = f.name
	member.Spec.Accepted = true // a person accepted it when it joined Karmada
	mirror(f.cluster, member)
	if err := r.client.Create(ctx, member, store.ManagerInventory); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create MemberCluster %s for the Cluster of Karmada: %w", f.name, err)
	}
	return nil // its event brings the status
}

// apply writes labels and spec where they differ.
func (r *Reconciler) apply(ctx context.Context, f *facts) error {
	base := f.member.DeepCopy()
	mirror(f.cluster, f.member)
	if equality.Semantic.DeepEqual(base.Labels, f.member.Labels) && equality.Semantic.DeepEqual(base.Spec, f.member.Spec) {
		return nil
	}
	// With the resourceVersion: a taint that a person sets meanwhile stays.
	if err := r.client.Patch(ctx, f.member, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		store.ManagerInventory); err != nil {
		return fmt.Errorf("patch MemberCluster %s: %w", f.name, err)
	}
	return nil
}

// report writes the status where it says something else.
func (r *Reconciler) report(ctx context.Context, f *facts) error {
	base := f.member.DeepCopy()
	if f.cluster != nil {
		observe(f.cluster, &f.member.Status)
	}
	f.judge(r.hubID, r.clock.Now())
	if equality.Semantic.DeepEqual(base.Status, f.member.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, f.member, client.MergeFrom(base),
		store.ManagerInventory); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of MemberCluster %s: %w", f.name, err)
	}
	return nil
}
