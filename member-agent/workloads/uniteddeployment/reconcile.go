package uniteddeployment

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

type reconciler struct {
	client    client.Client // reads from the cache
	live      client.Reader // reads from the API server
	revisions history.Store
	clock     clock.PassiveClock
	cluster   string
	federated func(ctx context.Context, namespace string) (bool, error)
	allowance func(ctx context.Context, ud *kruise.UnitedDeployment) (lent, over bool)
	foreign   func(*kruise.UnitedDeployment) bool
	ledger    *ledger
	events    events.EventRecorder

	namespaces *namespaces.Terminating
}

// Reconcile brings one UnitedDeployment on: gather, plan, apply, report. What it waits for comes as an event of the object, of
// a child or of a pod; with the strategy Adaptive also time is waited for.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen, err := r.gather(ctx, request)
	if err != nil || seen == nil {
		return reconcile.Result{}, err
	}
	if seen.behind {
		return reconcile.Result{RequeueAfter: freshness.RetryAfter}, nil // the event of our own write comes first
	}
	todo, err := r.plan(ctx, seen)
	if cause := r.namespaces.Refused(request.Namespace, seen.ud.UID, err); cause != nil {
		todo, err = leave(seen, cause), nil // of the revision
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{RequeueAfter: todo.wake}
	if todo.turned {
		// Which subset is closed is known from the status alone, so it is written before pods go for it. Its event brings
		// the pass that does the rest.
		return result, r.report(ctx, seen, todo, nil)
	}
	failed := r.apply(ctx, seen.ud, todo)
	if cause := r.namespaces.Refused(request.Namespace, seen.ud.UID, failed); cause != nil {
		todo, failed = leave(seen, cause), nil
		result = reconcile.Result{RequeueAfter: todo.wake}
	}
	if err := r.report(ctx, seen, todo, failed); err != nil {
		return reconcile.Result{}, errors.Join(failed, err)
	}
	if refusedOnly(failed) {
		failed = nil // the status says so; the same request would be refused again
	}
	if err := r.trim(ctx, seen, todo); err != nil {
		return reconcile.Result{}, errors.Join(failed, err)
	}
	if failed != nil {
		return reconcile.Result{}, failed
	}
	return result, nil
}

// plan names the revision of the template, which may have to be written first, and makes the plan.
func (r *reconciler) plan(ctx context.Context, seen *observed) (*plan, error) {
	if seen.leaving != nil {
		return leave(seen, seen.leaving), nil
	}
	why := refuse(seen.ud)
	if why == nil {
		seen.limits, why = readLimits(seen.ud)
	}
	if why == nil {
		seen.before, why = readBefore(seen.ud)
	}
	if why != nil {
		return refusedPlan(seen, why), nil
	}
	if err := r.revise(ctx, seen); err != nil {
		return nil, err
	}
	return makePlan(seen)
}

// refusedOnly tells whether every error is a refusal of the content, which no retry changes.
func refusedOnly(err error) bool {
	if err == nil {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !refusedOnly(e) {
				return false
			}
		}
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusUnprocessableEntity
}
