// Package guard refuses SidecarSets at apply whose names collide with those of others: two SidecarSets that may select
// the same pods have a container, a volume or an annotation of the same name.
//
// Example: SidecarSet "logs" has container log for the pods with the label app=web. `kubectl apply` of SidecarSet
// "audit" with a container log for the same pods is refused, and names "logs".
//
// The API server asks about each new SidecarSet and each change of a spec. While nobody answers, the write is accepted
// (failure policy Ignore), and the controller reports the conflict on the object that is newer.
package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

const (
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration = "flotilla-sidecarsets"
	// Path is where the guard is served.
	Path = "/validate-sidecarsets"

	webhookName = "sidecarsets.admission.flotilla.dev"
	// timeout is how long a write may wait for the answer, in seconds.
	timeout = 5
	// specChanged selects the writes after which names may collide.
	specChanged = "oldObject == null || !has(oldObject.spec) || !has(object.spec) || object.spec != oldObject.spec"
)

// Guard answers whether a SidecarSet may be written.
type Guard struct {
	reader client.Reader
}

// New returns a guard that compares with the SidecarSets of the reader.
func New(reader client.Reader) *Guard { return &Guard{reader} }

// Handle refuses a SidecarSet whose names collide with another's. A SidecarSet that collides already can be changed,
// as long as it does not collide with more.
func (g *Guard) Handle(ctx context.Context, request admission.Request) admission.Response {
	set, err := decode(request.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if set.DeletionTimestamp != nil || federated(set) {
		return admission.Allowed("")
	}
	var all v1beta1.SidecarSetList
	if err := g.reader.List(ctx, &all); err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("list SidecarSets: %w", err))
	}
	var others []*v1beta1.SidecarSet
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil && !federated(&all.Items[i]) {
			others = append(others, &all.Items[i])
		}
	}
	collisions := inject.Collisions(set, others)
	if request.Operation == admissionv1.Update {
		before, err := decode(request.OldObject.Raw)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		earlier := inject.Collisions(before, others)
		collisions = slices.DeleteFunc(collisions, func(c string) bool { return slices.Contains(earlier, c) })
	}
	if len(collisions) == 0 {
		return admission.Allowed("")
	}
	response := admission.Denied(collisions[0])
	response.Result.Message = collisions[0]
	response.Result.Reason, response.Result.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	return response
}

// federated reports whether a SidecarSet is for the members of this cluster, where it is compared with those.
func federated(set *v1beta1.SidecarSet) bool { return set.Labels[topology.LabelFederated] == "true" }

func decode(raw []byte) (*v1beta1.SidecarSet, error) {
	set := &v1beta1.SidecarSet{}
	if err := json.Unmarshal(raw, set); err != nil {
		return nil, fmt.Errorf("decode the SidecarSet: %w", err)
	}
	return set, nil
}

// Webhook returns the webhook of the guard, with all defaults of the API server filled in but for the client.
func Webhook() admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: webhookName,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				// Objects of the other version are converted before they are sent.
				APIGroups: []string{v1beta1.GroupVersion.Group}, APIVersions: []string{v1beta1.GroupVersion.Version},
				Resources: []string{"sidecarsets"}, Scope: new(admissionregistrationv1.ClusterScope),
			},
		}},
		FailurePolicy:           new(admissionregistrationv1.Ignore),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeout)),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "spec-changed", Expression: specChanged},
		},
	}
}
