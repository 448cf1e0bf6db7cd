package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Mutator changes new pods for the sake of one kind.
type Mutator struct {
	// Name is what refusals and logs call it, for example the kind.
	Name string
	// Scope returns which pods it is asked about. The chain calls it on the leader.
	Scope func(context.Context) ([]Scope, error)
	// Watches are the objects on which Scope depends.
	Watches []Watch
	// Changes has an event when Scope may return something else because of objects whose kind can come later than the
	// agent; nil if there are none. The chain would wait for a kind of Watches.
	Changes <-chan event.GenericEvent
	// Mutate changes the pod where an object selects it. It finds that out itself: the pod may have been sent for the sake
	// of another mutator. It may wait for a cache until the context ends. An error refuses the pod and is shown to its
	// creator, so it is only for objects whose user chose Fail. A panic is a failed call.
	Mutate func(context.Context, *Request) error
}

// Watch names objects, and which of their events matter.
type Watch struct {
	Object client.Object
	Events predicate.Predicate
}

// Scope selects new pods.
type Scope struct {
	// Name is what logs call it, for example the object that selects the pods.
	Name string
	// FailurePolicy is what happens to the pods while nobody answers.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// NamespaceSelector selects namespaces by their labels; nil selects all of them.
	NamespaceSelector *metav1.LabelSelector
	// Namespaces are the names of all namespaces in which Condition can be true; nil: it can be true in every namespace.
	Namespaces []string
	// Condition is a CEL expression over object and request that is true for the pods. It checks Namespaces itself, and it
	// cannot fail: it tests each optional field with has() first.
	Condition string
	// Requires is a condition that holds beside Condition, for scopes that have it in common: it is written once for all
	// of them. It cannot fail either. Empty: there is none.
	Requires string
	// Wide is true wherever Condition is, and shorter; it need not check Namespaces. It replaces Condition where that does
	// not fit and the failure policy is Ignore.
	Wide string
}

// Quoted writes texts as a list of CEL.
func Quoted(texts ...string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Labelled returns the condition that the selector selects the labels of an object, which is named object or oldObject.
// It is "true" for a selector that requires nothing, and "false" for one that is invalid.
func Labelled(object string, selector *metav1.LabelSelector) string {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil || selector == nil {
		return "false"
	}
	labels := object + ".metadata.labels"
	exists := func(key string) string { return fmt.Sprintf("has(%s) && %s in %s", labels, key, labels) }
	in := func(key string, values ...string) string {
		if len(values) == 1 {
			return fmt.Sprintf("%s && %s[%s] == %s", exists(key), labels, key, strconv.Quote(values[0]))
		}
		return fmt.Sprintf("%s && %s[%s] in %s", exists(key), labels, key, Quoted(values...))
	}
	var terms []string
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		terms = append(terms, in(strconv.Quote(key), selector.MatchLabels[key]))
	}
	for _, r := range selector.MatchExpressions {
		key := strconv.Quote(r.Key)
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			terms = append(terms, in(key, r.Values...))
		case metav1.LabelSelectorOpNotIn:
			terms = append(terms, "!("+in(key, r.Values...)+")")
		case metav1.LabelSelectorOpExists:
			terms = append(terms, exists(key))
		case metav1.LabelSelectorOpDoesNotExist:
			terms = append(terms, "!("+exists(key)+")")
		}
	}
	if len(terms) == 0 {
		return everything
	}
	return strings.Join(terms, " && ")
}
