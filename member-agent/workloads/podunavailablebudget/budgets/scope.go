package budgets

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// maxNamespaces bounds the names in the scope: 10 000 names of 63 characters are half of what etcd stores as one
// object. Budgets in further namespaces limit our own controllers alone.
const maxNamespaces = 10_000

// disturbs is the condition that a request can make a pod unavailable. Only evictions are created; a pod that is
// terminating is unavailable already.
const disturbs = "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp) && (" +
	"request.operation == 'DELETE' || has(request.subResource) && request.subResource == 'resize' || " +
	"object.spec.containers.map(c, has(c.image) ? c.image : '') != " +
	"oldObject.spec.containers.map(c, has(c.image) ? c.image : '') || " +
	"(has(object.spec.initContainers) ? object.spec.initContainers.map(c, has(c.image) ? c.image : '') : []) != " +
	"(has(oldObject.spec.initContainers) ? oldObject.spec.initContainers.map(c, has(c.image) ? c.image : '') : []) || " +
	"has(object.metadata.labels) && object.metadata.labels.exists(k, k.startsWith('" + apps.UnavailableLabelPrefix +
	"') && !(has(oldObject.metadata.labels) && k in oldObject.metadata.labels)))"

// scope returns which requests the API server sends: those that can make pods of budgets unavailable.
func (k *Keeper) scope(ctx context.Context) ([]admission.Scope, error) {
	var list v1beta1.PodUnavailableBudgetList
	if err := k.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	policies := map[v1beta1.PubFailurePolicy]map[string][]*v1beta1.PodUnavailableBudget{v1beta1.PubFail: {},
		v1beta1.PubIgnore: {}}
	for i := range list.Items {
		pub := &list.Items[i]
		hubs := false
		if k.options.Federated != nil {
			var err error
			if hubs, err = k.options.Federated(ctx, pub.Namespace); err != nil {
				return nil, fmt.Errorf("ask whether namespace %s is federated: %w", pub.Namespace, err)
			}
		}
		if pub.DeletionTimestamp == nil && !hubs {
			namespaces := policies[pub.Spec.FailurePolicy()]
			namespaces[pub.Namespace] = append(namespaces[pub.Namespace], pub)
		}
	}
	var scopes []admission.Scope
	for _, policy := range []v1beta1.PubFailurePolicy{v1beta1.PubFail, v1beta1.PubIgnore} {
		if namespaces := policies[policy]; len(namespaces) > 0 {
			scopes = append(scopes, scopeOf(namespaces, admissionregistrationv1.FailurePolicyType(policy)))
		}
	}
	return scopes, nil
}

// scopeOf returns the scope of the budgets with a failure policy, of which there is at least one.
func scopeOf(
	namespaces map[string][]*v1beta1.PodUnavailableBudget, policy admissionregistrationv1.FailurePolicyType,
) admission.Scope {
	names := slices.Sorted(maps.Keys(namespaces))
	names = names[:min(len(names), maxNamespaces)]
	var narrow []string
	for _, name := range names {
		var pods []string
		for _, pub := range namespaces[name] {
			pods = append(pods, "("+podsOf(pub)+")")
		}
		slices.Sort(pods)
		narrow = append(narrow, fmt.Sprintf("request.namespace == '%s' && (request.operation == 'CREATE' || %s)", name,
			strings.Join(slices.Compact(pods), " || ")))
	}
	return admission.Scope{
		Name: "pods of PodUnavailableBudgets", FailurePolicy: policy, Namespaces: names,
		Condition: "(" + disturbs + ") && (" + strings.Join(narrow, " || ") + ")", Wide: disturbs,
	}
}

// podsOf returns a condition that is true for the pods of a budget before the request.
func podsOf(pub *v1beta1.PodUnavailableBudget) string {
	if pub.Spec.TargetReference != nil || pub.Spec.Selector == nil {
		return "has(oldObject.metadata.ownerReferences)"
	}
	var conditions []string
	for _, key := range slices.Sorted(maps.Keys(pub.Spec.Selector.MatchLabels)) {
		conditions = append(conditions, within(key, pub.Spec.Selector.MatchLabels[key]))
	}
	for _, requirement := range pub.Spec.Selector.MatchExpressions {
		if requirement.Operator == metav1.LabelSelectorOpIn {
			conditions = append(conditions, within(requirement.Key, requirement.Values...))
		}
	}
	return strings.Join(append(conditions, "true"), " && ")
}

// within returns the condition that a label has one of the values, true if one of them could not be written as it is.
func within(key string, values ...string) string {
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		if len(validation.IsValidLabelValue(value)) > 0 {
			return "true"
		}
		quoted = append(quoted, "'"+value+"'")
	}
	if len(validation.IsQualifiedName(key)) > 0 {
		return "true"
	}
	return fmt.Sprintf("has(oldObject.metadata.labels) && '%[1]s' in oldObject.metadata.labels && "+
		"oldObject.metadata.labels['%[1]s'] in [%[2]s]", key, strings.Join(quoted, ", "))
}
