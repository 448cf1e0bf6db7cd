package podunavailablebudget

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
)

// enforce finds out whether the API server asks about requests in the namespace, and whether it refuses them while no
// agent answers.
func (r *Reconciler) enforce(ctx context.Context, s *scope) (bool, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: admission.ConfigurationName}, configuration)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", admission.ConfigurationName, err)
	}
	for _, webhook := range configuration.Webhooks {
		s.asked = s.asked || isCalled(webhook, s.Key.Namespace)
		s.enforced = s.enforced || failsFor(webhook, s.pub)
	}
	return true, nil
}

// failsFor reports whether the webhook refuses what the budget limits while nobody answers.
func failsFor(w admissionregistrationv1.ValidatingWebhook, pub *v1beta1.PodUnavailableBudget) bool {
	return w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Fail &&
		isCalled(w, pub.Namespace) && slices.ContainsFunc(w.MatchConditions,
		func(c admissionregistrationv1.MatchCondition) bool { return budgets.Enforced(c.Expression, pub) })
}

// isCalled reports whether the API server calls the webhook about objects in the namespace, by its name.
func isCalled(w admissionregistrationv1.ValidatingWebhook, namespace string) bool {
	if w.NamespaceSelector == nil {
		return true
	}
	for _, requirement := range w.NamespaceSelector.MatchExpressions {
		if requirement.Key == corev1.LabelMetadataName && requirement.Operator == metav1.LabelSelectorOpIn &&
			!slices.Contains(requirement.Values, namespace) {
			return false
		}
	}
	return true
}
