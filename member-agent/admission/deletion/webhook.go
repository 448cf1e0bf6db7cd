package deletion

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/protection"
)

const (
	// Configuration is the name of the ValidatingWebhookConfiguration of an agent.
	Configuration = "flotilla-deletions"
	// HubConfiguration is the name of that of a hub. They count different objects, so one cluster may have both.
	HubConfiguration = "flotilla-hub-deletions"
	// Path is where the guard is served.
	Path = "/validate-deletions"

	webhookName = "deletions.admission.flotilla.dev"
	// timeout is how long a deletion may wait for the answer, in seconds. The guard asks the API server, which may be
	// busy.
	timeout = 10
)

// Webhook returns the webhook of the guard, with all defaults of the API server filled in but for the client.
func Webhook() admissionregistrationv1.ValidatingWebhook {
	deleted := []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	return admissionregistrationv1.ValidatingWebhook{
		Name: webhookName,
		Rules: []admissionregistrationv1.RuleWithOperations{
			{Operations: deleted, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"},
				Scope: new(admissionregistrationv1.AllScopes),
			}},
			{Operations: deleted, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"v1"},
				Resources: []string{"customresourcedefinitions"}, Scope: new(admissionregistrationv1.AllScopes),
			}},
		},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeout)),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "protected", Expression: fmt.Sprintf(
			"has(oldObject.metadata.labels) && %[1]q in oldObject.metadata.labels && "+
				"oldObject.metadata.labels[%[1]q] in [%[2]q, %[3]q] && !has(oldObject.metadata.deletionTimestamp)",
			protection.Label, protection.Always, protection.Cascading)}},
	}
}
