package admission

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConfigurationName is the name of the one MutatingWebhookConfiguration.
	ConfigurationName = "flotilla-pods"
	// Path is where the chain is served.
	Path = "/mutate-pods"

	webhookName = "pods.admission.flotilla.dev"
	// The names of the match conditions: a scope selects the pod, and no earlier entry takes it.
	conditionSelected = "selected-pods"
	conditionExcluded = "not-taken-by-another-entry"
	// conditionRequired has what the scopes of the entry have in common.
	conditionRequired = "relevant-requests"

	// DefaultTimeout is how long the creation of a pod may wait for the answer. The answer takes no request and less than
	// a millisecond; nearly all of the time is for the network. A lost first packet is sent again after one second, so the
	// API server would give up on it; with two it is answered. It is short because it is all that protects selected pods
	// while nobody answers, as on a node that has just failed: a refused connection or a Service without endpoints costs
	// nothing, silence costs this long for each pod, and then the failure policy applies. It also bounds the delay where
	// the agent was uninstalled and left the configuration behind.
	DefaultTimeout = 2 * time.Second
	// httpsPort is what the API server fills in for a Service without a port.
	httpsPort = 443
)

// webhooksOf returns the webhooks for the entries, with all defaults of the API server filled in. timeout is how long
// the API server waits for an answer, in whole seconds.
func webhooksOf(
	entries []entry, client admissionregistrationv1.WebhookClientConfig, timeout time.Duration,
) []admissionregistrationv1.MutatingWebhook {
	client = *client.DeepCopy()
	if client.Service != nil && client.Service.Port == nil {
		client.Service.Port = new(int32(httpsPort))
	}
	var webhooks []admissionregistrationv1.MutatingWebhook
	for _, e := range entries {
		webhooks = append(webhooks, admissionregistrationv1.MutatingWebhook{
			Name:         e.name(),
			ClientConfig: client,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
					Scope: new(admissionregistrationv1.NamespacedScope),
				},
			}},
			FailurePolicy:           new(e.policy),
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			NamespaceSelector:       e.namespaceSelector(),
			ObjectSelector:          &metav1.LabelSelector{},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(timeout / time.Second)),
			AdmissionReviewVersions: []string{"v1"},
			// What others change in the pod afterwards does not change what the mutators made of it.
			ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
			MatchConditions:    e.matchConditions(),
		})
	}
	return webhooks
}

// name returns the name of the webhook. It depends on the selector alone, not on names of namespaces or on conditions:
// webhooks of one name differ only in these, and in what others added (see keepAdditions).
func (e *entry) name() string {
	if e.policy == admissionregistrationv1.Ignore && len(e.selector) == 0 && e.requires == "" {
		return webhookName
	}
	hash := fnv.New32a()
	hash.Write([]byte(e.group + textOf(e.selector)))
	return fmt.Sprintf("%s-%08x.%s", strings.ToLower(string(e.policy)), hash.Sum32(), webhookName)
}

func (e *entry) namespaceSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchExpressions: slices.Clone(e.selector)}
	if e.namespaces != nil {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: e.namespaces,
		})
	}
	return selector
}

func (e *entry) matchConditions() []admissionregistrationv1.MatchCondition {
	conditions := []admissionregistrationv1.MatchCondition{{Name: conditionSelected, Expression: e.condition}}
	if e.requires != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{
			Name: conditionRequired, Expression: e.requires,
		})
	}
	if len(e.excluded) > 0 {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{
			Name: conditionExcluded, Expression: "!(" + anyOf(e.excluded) + ")",
		})
	}
	return conditions
}

// keepAdditions adds to the selectors of the webhooks what others added to those of the same names in the
// configuration: some clusters exclude namespaces of their own from every webhook, and add that again whenever it is
// removed. It can only make the API server send fewer pods.
func keepAdditions(
	webhooks []admissionregistrationv1.MutatingWebhook,
	configuration *admissionregistrationv1.MutatingWebhookConfiguration,
) {
	for i := range webhooks {
		webhook := &webhooks[i]
		j := slices.IndexFunc(
			configuration.Webhooks,
			func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == webhook.Name },
		)
		if j < 0 {
			continue
		}
		existing := configuration.Webhooks[j].DeepCopy()
		if existing.NamespaceSelector != nil {
			webhook.NamespaceSelector.MatchLabels = existing.NamespaceSelector.MatchLabels
			ours := webhook.NamespaceSelector.MatchExpressions
			for _, requirement := range existing.NamespaceSelector.MatchExpressions {
				names := requirement.Key == corev1.LabelMetadataName && requirement.Operator == metav1.LabelSelectorOpIn
				if !names && !containsRequirement(ours, requirement) {
					webhook.NamespaceSelector.MatchExpressions = append(webhook.NamespaceSelector.MatchExpressions, requirement)
				}
			}
		}
		if existing.ObjectSelector != nil {
			webhook.ObjectSelector = existing.ObjectSelector
		}
	}
}
