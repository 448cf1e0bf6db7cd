package serving

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/strict"
	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	// TemplatesConfiguration is the name of the ValidatingWebhookConfiguration for templates.
	TemplatesConfiguration = "flotilla-templates"
	// TemplatesPath is where the handler for templates is served.
	TemplatesPath = "/validate-templates"

	templatesWebhook = "templates.admission.flotilla.dev"
	// templatesTimeout is how long a write may wait for the answer, in seconds. The answer takes a millisecond; while
	// nobody answers, a write waits this long and is then accepted.
	templatesTimeout = 2
	// templateChanged selects the writes whose template may have become wrong. SidecarSets have none.
	templateChanged = "oldObject == null || !has(oldObject.spec) || !has(object.spec) || " +
		"(request.kind.kind == 'SidecarSet' ? object.spec != oldObject.spec : " +
		"!has(oldObject.spec.template) || !has(object.spec.template) || object.spec.template != oldObject.spec.template)"
)

// handleTemplates refuses templates with values of wrong types, which controllers cannot decode, and warns of fields
// that Kubernetes does not know.
func handleTemplates(_ context.Context, request admission.Request) admission.Response {
	found := strict.Templates(request.Kind.Kind, request.Object.Raw)
	response := admission.Allowed("")
	if err := found.Mistakes.ToAggregate(); err != nil {
		response = admission.Denied(fmt.Sprintf("%v; correct the values", err))
		response.Result.Reason, response.Result.Code = metav1.StatusReasonInvalid, 422
	}
	for _, path := range found.Unknown {
		response.Warnings = append(response.Warnings,
			fmt.Sprintf("unknown field %q: it is stored, and has no effect; correct or remove it", path))
	}
	return response
}

// templates returns the webhook for templates with all defaults of the API server filled in but for the client.
func templates() admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: templatesWebhook,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{v1beta1.GroupVersion.Group},
				APIVersions: []string{v1alpha1.GroupVersion.Version, v1beta1.GroupVersion.Version},
				Resources: []string{"advancedcronjobs", "broadcastjobs", "clonesets", "daemonsets", "sidecarsets",
					"statefulsets", "uniteddeployments"},
				Scope: new(admissionregistrationv1.AllScopes),
			},
		}},
		FailurePolicy:           new(admissionregistrationv1.Ignore),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(templatesTimeout)),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "template-changed", Expression: templateChanged},
		},
	}
}
