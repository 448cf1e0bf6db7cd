package placement

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
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
	gatherer
	client   client.Client
	verdicts *Verdicts
	written  *store.Written[wire.Key]
	live     client.Reader
	events   events.EventRecorder
	meter    *meter.Meter    // nil measures nothing
	tracer   *tracing.Tracer // nil traces nothing
}

// NewReconciler returns a reconciler that writes with c and reads c's cache, and reads what that does not hold with live. It alone
// writes to ledger. heard tells since when the hub is in contact with its API server.
func NewReconciler(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, heard func() time.Time, hubID string, verdicts *Verdicts, watching *Watching, ledger *Ledger, rules kinds.Table) *Reconciler {
	return &Reconciler{
		gatherer: gatherer{reader: c, rules: rules, hubID: hubID, watching: watching, clock: clk, heard: heard, ledger: ledger, decisions: newDecisions()},
		client:   c, verdicts: verdicts, written: store.NewWritten[wire.Key](clk), live: live, events: recorder,
	}
}

// Reconcile runs gather → plan → apply → report for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, key wire.Key) (ctrl.Result, error) {
	s, err := r.gather(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.asked(s)
	version := ""
	if s.placement != nil {
		version = s.placement.ResourceVersion
	}
	if !r.written.Seen(key, version) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	step, err := r.decide(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.apply(ctx, s, step); err != nil {
		// Somebody wrote in between, or the cache is old: the event of that write brings the next reconcile.
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return ctrl.Result{RequeueAfter: staleRetry}, nil
		}
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return ctrl.Result{}, err
		}
		step = stepTerminating(s) // the cache shows that soon, and the event of a new namespace brings the next reconcile
	}
	r.tell(s, step)
	r.asker.Want(key, step.asks)
	r.counted(s, step)
	r.verdicts.set(ctx, key, step.verdict)
	again := step.again
	if step.spec != nil && len(step.spec.Unplaced) > 0 && len(s.promised) > 0 && (again == 0 || again > unseenFor) {
		again = unseenFor // a promise may end without an event
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// apply writes the placement when it changed. The cached resourceVersion goes with it, so that two decisions from one
// state never both stand.
func (r *Reconciler) apply(ctx context.Context, s *state, step step) error {
	switch {
	case step.remove:
		uid := s.placement.UID
		err := r.client.Delete(ctx, s.placement, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete placement of %s: %w", s.key.Sentence(), err)
		}
		return nil
	case step.spec == nil && !s.restored:
		return nil
	case s.placement == nil:
		placement := &topology.WorkloadPlacement{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.name.Namespace, Name: s.name.Name,
				OwnerReferences: []metav1.OwnerReference{blockingOwnerOf(step.spec, r.rules[s.key.GroupKind()])},
				Finalizers:      []string{topology.PlacementFinalizer},
			},
			Spec: *step.spec,
		}
		withDigest(placement)
		ctx, end := r.traced(ctx, s.key, step.spec)
		err := r.client.Create(ctx, placement, store.ManagerPlacement)
		if end(err); err != nil {
			return fmt.Errorf("create placement of %s: %w", s.key.Sentence(), err)
		}
		r.written.Wrote(s.key, placement.ResourceVersion)
		return nil
	case step.spec == nil:
		step.spec = &s.placement.Spec // what is frozen is as the hub left it
	case !s.restored && equality.Semantic.DeepEqual(&s.placement.Spec, step.spec):
		return r.sign(ctx, s)
	}
	if err := r.remember(ctx, s, step.spec); err != nil {
		return err
	}
	placement := s.placement.DeepCopy()
	placement.Spec = *step.spec
	withDigest(placement)
	controllerutil.AddFinalizer(placement, topology.PlacementFinalizer)
	for i := range placement.OwnerReferences { // of a placement that an older hub made
		if o := &placement.OwnerReferences[i]; o.UID == step.spec.Workload.UID {
			o.BlockOwnerDeletion = blockingOwnerOf(step.spec, r.rules[s.key.GroupKind()]).BlockOwnerDeletion
		}
	}
	ctx, end := r.traced(ctx, s.key, step.spec)
	err := r.client.Update(ctx, placement, store.ManagerPlacement)
	if end(err); err != nil {
		return fmt.Errorf("update placement of %s: %w", s.key.Sentence(), err)
	}
	r.written.Wrote(s.key, placement.ResourceVersion)
	return nil
}
