package admission

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// guardReconciler keeps the ValidatingWebhookConfiguration of guards.
type guardReconciler struct {
	client  client.Client
	server  Server // nil: nobody serves
	guards  []Guard
	clock   clock.PassiveClock
	written time.Time
}

// Reconcile makes the configuration say which requests the API server sends. Where there are none there is no
// configuration.
func (r *guardReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	scopes, err := r.scopes(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err = r.client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, have)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	present := err == nil
	if len(scopes) == 0 {
		if present {
			return reconcile.Result{}, r.remove(ctx, have)
		}
		return reconcile.Result{}, nil
	}
	config, err := r.server.ClientConfig(GuardPath)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("pods are not guarded until the webhook server has a certificate", "why", err.Error())
		return reconcile.Result{}, nil // OnChange follows
	}
	want := have.DeepCopy()
	want.Webhooks = guardsOf(planOf(scopes).entries, config, have.Webhooks)
	if present && equality.Semantic.DeepEqual(have.Webhooks, want.Webhooks) {
		return reconcile.Result{}, nil
	}
	if wait := writeInterval - r.clock.Since(r.written); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	return reconcile.Result{}, r.write(ctx, want, present)
}

// scopes returns what the guards are asked about.
func (r *guardReconciler) scopes(ctx context.Context) ([]Scope, error) {
	if r.server == nil {
		return nil, nil
	}
	var all []Scope
	for _, guard := range r.guards {
		scopes, err := guard.Scope(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the pods of %s: %w", guard.Name, err)
		}
		all = append(all, scopes...)
	}
	return all, nil
}

// write creates or updates the configuration.
func (r *guardReconciler) write(
	ctx context.Context, want *admissionregistrationv1.ValidatingWebhookConfiguration, present bool,
) error {
	verb, do := "update", func() error { return r.client.Update(ctx, want) }
	if !present {
		want.ObjectMeta = metav1.ObjectMeta{Name: ConfigurationName}
		verb, do = "create", func() error { return r.client.Create(ctx, want) }
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s ValidatingWebhookConfiguration %s: %w", verb, ConfigurationName, err)
	}
	r.written = r.clock.Now()
	return nil
}

// remove deletes the configuration, so that the API server sends no request.
func (r *guardReconciler) remove(
	ctx context.Context, have *admissionregistrationv1.ValidatingWebhookConfiguration,
) error {
	err := r.client.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}
