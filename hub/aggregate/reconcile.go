package aggregate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// Reconciler sums reports onto the user's object, one workload at a time.
type Reconciler struct {
	client   client.Client
	clock    clock.PassiveClock
	rules    kinds.Table
	hubID    string
	outcomes *placement.Outcomes
	pace     *pace
	written  *store.Written[wire.Key]
	meter    *meter.Meter    // nil measures nothing
	tracer   *tracing.Tracer // nil traces nothing
}

// NewReconciler returns a reconciler that writes with c and reads c's cache.
func NewReconciler(
	c client.Client,
	rules kinds.Table,
	clk clock.PassiveClock,
	hubID string,
	outcomes *placement.Outcomes,
) *Reconciler {
	return &Reconciler{
		client: c, clock: clk, rules: rules, hubID: hubID, outcomes: outcomes,
		pace: newPace(clk), written: store.NewWritten[wire.Key](clk),
	}
}

// Reconcile runs gather → plan → report for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, key wire.Key) (ctrl.Result, error) {
	rule, ok := r.rules[key.GroupKind()]
	if !ok {
		return ctrl.Result{}, nil
	}
	// Without an outcome the workload is not the hub's, or was not decided since the hub started. The outcome is an event.
	outcome, ok := r.outcomes.Get(key)
	if !ok {
		r.pace.forget(key)
		return ctrl.Result{}, nil
	}
	object := rule.New()
	if err := r.client.Get(ctx, key.Workload(), object); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read %s: %w", key.Sentence(), err)
	}
	if object.GetDeletionTimestamp() != nil && !ofDeletion(&outcome) {
		return ctrl.Result{}, nil // the outcome on the deletion is an event
	}
	facts, err := r.gather(ctx, rule, key, object, outcome)
	if err != nil {
		return ctrl.Result{}, err
	}
	sum := Summarise(facts)
	if err := r.reportPlacement(ctx, facts, stalledOf(rule, facts, &sum)); err != nil || rule.Mode == kinds.Copy {
		return ctrl.Result{}, err
	}
	return r.report(ctx, object, facts, &sum, r.measure(facts, &sum))
}

// report writes the user's status when it changed, not faster than the pace. What is written for a change that is
// under way is a part of its trace.
func (r *Reconciler) report(
	ctx context.Context,
	object client.Object,
	f *Facts,
	s *Sum,
	p progress,
) (ctrl.Result, error) {
	if !r.written.Seen(f.Key, object.GetResourceVersion()) {
		return ctrl.Result{RequeueAfter: interval}, nil
	}
	base := object.DeepCopyObject().(client.Object)
	if !f.Kind.Status(object, statusSum(f, s), r.clock.Now()) {
		r.completeTrace(ctx, f, p)
		return ctrl.Result{}, nil
	}
	var order int64
	if f.Placement != nil {
		order = f.Placement.Spec.Sequence
	}
	if wait := r.pace.wait(f.Key, order, s.Done()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	traced, end := r.traced(ctx, f, p)
	err := r.client.Status().Patch(traced, object, withCounters{client.MergeFrom(base)}, store.ManagerAggregate)
	end(client.IgnoreNotFound(err))
	if err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("write status of %s: %w", f.Key.Sentence(), err)
	}
	r.written.Wrote(f.Key, object.GetResourceVersion())
	r.pace.written(f.Key, s.Done())
	r.completeTrace(ctx, f, p)
	return ctrl.Result{}, nil
}

// reportPlacement writes the placement's condition Stalled while there is one.
func (r *Reconciler) reportPlacement(ctx context.Context, f *Facts, stalled *conditions.Cause) error {
	if f.Placement == nil || f.Placement.DeletionTimestamp != nil {
		return nil
	}
	p := f.Placement.DeepCopy()
	if stalled != nil {
		// The time alone is set by the writer; a condition that says the same keeps its own.
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
			Type: apps.ConditionStalled, Status: metav1.ConditionTrue, Reason: stalled.Reason, Message: stalled.Message,
			LastTransitionTime: metav1.NewTime(r.clock.Now()),
		})
	} else {
		meta.RemoveStatusCondition(&p.Status.Conditions, apps.ConditionStalled)
	}
	if equality.Semantic.DeepEqual(p.Status.Conditions, f.Placement.Status.Conditions) {
		return nil
	}
	p.Status.ObservedGeneration = p.Generation
	if err := r.client.Status().Patch(ctx, p, client.MergeFrom(f.Placement),
		store.ManagerAggregate); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of the placement of %s: %w", f.Key.Sentence(), err)
	}
	return nil
}
