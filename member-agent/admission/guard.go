package admission

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// GuardPath is where guards are served.
	GuardPath = "/review-pods"
	// GuardTimeout is how long the deletion, eviction or change of a pod may wait for an answer. A guard may write before
	// it answers, and requests for one object wait for each other.
	GuardTimeout = 10 * time.Second
)

// Guard decides about requests that delete, evict, change or resize existing pods, for the sake of one kind.
type Guard struct {
	// Name is what logs call it, for example the kind.
	Name string
	// Scope returns which requests it is asked about. Conditions see object, oldObject and request; the object of an
	// eviction has no labels. It is called on the leader.
	Scope func(context.Context) ([]Scope, error)
	// Watches are the objects on which Scope depends.
	Watches []Watch
	// Review returns why the request is refused, nil if it is not. It finds out itself whether an object selects the pod.
	// After an error the failure policy of the entry applies. Of a dry run it writes nothing.
	Review func(context.Context, *admissionv1.AdmissionRequest) (*metav1.Status, error)
}

// guards has the guards of the endpoint. It is safe for concurrent use if they are.
type guards []Guard

// NewGuardHandler returns the endpoint that asks the guards, in this order. patience is how long all of them together
// may take.
func NewGuardHandler(log logr.Logger, patience time.Duration, all ...Guard) http.Handler {
	return &endpoint{admit: guards(all).admit, decode: decode, log: log, patience: patience, differs: true}
}

// admit asks the guards until one refuses.
func (g guards) admit(ctx context.Context, r *Request) (*admissionv1.AdmissionResponse, error) {
	request := r.AdmissionRequest
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	for _, guard := range g {
		status, err := guard.Review(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("ask %s about pod %s/%s: %w", guard.Name, request.Namespace, request.Name, err)
		}
		if status != nil {
			response.Allowed, response.Result = false, status
			break
		}
	}
	return response, nil
}

// guarded are the requests that the webhooks of guards are for.
func guarded() []admissionregistrationv1.RuleWithOperations {
	rule := func(resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.
		RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource},
			Scope: new(admissionregistrationv1.NamespacedScope),
		}}
	}
	return []admissionregistrationv1.RuleWithOperations{
		rule("pods", admissionregistrationv1.Delete, admissionregistrationv1.Update),
		rule("pods/eviction", admissionregistrationv1.Create),
		rule("pods/resize", admissionregistrationv1.Update),
	}
}

// guardsOf returns the webhooks of guards for the entries, with all defaults of the API server filled in, and with what
// others added to the selectors of those in have.
func guardsOf(
	entries []entry, client admissionregistrationv1.WebhookClientConfig,
	have []admissionregistrationv1.ValidatingWebhook,
) []admissionregistrationv1.ValidatingWebhook {
	existing := &admissionregistrationv1.MutatingWebhookConfiguration{}
	for i := range have {
		existing.Webhooks = append(existing.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: have[i].Name, NamespaceSelector: have[i].NamespaceSelector, ObjectSelector: have[i].ObjectSelector,
		})
	}
	all := webhooksOf(entries, client, GuardTimeout)
	keepAdditions(all, existing)
	var webhooks []admissionregistrationv1.ValidatingWebhook
	for _, mutating := range all {
		webhooks = append(webhooks, admissionregistrationv1.ValidatingWebhook{
			Name:                    mutating.Name,
			ClientConfig:            mutating.ClientConfig,
			Rules:                   guarded(),
			FailurePolicy:           mutating.FailurePolicy,
			MatchPolicy:             mutating.MatchPolicy,
			NamespaceSelector:       mutating.NamespaceSelector,
			ObjectSelector:          mutating.ObjectSelector,
			SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			TimeoutSeconds:          mutating.TimeoutSeconds,
			AdmissionReviewVersions: mutating.AdmissionReviewVersions,
			MatchConditions:         mutating.MatchConditions,
		})
	}
	return webhooks
}
