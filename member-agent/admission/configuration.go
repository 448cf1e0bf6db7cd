package admission

import (
	"maps"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConfigurationName is the name of the one MutatingWebhookConfiguration.
	ConfigurationName = "flotilla-pods"
	// Path is where the handler is served.
	Path = "/mutate-pods"

	webhookName   = "pods.admission.flotilla.dev"
	conditionName = "pods-of-spread-workloads"

	// DefaultTimeout is how long the creation of a pod may wait for the answer. The answer takes no request and less than a
	// millisecond; nearly all of the time is for the way. One second is when a lost first packet is sent again, so the API
	// server would give up on it; with two it is answered. It is short because it is all that protects the pods of the targets
	// while nobody answers, as on a node that has just died: a refused connection or a Service without endpoints costs nothing,
	// silence costs this long for each pod, and then the pod starts unspread. When the agent is uninstalled and leaves the
	// configuration behind, failurePolicy Ignore and this bound hold on.
	DefaultTimeout = 2 * time.Second
	// maxNamespaces bounds the configuration: 10 000 names of 63 characters are half of what etcd stores as one object. The pods
	// of WorkloadSpreads in further namespaces start unspread.
	maxNamespaces = 10_000
	// httpsPort is what the API server fills in for a Service without a port.
	httpsPort = 443
)

// desired returns the webhook of the configuration for the targets, of which there is at least one, with all defaults of the API
// server filled in. left is how many targets found no place in it; named tells whether the pods are
// selected by the names of their workloads. timeout is how long the API server waits for an answer, in whole seconds.
func desired(targets []target, client admissionregistrationv1.WebhookClientConfig, timeout time.Duration) (webhook admissionregistrationv1.MutatingWebhook, named bool, left int) {
	namespaces := map[string]bool{}
	for _, t := range targets {
		namespaces[t.Namespace] = true
	}
	names := slices.Sorted(maps.Keys(namespaces))
	if len(names) > maxNamespaces {
		names = names[:maxNamespaces]
		held := slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return t.Namespace > names[maxNamespaces-1] })
		left, targets = len(targets)-len(held), held
	}
	condition, named := expression(targets)
	client = *client.DeepCopy()
	if client.Service != nil && client.Service.Port == nil {
		client.Service.Port = new(int32(httpsPort))
	}
	return admissionregistrationv1.MutatingWebhook{
		Name:         webhookName,
		ClientConfig: client,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		FailurePolicy: new(admissionregistrationv1.Ignore),
		MatchPolicy:   new(admissionregistrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names},
		}},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeout / time.Second)),
		AdmissionReviewVersions: []string{"v1"},
		// What others change in the pod afterwards does not change its subset.
		ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
		MatchConditions:    []admissionregistrationv1.MatchCondition{{Name: conditionName, Expression: condition}},
	}, named, left
}

// says tells whether the configuration consists of this webhook.
func says(configuration *admissionregistrationv1.MutatingWebhookConfiguration, webhook *admissionregistrationv1.MutatingWebhook) bool {
	return len(configuration.Webhooks) == 1 && equality.Semantic.DeepEqual(&configuration.Webhooks[0], webhook)
}

// narrow keeps what others added to the selectors of the webhook that stands: some clusters exclude namespaces of their own
// from every webhook, and put that in again whenever it is removed. It can only make fewer pods asked about.
func narrow(webhook *admissionregistrationv1.MutatingWebhook, configuration *admissionregistrationv1.MutatingWebhookConfiguration) {
	if len(configuration.Webhooks) != 1 {
		return
	}
	stands := configuration.Webhooks[0].DeepCopy()
	if stands.NamespaceSelector != nil {
		webhook.NamespaceSelector.MatchLabels = stands.NamespaceSelector.MatchLabels
		for _, requirement := range stands.NamespaceSelector.MatchExpressions {
			if requirement.Key != corev1.LabelMetadataName || requirement.Operator != metav1.LabelSelectorOpIn {
				webhook.NamespaceSelector.MatchExpressions = append(webhook.NamespaceSelector.MatchExpressions, requirement)
			}
		}
	}
	if stands.ObjectSelector != nil {
		webhook.ObjectSelector = stands.ObjectSelector
	}
}
