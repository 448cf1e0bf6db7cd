package placement

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// staleRetry is how soon a reconcile looks again when the cache has not seen the last write and no event woke it.
const staleRetry = time.Second

// Reconciler decides what goes where, one workload at a time. It alone writes WorkloadPlacement.spec.
type Reconciler struct {
	Gatherer
	client   client.Client
	outcomes *Outcomes
	written  *store.Written[wire.Key]
	live     client.Reader
	events   events.EventRecorder
	meter    *meter.Meter    // nil measures nothing
	tracer   *tracing.Tracer // nil traces nothing
}

// NewReconciler returns a reconciler that writes with c and reads c's cache, and reads what that does not hold with
// live. It alone writes to ledger. heard tells since when the hub is in contact with its API server.
func NewReconciler(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock,
	heard func() time.Time, hubID string, outcomes *Outcomes, watching *store.Watching, reservations *capacity.Reservations,
	rules kinds.Table) *Reconciler {
	return &Reconciler{
		Gatherer: Gatherer{reader: c, rules: rules, hubID: hubID, watching: watching, clock: clk, heard: heard,
			reservations: reservations, decisions: newDecisions()},
		client: c, outcomes: outcomes, written: store.NewWritten[wire.Key](clk), live: live, events: recorder,
	}
}

// Reconcile runs gather → plan → apply → report for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, key wire.Key) (ctrl.Result, error) {
	s, err := r.Gather(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.observeRequest(s)
	version := ""
	if s.Placement != nil {
		version = s.Placement.ResourceVersion
	}
	if !r.written.Seen(key, version) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	next, err := r.decide(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.apply(ctx, s, next); err != nil {
		// Somebody wrote in between, or the cache is old: the event of that write brings the next reconcile.
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return ctrl.Result{RequeueAfter: staleRetry}, nil
		}
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return ctrl.Result{}, err
		}
		next = stepTerminating(s) // the cache shows that soon, and the event of a new namespace brings the next reconcile
	}
	r.emitWaveEvent(s, next)
	r.asker.Want(key, next.asks)
	r.recordDecision(s, next)
	r.outcomes.set(ctx, key, next.Outcome)
	if next.Spec != nil && len(next.Spec.Unplaced) > 0 && len(s.reserved) > 0 &&
		(next.again == 0 || next.again > capacity.UnseenFor) {
		next.again = capacity.UnseenFor // a promise may end without an event
	}
	return ctrl.Result{RequeueAfter: next.again}, nil
}

// apply writes the placement when it changed. The cached resourceVersion goes with it, so that two decisions from one
// state never both stand.
func (r *Reconciler) apply(ctx context.Context, s *State, next Step) error {
	cause, err := r.causeFor(ctx, s, next.Spec)
	if err != nil {
		return err
	}
	switch {
	case next.Remove:
		uid := s.Placement.UID
		err := r.client.Delete(ctx, s.Placement, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete placement of %s: %w", s.key.Sentence(), err)
		}
		return nil
	case next.Spec == nil && !s.restored:
		if s.Placement == nil || s.Placement.DeletionTimestamp != nil || wire.Foreign(s.Placement) {
			return nil
		}
		return r.stamp(ctx, s, cause)
	case s.Placement == nil:
		return r.place(ctx, s, next.Spec, cause)
	case next.Spec == nil: // what is frozen is as the hub left it
		next.Spec = &s.Placement.Spec
	case !s.restored && equality.Semantic.DeepEqual(&s.Placement.Spec, next.Spec):
		return r.stamp(ctx, s, cause)
	}
	if err := r.remember(ctx, s, next.Spec); err != nil {
		return err
	}
	placement := s.Placement.DeepCopy()
	placement.Spec = *next.Spec
	withDigest(placement)
	withCause(placement, cause)
	controllerutil.AddFinalizer(placement, topology.PlacementFinalizer)
	renewOwners(placement, blockingOwnerOf(next.Spec, r.rules[s.key.GroupKind()]))
	ctx, end := r.traced(ctx, s.key, next.Spec)
	err = r.client.Update(ctx, placement, store.ManagerPlacement)
	if end(err); err != nil {
		return fmt.Errorf("update placement of %s: %w", s.key.Sentence(), err)
	}
	r.written.Wrote(s.key, placement.ResourceVersion)
	return nil
}
