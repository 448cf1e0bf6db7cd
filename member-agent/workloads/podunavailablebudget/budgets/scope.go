package budgets

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
)

const (
	// maxNames bounds the condition on the names of evicted pods, in bytes. A budget with more refuses every eviction of
	// its namespace while no agent answers.
	maxNames = 4000
	// prefixLength is how much of the name of a workload the names of its pods begin with at least: API servers and
	// controllers cut the base of generated names at 58 characters, and UnitedDeployments those of their workloads.
	prefixLength = 40
)

// disturbs returns the condition that a request can make a pod unavailable, and is not of the cleaners. Only evictions
// are created; a pod that is terminating is unavailable already, and one with the annotation no-protect has no budget.
func disturbs() string {
	return "!(request.userInfo.username in " + admission.Quoted(cleaners()...) + ") && (" + disrupting + ")"
}

// disrupting is the condition that a request can make a pod unavailable, whoever makes it.
const disrupting = "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp) && " +
	"!(has(oldObject.metadata.annotations) && " +
	"'" + v1beta1.AnnotationNoProtect + "' in oldObject.metadata.annotations && " +
	"oldObject.metadata.annotations['" + v1beta1.AnnotationNoProtect + "'] in " +
	"['1', 't', 'T', 'true', 'TRUE', 'True']) && (request.operation == 'DELETE' || " +
	"has(request.subResource) && request.subResource == 'resize' || " +
	"object.spec.containers.map(c, has(c.image) ? c.image : '') != " +
	"oldObject.spec.containers.map(c, has(c.image) ? c.image : '') || " +
	"(has(object.spec.initContainers) ? object.spec.initContainers.map(c, has(c.image) ? c.image : '') : []) != " +
	"(has(oldObject.spec.initContainers) ? oldObject.spec.initContainers.map(c, has(c.image) ? c.image : '') : []) || " +
	"(has(object.spec.activeDeadlineSeconds) ? object.spec.activeDeadlineSeconds : 0) != " +
	"(has(oldObject.spec.activeDeadlineSeconds) ? oldObject.spec.activeDeadlineSeconds : 0) || " +
	"has(object.metadata.labels) && object.metadata.labels.exists(k, k.startsWith('" + apps.UnavailableLabelPrefix +
	"') && !(has(oldObject.metadata.labels) && k in oldObject.metadata.labels)))"

// evicts is the condition that a request is an eviction.
const evicts = "request.operation == 'CREATE'"

// scope returns which requests the API server sends: those that can make pods of budgets unavailable. Under Fail the
// conditions are narrow, since they are what is refused while no agent answers. Under Ignore they are wide: what this
// replica does not know yet, such as a new pod, is asked about too.
func (k *Keeper) scope(ctx context.Context) ([]admission.Scope, error) {
	var list v1beta1.PodUnavailableBudgetList
	if err := k.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	var scopes []admission.Scope
	evictions := map[string]bool{}
	for i := range list.Items {
		pub := &list.Items[i]
		limits, err := k.limits(ctx, pub)
		if err != nil {
			return nil, err
		}
		if !limits {
			continue
		}
		if disruption.Protects(pub, v1beta1.PubEvictOperation) {
			evictions[pub.Namespace] = true
		}
		of, err := k.scopesOf(ctx, pub)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, of...)
	}
	if len(evictions) == 0 {
		return scopes, nil
	}
	names := slices.Sorted(maps.Keys(evictions))
	return append(scopes, admission.Scope{
		Name: "evictions", FailurePolicy: admissionregistrationv1.Ignore, Namespaces: names, Requires: disturbs(),
		Condition: evicts + " && request.namespace in " + admission.Quoted(names...), Wide: evicts,
	}), nil
}

// limits reports whether the budget limits requests: it is not on its way out, and no hub in this cluster owns the
// workloads of its namespace.
func (k *Keeper) limits(ctx context.Context, pub *v1beta1.PodUnavailableBudget) (bool, error) {
	if pub.DeletionTimestamp != nil || k.options.Federated == nil {
		return pub.DeletionTimestamp == nil, nil
	}
	hubs, err := k.options.Federated(ctx, pub.Namespace)
	if err != nil {
		return false, fmt.Errorf("ask whether namespace %s is federated: %w", pub.Namespace, err)
	}
	return !hubs, nil
}

