package profiles

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// Reconciler publishes one member at a time.
type Reconciler struct {
	client    client.Client
	profiles  client.Reader
	clock     clock.PassiveClock
	namespace string
}

// Setup adds the controller to the manager, which publishes members in a namespace. The manager's cache holds the
// profiles of that namespace alone.
func Setup(mgr ctrl.Manager, clk clock.PassiveClock, namespace string) error {
	r := &Reconciler{client: mgr.GetClient(), profiles: mgr.GetCache(), clock: clk, namespace: namespace}
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	})
	if err := ctrl.NewControllerManagedBy(mgr).Named("clusterprofiles").
		Watches(&topology.MemberCluster{}, byName).
		Watches(Object(), byName).
		Complete(r); err != nil {
		return fmt.Errorf("set up controller clusterprofiles: %w", err)
	}
	return nil
}

// Object returns an empty profile, for caches and clients.
func Object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(Kind())
	return u
}

// Reconcile makes, corrects or deletes the profile of a member.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	have := Object()
	switch err := r.profiles.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: req.Name}, have); {
	case apierrors.IsNotFound(err):
		have = nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get ClusterProfile %s/%s: %w", r.namespace, req.Name, err)
	case have.GetLabels()[LabelManager] != Manager || have.GetDeletionTimestamp() != nil:
		return ctrl.Result{}, nil // another manager's, or on its way out
	}
	member := &topology.MemberCluster{}
	err := r.client.Get(ctx, client.ObjectKey{Name: req.Name}, member)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get MemberCluster %s: %w", req.Name, err)
	}
	published := err == nil && member.DeletionTimestamp == nil && member.Spec.Accepted
	switch {
	case !published && have == nil:
		return ctrl.Result{}, nil
	case !published:
		return ctrl.Result{}, r.remove(ctx, have)
	case have == nil:
		return ctrl.Result{}, r.create(ctx, member)
	}
	return ctrl.Result{}, r.report(ctx, member, have)
}

func (r *Reconciler) remove(ctx context.Context, have *unstructured.Unstructured) error {
	uid := have.GetUID()
	if err := r.client.Delete(ctx, have, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ClusterProfile %s/%s: %w", r.namespace, have.GetName(), err)
	}
	return nil
}

// create makes the profile; its event brings the status.
func (r *Reconciler) create(ctx context.Context, member *topology.MemberCluster) error {
	profile := Object()
	profile.SetNamespace(r.namespace)
	profile.SetName(member.Name)
	profile.SetLabels(map[string]string{LabelManager: Manager, topology.LabelMember: member.Name})
	profile.Object["spec"] = map[string]any{"displayName": member.Name, "clusterManager": map[string]any{"name": Manager}}
	if err := r.client.Create(ctx, profile, store.ManagerInventory); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterProfile %s/%s: %w", r.namespace, member.Name, err)
	}
	return nil
}

// report writes of the status what differs.
func (r *Reconciler) report(
	ctx context.Context,
	member *topology.MemberCluster,
	have *unstructured.Unstructured,
) error {
	profile := Profile{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, &profile); err != nil {
		return fmt.Errorf("read ClusterProfile %s/%s: %w", r.namespace, member.Name, err)
	}
	want, err := statusOf(member, profile.Status, r.clock.Now())
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(profile.Status, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": want})
	if err != nil {
		return fmt.Errorf("encode the status of ClusterProfile %s/%s: %w", r.namespace, member.Name, err)
	}
	if err := r.client.Status().Patch(ctx, have, client.RawPatch(types.MergePatchType, patch),
		store.ManagerInventory); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of ClusterProfile %s/%s: %w", r.namespace, member.Name, err)
	}
	return nil
}
