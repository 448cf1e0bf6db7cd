package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// Rule says how the hub divides one kind of workload.
type Rule struct {
	GVK schema.GroupVersionKind
	// New returns an empty object and an empty list of the kind.
	New     func() client.Object
	NewList func() client.ObjectList
	// Copied: every member gets the whole object, and nothing of it is divided.
	Copied bool
	// read takes from the object what the decision depends on. A Refusal says what the user has to correct.
	read func(client.Object) (Workload, *Refusal)
}

// Table has the rules of kinds.
type Table map[schema.GroupKind]Rule

// dividedKinds are the kinds that the hub divides.
func dividedKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{apps.CloneSetKind, apps.UnitedDeploymentKind}
}

// Rules returns the table of the kinds that the hub divides.
func Rules() Table {
	return Table{
		apps.CloneSetKind.GroupKind(): {
			GVK:     apps.CloneSetKind,
			New:     func() client.Object { return &apps.CloneSet{} },
			NewList: func() client.ObjectList { return &apps.CloneSetList{} },
			read:    readCloneSet,
		},
		apps.UnitedDeploymentKind.GroupKind(): {
			GVK:     apps.UnitedDeploymentKind,
			New:     func() client.Object { return &apps.UnitedDeployment{} },
			NewList: func() client.ObjectList { return &apps.UnitedDeploymentList{} },
			read:    readUnitedDeployment,
		},
	}
}

// kindsThatWork names the kinds that a policy can select, for messages: those that are divided, and those that are copied, by their
// groups and versions.
func kindsThatWork(rules Table) string {
	var divided []string
	for kind := range Rules() {
		divided = append(divided, kind.Kind)
	}
	slices.Sort(divided)
	text := strings.Join(divided, ", ") + " (apps.kruise.io)"
	byVersion := map[string][]string{}
	for kind, rule := range copied(HubRunsNatives) {
		version := rule.GVK.GroupVersion().String()
		byVersion[version] = append(byVersion[version], kind.Kind)
	}
	for _, version := range slices.Sorted(maps.Keys(byVersion)) {
		slices.Sort(byVersion[version])
		text += fmt.Sprintf(", and %s (%s)", strings.Join(byVersion[version], ", "), version)
	}
	if rules[appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()].Copied {
		text += ", and " + strings.Join(nativeNames(), ", ")
	}
	return text
}

// Workload is what a decision depends on of the user's object.
type Workload struct {
	Key    wire.Key
	Ref    topology.WorkloadReference
	Labels map[string]string
	// Replicas that the user asks for over all clusters.
	Replicas int32
	// Revision is the hash of what pods are made from.
	Revision string
	// Subsets in the user's order. A kind without subsets has one with an empty name.
	Subsets []Subset
	// Copied: every member gets the whole object.
	Copied bool
	// Needs are the objects that the pod template names.
	Needs []Need
	// Requests are what one pod needs, nil where that is not known.
	Requests corev1.ResourceList
	// Open: the workload says nothing about where it runs, the policy's spread does.
	Open bool
	// Template is what pods are made from, as canonical JSON; Kept is how many earlier ones are kept.
	Template []byte
	Kept     int32
	// Paused: the user holds updates.
	Paused bool
	// Unordered: the children of the workload cannot go in waves. Deployments have no partition, StatefulSets no pause.
	Unordered bool
	// Adaptive is how pods that find no node go to other subsets; nil: they stay in theirs.
	Adaptive *Adaptive
	// Remarks are sentences about fields that are not carried out, in a stable order.
	Remarks []string
}

// Subset is a part of the workload: its bounds, the nodes it selects, its limits.
type Subset struct {
	division.Subset
	Term corev1.NodeSelectorTerm
	// Removed: the workload has it no more, and what runs of it is left.
	Removed bool
	// Amounts are the limits over all clusters while the subset has n replicas.
	Amounts func(n int32) lending.Amounts
}

// Refusal is why a decision cannot be made; what is placed stays as it is.
type Refusal struct {
	// Reason is a stable word in CamelCase, Message a sentence with the object, the value and the remedy.
	Reason, Message string
}

// newWorkload fills what all kinds have in common.
func newWorkload(o client.Object, gvk schema.GroupVersionKind, replicas *int32) Workload {
	w := Workload{
		Key:    wire.KeyFor(gvk.GroupKind(), o),
		Labels: o.GetLabels(),
		Ref: topology.WorkloadReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
		},
		Replicas: 1, // the default of all kinds
	}
	if replicas != nil {
		w.Replicas = *replicas
	}
	return w
}

// checkSelector refuses a selector that does not select the pods that the template makes.
func checkSelector(key wire.Key, selector *metav1.LabelSelector, template map[string]string) *Refusal {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return &Refusal{InvalidSelector, fmt.Sprintf("the selector of %s is not valid: %v; correct spec.selector", key.Sentence(), err)}
	}
	if selector == nil || s.Empty() {
		return &Refusal{InvalidSelector, fmt.Sprintf("the selector of %s is empty and would select every pod; give spec.selector labels of the pod template", key.Sentence())}
	}
	if !s.Matches(labels.Set(template)) {
		return &Refusal{InvalidSelector, fmt.Sprintf("the selector %q of %s does not match the labels %q of its pod template; make them agree",
			s.String(), key.Sentence(), labels.Set(template).String())}
	}
	return nil
}
