package spread

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// Unlimited is the cap of a subset that takes any number of pods.
const Unlimited int32 = -1

// Subset is one place for pods, resolved.
type Subset struct {
	Name string
	// Cap is the most pods that it takes, or Unlimited.
	Cap int32
	// Open says that new pods may be sent here: its condition Schedulable is not False.
	Open bool
}

// room reports whether one pod more fits beside count others.
func (s Subset) room(count int32) bool { return s.Cap == Unlimited || count < s.Cap }

// Rule is what a WorkloadSpread means for a number of replicas. It does not change.
type Rule struct {
	// Subsets are in the order of the spec, at least one.
	Subsets []Subset
	// Replicas is the number of pods that percentages are of.
	Replicas int32

	selector labels.Selector
}

// Resolve returns what the WorkloadSpread means for a workload of this many replicas (0 or more). It errs if the
// WorkloadSpread is invalid, as Validate does: then pods start in no subset and are not stamped.
func Resolve(ws *v1beta1.WorkloadSpread, replicas int32) (Rule, error) {
	if err := Validate(ws); err != nil {
		return Rule{}, err
	}
	r := Rule{Subsets: make([]Subset, 0, len(ws.Spec.Subsets)), Replicas: replicas, selector: labels.Everything()}
	for i := range ws.Spec.Subsets {
		s := &ws.Spec.Subsets[i]
		subset := Subset{Name: s.Name, Cap: Unlimited, Open: open(ws, s.Name)}
		if s.MaxReplicas != nil {
			var err error
			if subset.Cap, err = budget.Scaled(*s.MaxReplicas, replicas, budget.Up); err != nil {
				return Rule{}, fmt.Errorf("maxReplicas of subset %s: %w", s.Name, err)
			}
		}
		r.Subsets = append(r.Subsets, subset)
	}
	if filter := ws.Spec.TargetFilter; filter != nil && filter.Selector != nil {
		var err error
		if r.selector, err = metav1.LabelSelectorAsSelector(filter.Selector); err != nil {
			return Rule{}, fmt.Errorf("targetFilter.selector cannot be used: %w", err)
		}
	}
	return r, nil
}

func open(ws *v1beta1.WorkloadSpread, subset string) bool {
	i := slices.IndexFunc(
		ws.Status.SubsetStatuses,
		func(s v1beta1.WorkloadSpreadSubsetStatus) bool { return s.Name == subset },
	)
	return i < 0 ||
		!meta.IsStatusConditionFalse(ws.Status.SubsetStatuses[i].Conditions, v1beta1.WorkloadSpreadSubsetSchedulable)
}

// Selects reports whether the WorkloadSpread is for this pod of its workload: targetFilter.selector matches its labels,
// or there is none.
func (r Rule) Selects(pod *corev1.Pod) bool {
	return r.selector == nil || r.selector.Matches(labels.Set(pod.Labels))
}

// Index returns the place of the subset in the order, from 0; -1 if there is no such subset.
func (r Rule) Index(subset string) int {
	return slices.IndexFunc(r.Subsets, func(s Subset) bool { return s.Name == subset })
}

// Assigned returns the subset that this WorkloadSpread, or an earlier one of its name, gave to the pod, as the
// annotation says. It is "" if the spec no longer has that subset: the pod is in no subset until the subset comes
// back. ok is false if the annotation is missing, cannot be read or names another WorkloadSpread: Match finds the
// subset of such a pod. The uid in the annotation is not compared: OpenKruise writes a random one there, of the
// admission.
func Assigned(pod *corev1.Pod, ws *v1beta1.WorkloadSpread) (subset string, ok bool) {
	text, ok := pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]
	if !ok {
		return "", false
	}
	var matched v1beta1.MatchedWorkloadSpread
	if err := json.Unmarshal([]byte(text), &matched); err != nil || matched.Name != ws.Name || matched.Subset == "" {
		return "", false
	}
	if find(ws, matched.Subset) == nil {
		return "", true
	}
	return matched.Subset, true
}

// Pick returns the subset of a new pod: the first that is open and has room beside counts, the active pods of each
// subset (of the pod's version only, see Target.Version) and those on their way. ok is false if there is none: the pod
// starts in no subset.
func (r Rule) Pick(counts map[string]int32) (subset string, ok bool) {
	for _, s := range r.Subsets {
		if s.Open && s.room(counts[s.Name]) {
			return s.Name, true
		}
	}
	return "", false
}

// PickOrdinal returns the subset of the pod at this position (0 or more) among the ordinals of a StatefulSet: caps 5, 5
// and none give 0 to 4 the first, 5 to 9 the second, and the rest the third. A closed subset is left out, and the later
// ones shift down. ok is false for a position above the sum of the caps.
func (r Rule) PickOrdinal(position int32) (subset string, ok bool) {
	var below int64
	for _, s := range r.Subsets {
		if !s.Open {
			continue
		}
		if below += int64(s.Cap); s.Cap == Unlimited || int64(position) < below {
			return s.Name, true
		}
	}
	return "", false
}
