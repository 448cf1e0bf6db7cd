package admission

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// pace is the least time between two writes: API servers compile the expression anew after each, and a hundred new
// WorkloadSpreads are one change.
const pace = time.Second

// reconciler keeps the configuration.
type reconciler struct {
	client    client.Client
	server    Server
	federated func(ctx context.Context, namespace string) (bool, error)
	clock     clock.PassiveClock
	written   time.Time
	// timeout is how long the API server waits for an answer.
	timeout time.Duration
}

// Reconcile makes the configuration say which pods the API server asks about. Without targets there is no configuration.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	targets, err := r.targets(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	have := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err = r.client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, have)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("read MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	present := err == nil
	if len(targets) == 0 {
		return reconcile.Result{}, r.remove(ctx, have, present)
	}
	config, err := r.server.ClientConfig(Path)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("pods start unspread until the webhook server has a certificate", "why", err.Error())
		return reconcile.Result{}, nil // it rings when it has one
	}
	webhook, named, left := desired(targets, config, r.timeout)
	narrow(&webhook, have)
	if present && says(have, &webhook) {
		return reconcile.Result{}, nil
	}
	if wait := pace - r.clock.Since(r.written); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.write(ctx, have, present, webhook); err != nil {
		return reconcile.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("the API server asks about pods of these workloads", "workloads", len(targets), "byName", named, "leftOut", left)
	return reconcile.Result{}, nil
}

// targets returns the workloads whose pods are spread at admission.
func (r *reconciler) targets(ctx context.Context) ([]target, error) {
	if r.server == nil {
		return nil, nil // nobody serves
	}
	var list v1beta1.WorkloadSpreadList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	federated := map[string]bool{}
	var out []target
	for i := range list.Items {
		t, ok := targetOf(&list.Items[i])
		if !ok || list.Items[i].DeletionTimestamp != nil {
			continue
		}
		hubs, asked := federated[t.Namespace]
		if !asked && r.federated != nil {
			var err error
			if hubs, err = r.federated(ctx, t.Namespace); err != nil {
				return nil, fmt.Errorf("ask whether namespace %s is federated: %w", t.Namespace, err)
			}
			federated[t.Namespace] = hubs
		}
		if !hubs {
			out = append(out, t)
		}
	}
	return out, nil
}

// write creates or changes the configuration.
func (r *reconciler) write(
	ctx context.Context, have *admissionregistrationv1.MutatingWebhookConfiguration, present bool, webhook admissionregistrationv1.MutatingWebhook,
) error {
	want := have.DeepCopy()
	want.Webhooks = []admissionregistrationv1.MutatingWebhook{webhook}
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

// remove deletes the configuration, so that the API server asks about no pod.
func (r *reconciler) remove(ctx context.Context, have *admissionregistrationv1.MutatingWebhookConfiguration, present bool) error {
	if !present {
		return nil
	}
	err := r.client.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}