// scopesOf returns the scopes of a budget, beside that of all evictions.
func (k *Keeper) scopesOf(ctx context.Context, pub *v1beta1.PodUnavailableBudget) ([]admission.Scope, error) {
	var scopes []admission.Scope
	add := func(policy admissionregistrationv1.FailurePolicyType, condition string) {
		scopes = append(scopes, admission.Scope{
			Name: v1beta1.PodUnavailableBudgetKind.Kind + " " + pub.Namespace + "/" + pub.Name, FailurePolicy: policy,
			Namespaces: []string{pub.Namespace}, Requires: disturbs(), Condition: condition, Wide: within(pub.Namespace),
		})
	}
	narrow := podsOf(before, pub)
	ask := narrow
	if isUnitedDeployment(pub) { // a workload that it adopts may have another name
		ask = hasOwner(before)
	}
	if change := changes(pub, ask); change != "" && (ask != narrow || pub.Spec.FailurePolicy() != v1beta1.PubFail) {
		add(admissionregistrationv1.Ignore, within(pub.Namespace)+" && "+change)
	}
	if pub.Spec.FailurePolicy() != v1beta1.PubFail {
		return scopes, nil
	}
	names := ""
	if disruption.Protects(pub, v1beta1.PubEvictOperation) {
		condition, err := k.namesOf(ctx, pub)
		if err != nil {
			return nil, err
		}
		if len(condition) <= maxNames {
			names = " && (" + condition + ")"
		}
	}
	add(admissionregistrationv1.Fail, enforced(pub)+names+")")
	return scopes, nil
}

func within(namespace string) string { return "request.namespace == " + strconv.Quote(namespace) }

// changes returns the condition that a request deletes, updates or resizes a pod of the budget, by a condition on these
// pods. It is empty if the budget limits none of that.
func changes(pub *v1beta1.PodUnavailableBudget, pods string) string {
	deletes := disruption.Protects(pub, v1beta1.PubDeleteOperation)
	updates := disruption.Protects(pub, v1beta1.PubUpdateOperation) || disruption.Protects(pub, v1beta1.PubResizeOperation)
	operation := "request.operation != 'CREATE'"
	switch {
	case !deletes && !updates:
		return ""
	case !deletes:
		operation = "request.operation == 'UPDATE'"
	case !updates:
		operation = "request.operation == 'DELETE'"
	}
	condition := operation + " && (" + pods + ")"
	if ignored := pub.Spec.IgnoredPodSelector; ignored != nil {
		if s, err := metav1.LabelSelectorAsSelector(ignored); err == nil && !s.Empty() {
			condition += " && !(" + admission.Labelled(before, ignored) + ")"
		}
	}
	return condition
}

// enforced returns the part of the condition under Fail that depends on the budget alone, without what closes it. It
// has the name of the budget, so that no other one has it.
func enforced(pub *v1beta1.PodUnavailableBudget) string {
	var terms []string
	if change := changes(pub, podsOf(before, pub)); change != "" {
		terms = append(terms, change)
	}
	if disruption.Protects(pub, v1beta1.PubEvictOperation) {
		terms = append(terms, evicts) // last: a condition on names may follow
	}
	return within(pub.Namespace) + " && " + strconv.Quote(pub.Name) + " != '' && (" + strings.Join(terms, " || ")
}

// Enforced reports whether a condition of a webhook under Fail is true for the requests that the budget limits.
func Enforced(condition string, pub *v1beta1.PodUnavailableBudget) bool {
	return strings.Contains(condition, enforced(pub))
}

