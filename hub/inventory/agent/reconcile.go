package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/contact"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Reconciler keeps the inventory, one member at a time. It alone writes MemberCluster.spec.clusterID,
// spec.acknowledgedSession and conditions.
type Reconciler struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
	hubID  string
	// heard tells since when the hub is in contact with its API server; nil where that was always so.
	heard func() time.Time

	mu     sync.Mutex
	leases map[string]leaseSeen
	asked  map[string]asked

	nonsense *nonsense
	// meter is told of renewals; nil measures nothing.
	meter *meter.Meter
	// news is told of them too: decisions depend on it. nil remembers nothing.
	news *contact.News
}

// NewReconciler returns a reconciler that writes with c and reads c's cache; live reads past it, table reads reports.
// clk must be monotonic. heard returns since when the hub is in contact with its API server; nil if it always was.
func NewReconciler(c client.Client, live client.Reader, table kinds.Table, clk clock.PassiveClock,
	heard func() time.Time,
	hubID string) *Reconciler {
	return &Reconciler{client: c, live: live, clock: clk, heard: heard, hubID: hubID, leases: map[string]leaseSeen{},
		asked: map[string]asked{}, nonsense: newNonsense(table)}
}

// Reconcile gathers what is known of a member, and writes its namespace, the pinned id and the conditions where they
// changed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	member := &topology.MemberCluster{}
	if err := r.client.Get(ctx, req.NamespacedName, member); err != nil {
		r.forget(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if member.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	f, err := r.gather(ctx, member)
	if err != nil {
		return ctrl.Result{}, err
	}
	wasSilent := silent(member)
	pin, conditions := plan(f)
	if err := r.apply(ctx, member, pin, conditions); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.report(ctx, member, conditions); err != nil {
		return ctrl.Result{}, err
	}
	if wasSilent && unanswered(member) {
		// A member disrupts again once its session is answered: not before all that reads this cache knows that it is back.
		if silent(member) {
			return ctrl.Result{RequeueAfter: next(f)}, nil // until the Lease is renewed, too
		}
		return ctrl.Result{RequeueAfter: reportsAgain}, nil
	}
	wait, err := r.acknowledge(ctx, member)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait == 0 {
		wait = next(f)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// apply makes the member's namespace as soon as a person accepted it, so that its agent finds a place for its Lease,
// and pins its id once that is known. The agent reads the hub's id there.
func (r *Reconciler) apply(ctx context.Context, member *topology.MemberCluster, pin string,
	conditions []metav1.Condition) error {
	accepted := meta.FindStatusCondition(conditions, topology.MemberAccepted)
	if accepted.Status != metav1.ConditionTrue && accepted.Reason != topology.ReasonNeverConnected {
		return nil
	}
	name := wire.MemberNamespace(member.Name)
	err := r.client.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err = r.client.Create(ctx, namespace, store.ManagerInventory); apierrors.IsAlreadyExists(err) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("ensure namespace %s of MemberCluster %s: %w", name, member.Name, err)
	}
	if pin == "" && member.Annotations[topology.AnnotationHubID] == r.hubID {
		return nil
	}
	base := member.DeepCopy()
	if pin != "" {
		member.Spec.ClusterID = pin
	}
	// The agent has no other way to know which objects carry this hub's label.
	metav1.SetMetaDataAnnotation(&member.ObjectMeta, topology.AnnotationHubID, r.hubID)
	// With the resourceVersion: the pin is for the agent that was looked at.
	if err := r.client.Patch(ctx, member, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		store.ManagerInventory); err != nil {
		return fmt.Errorf("write the ids of the cluster and the hub on MemberCluster %s: %w", member.Name, err)
	}
	return nil
}
