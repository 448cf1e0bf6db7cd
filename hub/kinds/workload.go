package kinds

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

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
	// Selective reports whether some pods are not to be updated, whatever the limits are.
	Selective bool
	// Steps are those of the workload itself, at which an update stops where the policy has neither steps nor waves.
	Steps []topology.RolloutStep
	// NoWaves says why updates of the workload cannot go in waves, empty if they can.
	NoWaves string
	// Ordinals are those that the user asks for, nil for a kind whose pods have none.
	Ordinals *Ordinals
	// Adaptive is how pods that find no node go to other subsets; nil: they stay in theirs.
	Adaptive *Adaptive
	// Alone: the policy lets one member at a time run it.
	Alone bool
	// Job says how a job goes over the nodes of all members; nil for a kind whose pods run on.
	Job *Job
	// CountsFailures: pods that are unavailable for any reason use the limit of all members together, as those of a
	// budget do. Otherwise only the member where they are has less left.
	CountsFailures bool
	// Remarks are sentences about fields that are not carried out, in a stable order.
	Remarks []string
}

// Job is how a job goes over the nodes of all members. Updated nodes are those with a pod, and unavailable ones those
// whose pod has not ended.
type Job struct {
	// Batches divide the nodes; nil for none.
	Batches *waves.Batches
	// Endless: the job also runs on nodes that come later, and never completes.
	Endless bool
	// Promoted is the batch after which a person lets the job go on without a soak, 0 for none.
	Promoted int32
}

// Ordinals are the ordinals of pods that must be unique over all members.
type Ordinals struct {
	// Start is the first ordinal.
	Start int32
	// Reserved are ordinals that no pod has, in ascending order.
	Reserved []ordinals.Range
	// Unordered reports whether updates do not go from the highest ordinal to the lowest.
	Unordered bool
}

// Subset is a part of the workload: its bounds, the nodes it selects, its limits.
type Subset struct {
	division.Subset
	Term corev1.NodeSelectorTerm
	// Removed reports whether the workload no longer has it, so that its pods are evacuated.
	Removed bool
	// Amounts are the limits over all clusters while the subset has n replicas.
	Amounts func(n int32) lending.Amounts
}

// Rejection is why a decision cannot be made. What is placed stays as it is.
type Rejection struct {
	// Reason is a stable word in CamelCase, Message a sentence with the object, the value and the remedy.
	Reason, Message string
}

// Reasons of rejections.
const (
	// InvalidSelector, InvalidTemplate, InvalidSubsets, InvalidAmount, InvalidCheck: the workload contradicts itself.
	InvalidSelector = "InvalidSelector"
	InvalidTemplate = "InvalidTemplate"
	InvalidSubsets  = "InvalidSubsets"
	InvalidAmount   = "InvalidAmount"
	InvalidCheck    = "InvalidCheck"
	// InvalidOrdinals: the ordinals that the workload asks for cannot be divided.
	InvalidOrdinals = "InvalidOrdinals"
	// UnsupportedTemplate: the workload's template is of a kind that is not divided.
	UnsupportedTemplate = "UnsupportedTemplate"
	// InvalidSpread: the object that divides the workload into subsets cannot be used.
	InvalidSpread = "InvalidSpread"
)

// The published defaults of the strategy Adaptive.
const (
	defaultCritical = 30 * time.Second
	// defaultClosed is how long a member that found no node gets no more pods, where the strategy does not say.
	defaultClosed = 300 * time.Second
	// leastTime is the shortest time of the strategy: times in a placement have whole seconds.
	leastTime = time.Second
)

// Adaptive is the strategy of that name: pods that find no node in the members of one subset run in the next one.
type Adaptive struct {
	// Critical is how long a pod may find no node; it holds instead of reschedule.after. Closed is how long a member
	// that found none gets no more pods the first time.
	Critical, Closed time.Duration
}

// NewWorkload fills what all kinds have in common.
func NewWorkload(o Object, gvk schema.GroupVersionKind, replicas *int32) Workload {
	w := Workload{
		Key:    wire.KeyFor(gvk.GroupKind(), o),
		Labels: o.GetLabels(),
		Ref: topology.WorkloadReference{
			APIVersion: gvk.GroupVersion().
				String(),
			Kind: gvk.Kind, Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
			ClusterScoped: o.GetNamespace() == "",
		},
		Replicas: 1, // the default of all kinds
	}
	if replicas != nil {
		w.Replicas = *replicas
	}
	return w
}

// checkSelector refuses a selector that does not select the pods that the template makes.
func checkSelector(key wire.Key, selector *metav1.LabelSelector, template map[string]string) *Rejection {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return &Rejection{
			InvalidSelector,
			fmt.Sprintf("the selector of %s is not valid: %v; correct spec.selector", key.Sentence(), err),
		}
	}
	if selector == nil || s.Empty() {
		return &Rejection{
			InvalidSelector,
			fmt.Sprintf(
				"the selector of %s is empty and would select every pod; give spec.selector labels of the pod template",
				key.Sentence(),
			),
		}
	}
	if !s.Matches(labels.Set(template)) {
		return &Rejection{
			InvalidSelector,
			fmt.Sprintf("the selector %q of %s does not match the labels %q of its pod template; make them agree",
				s.String(), key.Sentence(), labels.Set(template).String()),
		}
	}
	return nil
}

// wrongTerm says which requirement on nodes can never be met, since it lacks its values; empty if there is none.
func wrongTerm(path string, term *corev1.NodeSelectorTerm) string {
	for _, part := range []struct {
		field string
		list  []corev1.NodeSelectorRequirement
	}{{"matchExpressions", term.MatchExpressions}, {"matchFields", term.MatchFields}} {
		for i := range part.list {
			r := &part.list[i]
			if (r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn) && len(r.Values) == 0 {
				return fmt.Sprintf("%s.%s[%d] asks for %s with operator %s and no values; name them, or use Exists or DoesNotExist",
					path, part.field, i, r.Key, r.Operator)
			}
		}
	}
	return ""
}

// withoutDecided removes the requirements that the hub has decided. A zone stays, because a member may have several.
func withoutDecided(requirements []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	return slices.DeleteFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == topology.LabelCluster || r.Key == corev1.LabelTopologyRegion
	})
}

// limitPaths are the fields of a rolling update that the hub divides.
func limitPaths(under string) []string {
	return []string{under + ".partition", under + ".maxUnavailable", under + ".maxSurge", under + ".paused"}
}