// namesOf returns the condition that an evicted pod has the name of a pod of the budget. An eviction shows no more of
// its pod. Names begin with that of their workload as a rule, so that new pods change nothing.
func (k *Keeper) namesOf(ctx context.Context, pub *v1beta1.PodUnavailableBudget) (string, error) {
	members, err := Members(ctx, k.client, pub)
	if err != nil {
		return "", err
	}
	prefixes, names := map[string]bool{}, map[string]bool{}
	if target := pub.Spec.TargetReference; target != nil {
		prefixes[prefixOf(target.Name)] = true
	} else {
		counted, err := templates(ctx, k.client, pub)
		if err != nil {
			return "", err
		}
		for workload := range counted {
			prefixes[prefixOf(workload.name)] = true
		}
	}
	for _, pod := range members {
		w, owned := WorkloadOf(pod)
		switch prefix := prefixOf(w.Name); {
		case slices.ContainsFunc(slices.Collect(maps.Keys(prefixes)), func(p string) bool {
			return strings.HasPrefix(pod.Name, p)
		}):
		case owned && strings.HasPrefix(pod.Name, prefix):
			prefixes[prefix] = true
		default:
			names[pod.Name] = true
		}
	}
	var terms []string
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		terms = append(terms, "request.name.startsWith("+strconv.Quote(prefix)+")")
	}
	if len(names) > 0 {
		terms = append(terms, "request.name in "+admission.Quoted(slices.Sorted(maps.Keys(names))...))
	}
	if len(terms) == 0 {
		return "false", nil
	}
	return "has(request.name) && (" + strings.Join(terms, " || ") + ")", nil
}

// prefixOf returns what the names of the pods of a workload begin with.
func prefixOf(workload string) string {
	prefix := workload + "-"
	return prefix[:min(len(prefix), prefixLength)]
}

// before names the pod before a request in conditions.
const before = "oldObject"

func hasOwner(object string) string { return "has(" + object + ".metadata.ownerReferences)" }

func isUnitedDeployment(pub *v1beta1.PodUnavailableBudget) bool {
	target := pub.Spec.TargetReference
	return target != nil && target.Kind == apps.UnitedDeploymentKind.Kind &&
		schema.FromAPIVersionAndKind(target.APIVersion, target.Kind).Group == apps.GroupVersion.Group
}

// podsOf returns the condition that an object, which is named object or oldObject, is a pod of the budget. Of the pods
// of a UnitedDeployment it goes by the names that it gives its workloads.
func podsOf(object string, pub *v1beta1.PodUnavailableBudget) string {
	target := pub.Spec.TargetReference
	if target == nil {
		if s, err := metav1.LabelSelectorAsSelector(pub.Spec.Selector); err != nil || s.Empty() {
			return "false" // as package disruption has it
		}
		return admission.Labelled(object, pub.Spec.Selector)
	}
	kind := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind)
	owner := fmt.Sprintf("o.kind == %s && %s && o.name == %s", strconv.Quote(kind.Kind), ofGroup(kind.Group),
		strconv.Quote(target.Name))
	switch {
	case kind.Group == appsv1.GroupName && kind.Kind == "Deployment":
		labels := object + ".metadata.labels"
		owner = fmt.Sprintf("o.kind == 'ReplicaSet' && %s && has(%[2]s) && '%[3]s' in %[2]s && "+
			"o.name == %[4]s + %[2]s['%[3]s']", ofGroup(kind.Group), labels, labelTemplateHash,
			strconv.Quote(target.Name+"-"))
	case isUnitedDeployment(pub):
		labels := object + ".metadata.labels"
		owner = fmt.Sprintf("has(%[1]s) && %[2]q in %[1]s && o.name.startsWith(%[3]s)", labels, apps.LabelSubset,
			strconv.Quote(prefixOf(target.Name)))
	}
	return hasOwner(object) + " && " + object + ".metadata.ownerReferences.exists(o, has(o.controller) && " +
		"o.controller && " + owner + ")"
}

// ofGroup returns the condition that the owner o is of the group.
func ofGroup(group string) string {
	if group == corev1.GroupName {
		return "!o.apiVersion.contains('/')"
	}
	return "o.apiVersion.startsWith(" + strconv.Quote(group+"/") + ")"
}
