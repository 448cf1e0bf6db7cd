package workloadspread

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// reconciler keeps what WorkloadSpreads say of existing pods.
type reconciler struct {
	client    client.Client // reads from the cache
	live      client.Reader // reads from the API server
	events    events.EventRecorder
	clock     clock.PassiveClock
	federated func(ctx context.Context, namespace string) (bool, error)
	source    *podset.Source
	writer    *write.Writer
	self      *freshness.Store // writes to WorkloadSpreads
	registry  *registry
	numbers   *numbers
	pace      *pace
}

// Reconcile makes one pass: gather, plan, apply, report.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen, wait, err := r.gather(ctx, request)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reconcile WorkloadSpread %s: %w", request.NamespacedName, err)
	}
	if seen == nil {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	todo := makePlan(seen)
	removed, failed := r.apply(ctx, seen, todo)
	if err := errors.Join(failed, r.report(ctx, seen, todo, removed, failed)); err != nil {
		return reconcile.Result{}, fmt.Errorf("reconcile WorkloadSpread %s: %w", request.NamespacedName, err)
	}
	return reconcile.Result{RequeueAfter: todo.wake}, nil
}
