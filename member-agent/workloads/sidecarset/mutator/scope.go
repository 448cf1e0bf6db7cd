package mutator

import (
	"context"
	"errors"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

// scope returns which pods the API server sends: those that a SidecarSet selects.
func (m *mutator) scope(ctx context.Context) ([]admission.Scope, error) {
	sets, err := m.all(ctx) // waits for the first list
	var unknown *meta.NoKindMatchError
	if errors.As(err, &unknown) {
		return nil, nil // it is asked again when the kind is there
	}
	if err != nil {
		return nil, err
	}
	var out []admission.Scope
	for _, set := range sets {
		out = append(out, scopeOf(set))
	}
	return out, nil
}

func scopeOf(set *v1beta1.SidecarSet) admission.Scope {
	return admission.Scope{
		Name: "SidecarSet " + set.Name, FailurePolicy: failurePolicy(set),
		NamespaceSelector: set.Spec.NamespaceSelector, Condition: condition(set.Spec.Selector), Wide: outside(),
	}
}

// failurePolicy is what happens to the pods of a SidecarSet while no replica answers.
func failurePolicy(set *v1beta1.SidecarSet) admissionregistrationv1.FailurePolicyType {
	if set.Spec.Flotilla != nil && set.Spec.Flotilla.FailurePolicy == v1beta1.SidecarSetFail {
		return admissionregistrationv1.Fail
	}
	return admissionregistrationv1.Ignore
}

// outside is true in the namespaces whose pods get sidecars.
func outside() string {
	return "!(request.namespace in " + admission.Quoted(inject.ExemptNamespaces()...) + ")"
}

// condition is the selector as an expression of CEL. It tests every field before it reads it.
func condition(selector *metav1.LabelSelector) string {
	return outside() + " && " + admission.Labelled("object", selector)
}
