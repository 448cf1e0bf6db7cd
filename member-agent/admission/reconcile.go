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

// writeInterval is the least time between two writes: API servers compile the conditions anew after each, and a hundred
// new objects are one change.
const writeInterval = time.Second

// reconciler keeps the configuration.
type reconciler struct {
	client   client.Client
	server   Server // nil: nobody serves
	mutators []Mutator
	clock    clock.PassiveClock
	written  time.Time
	// timeout is how long the API server waits for an answer.
	timeout time.Duration
}

// Reconcile makes the configuration say which pods the API server sends. Where no pod is selected there is no
// configuration.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	scopes, err := r.scopes(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	existing := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err = r.client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, existing)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("read MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	present := err == nil
	if len(scopes) == 0 {
		return reconcile.Result{}, r.remove(ctx, existing, present)
	}
	config, err := r.server.ClientConfig(Path)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("pods start unchanged until the webhook server has a certificate", "why", err.Error())
		return reconcile.Result{}, nil // OnChange follows
	}
	p := planOf(scopes)
	webhooks := webhooksOf(p.entries, config, r.timeout)
	keepAdditions(webhooks, existing)
	if present && equality.Semantic.DeepEqual(existing.Webhooks, webhooks) {
		return reconcile.Result{}, nil
	}
	if wait := writeInterval - r.clock.Since(r.written); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.write(ctx, existing, present, webhooks); err != nil {
		return reconcile.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("wrote which pods the API server sends",
		"scopes", len(scopes), "webhooks", len(webhooks), "widened", p.widened, "notEnforced", p.notEnforced)
	return reconcile.Result{}, nil
}

// scopes returns what the mutators are asked about.
func (r *reconciler) scopes(ctx context.Context) ([]Scope, error) {
	if r.server == nil {
		return nil, nil
	}
	var all []Scope
	for _, mutator := range r.mutators {
		scopes, err := mutator.Scope(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the pods of %s: %w", mutator.Name, err)
		}
		all = append(all, scopes...)
	}
	return all, nil
}

// write creates or updates the configuration.
func (r *reconciler) write(
	ctx context.Context, existing *admissionregistrationv1.MutatingWebhookConfiguration, present bool,
	webhooks []admissionregistrationv1.MutatingWebhook,
) error {
	want := existing.DeepCopy()
	want.Webhooks = webhooks
	verb, do := "update", func() error { return r.client.Update(ctx, want) }
	if !present {
		want.ObjectMeta = metav1.ObjectMeta{Name: ConfigurationName}
		verb, do = "create", func() error { return r.client.Create(ctx, want) }
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s MutatingWebhookConfiguration %s: %w", verb, ConfigurationName, err)
	}
	r.written = r.clock.Now()
	return nil
}

// remove deletes the configuration, so that the API server sends no pod.
func (r *reconciler) remove(
	ctx context.Context, existing *admissionregistrationv1.MutatingWebhookConfiguration, present bool,
) error {
	if !present {
		return nil
	}
	err := r.client.Delete(
		ctx,
		existing,
		client.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion},
	)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}
