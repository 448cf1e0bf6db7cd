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
)

// enforce finds out whether the API server refuses operations while no agent answers.
func (r *Reconciler) enforce(ctx context.Context, s *scope) (bool, error) {
	if s.pub.Spec.FailurePolicy() != v1beta1.PubFail {
		return true, nil
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: admission.ConfigurationName}, configuration)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", admission.ConfigurationName, err)
	}
	s.enforced = err == nil && slices.ContainsFunc(configuration.Webhooks,
		func(w admissionregistrationv1.ValidatingWebhook) bool { return failsIn(w, s.Key.Namespace) })
	return true, nil
}

// failsIn reports whether the webhook refuses requests in the namespace while nobody answers.
func failsIn(w admissionregistrationv1.ValidatingWebhook, namespace string) bool {
	if w.FailurePolicy == nil || *w.FailurePolicy != admissionregistrationv1.Fail || w.NamespaceSelector == nil {
		return false
	}
	for _, requirement := range w.NamespaceSelector.MatchExpressions {
		if requirement.Key == corev1.LabelMetadataName && requirement.Operator == metav1.LabelSelectorOpIn {
			return slices.Contains(requirement.Values, namespace)
		}
	}
	return true
}
