package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// podUnavailableBudgetKind is the kind whose limit is over the pods of other workloads. Each member has the budget, and
// may let as many pods be unavailable as it is granted. A member where a pod was refused counts as one that has pods to
// update: it is lent what others do not use.
func podUnavailableBudgetKind() Kind {
	return Kind{
		GVK:                policy.PodUnavailableBudgetKind,
		Mode:               PerMember,
		NoPods:             true,
		New:                func() Object { return &policy.PodUnavailableBudget{} },
		NewList:            func() ObjectList { return &policy.PodUnavailableBudgetList{} },
		Read:               readPodUnavailableBudget,
		Render:             renderPodUnavailableBudget,
		Budget:             true,
		Guarded:            []string{"spec.maxUnavailable", "spec.minAvailable", "spec.protectTotalReplicas"},
		Reflect:            reflectPodUnavailableBudget,
		Observe:            observePodUnavailableBudget,
		AnswersWhenStalled: true,
		Status:             podUnavailableBudgetStatus,
		StatusOf:           func(o Object) any { return &o.(*policy.PodUnavailableBudget).Status },
	}
}

// The reasons of Ready of a budget that holds.
const (
	budgetProtects = "Protected"
	budgetNoPods   = "NoPods"
)

func readPodUnavailableBudget(o Object) (Workload, *Rejection) {
	pub := o.(*policy.PodUnavailableBudget)
	w := NewWorkload(pub, policy.PodUnavailableBudgetKind, nil)
	limit, rejection := budgetLimit(w.Key, pub)
	if rejection != nil {
		return w, rejection
	}
	w.CountsFailures = true
	w.NoWaves = "the policy's rollout.waves and rollout.steps do not hold for PodUnavailableBudgets: a change of " +
		w.Key.Sentence() + " reaches all members at once"
	w.Subsets = []Subset{{Amounts: func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n, Unavailable: limit(n)}
	}}}
	return w, nil
}

// budgetLimit returns how many of n pods may be unavailable. Both percentages round up, as published.
func budgetLimit(key wire.Key, pub *policy.PodUnavailableBudget) (func(n int32) int32, *Rejection) {
	spec := &pub.Spec
	total := func(n int32) int32 {
		if fixed, ok := pub.FixedTotal(); ok {
			return fixed
		}
		return n
	}
	path, amount := "spec.maxUnavailable", spec.MaxUnavailable
	if amount == nil {
		path, amount = "spec.minAvailable", spec.MinAvailable
	}
	if amount == nil {
		return func(int32) int32 { return 0 }, nil // the schema refuses it
	}
	of, err := scaled(*amount)
	if err != nil {
		return nil, &Rejection{InvalidAmount, fmt.Sprintf("%s of %s %v", path, key.Sentence(), err)}
	}
	return func(n int32) int32 {
		most := min(of(total(n)), total(n))
		if spec.MaxUnavailable == nil {
			most = max(total(n)-of(total(n)), 0)
		}
		// Of a total that is named those that must stay are a fixed number, however many pods there are.
		return min(most, max(n-(total(n)-most), 0))
	}, nil
}

// renderPodUnavailableBudget returns the member's budget. Its own numbers are for members that get no amounts: those
// protect every pod. The total of all clusters is none of a member's: an override may give a member one, by its
// annotation.
func renderPodUnavailableBudget(o Object, order *Order) (Manifest, error) {
	pub := o.(*policy.PodUnavailableBudget)
	spec := pub.Spec.DeepCopy()
	if order.Budget == nil {
		spec.MaxUnavailable, spec.MinAvailable = new(intstr.FromInt32(0)), nil
	}
	spec.ProtectTotalReplicas = nil
	manifest := Manifest{Spec: spec}
	if _, has := pub.Annotations[policy.AnnotationProtectTotalReplicas]; has {
		manifest.Annotations = map[string]string{policy.AnnotationProtectTotalReplicas: ""} // the user's would be carried
	}
	return manifest, nil
}

func reflectPodUnavailableBudget(r *Reflected) (Usage, error) {
	status := policy.PodUnavailableBudgetStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.PodUnavailableBudgetUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observePodUnavailableBudget(o Object) Observed {
	return Observed{Generation: o.(*policy.PodUnavailableBudget).Status.ObservedGeneration, NoDeadline: true}
}

func podUnavailableBudgetStatus(o Object, s *Sum, now time.Time) bool {
	pub := o.(*policy.PodUnavailableBudget)
	out := *pub.Status.DeepCopy()
	out.ObservedGeneration, out.DisruptedPods, out.UnavailablePods, out.WaitingPods = s.ObservedGeneration, nil, nil, nil
	out.TotalReplicas, out.CurrentAvailable = 0, 0
	for _, data := range s.Statuses {
		var status policy.PodUnavailableBudgetStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		out.TotalReplicas += within(status.TotalReplicas, wire.MaxPods)
		out.CurrentAvailable += within(status.CurrentAvailable, wire.MaxPods)
	}
	if fixed, ok := pub.FixedTotal(); ok {
		out.TotalReplicas = fixed
	}
	out.DesiredAvailable, out.UnavailableAllowed = out.TotalReplicas, 0
	if limit, rejection := budgetLimit(wire.KeyFor(policy.PodUnavailableBudgetKind.GroupKind(), pub),
		pub); rejection == nil {
		most := limit(out.TotalReplicas)
		out.DesiredAvailable = out.TotalReplicas - most
		out.UnavailableAllowed = within(out.CurrentAvailable-out.DesiredAvailable, most)
	}
	for _, c := range budgetConditions(s, &out) {
		set(&out.Conditions, c, now)
	}
	changed := !equality.Semantic.DeepEqual(&pub.Status, &out)
	pub.Status = out
	return changed
}

// budgetConditions returns the conditions of a budget. It holds also while pods are unavailable, or wait to go.
func budgetConditions(s *Sum, status *policy.PodUnavailableBudgetStatus) []conditions.Condition {
	var out []conditions.Condition
	for _, c := range s.Conditions {
		holds := s.Provisioned && s.Cause == nil && slices.Contains([]string{conditions.ReasonAllAvailable,
			conditions.ReasonPodsNotAvailable, conditions.ReasonUpdating, conditions.ReasonScaling}, c.Reason)
		switch {
		case c.Type == apps.ConditionProgressing:
			continue
		case !holds:
		case c.Type == apps.ConditionReconciling:
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, budgetProtects, ""
		case c.Type != apps.ConditionReady:
		case status.TotalReplicas == 0:
			c.Status, c.Reason = corev1.ConditionTrue, budgetNoPods
			c.Message = fmt.Sprintf("no pod of %d members is protected", len(s.Statuses))
		default:
			c.Status, c.Reason = corev1.ConditionTrue, budgetProtects
			c.Message = fmt.Sprintf("%d of %d pods in %d members are available, and at least %d must stay so",
				status.CurrentAvailable, status.TotalReplicas, len(s.Statuses), status.DesiredAvailable)
		}
		out = append(out, c)
	}
	return out
}

// set writes a condition without a status away, and any other one in its place.
func set(all *[]metav1.Condition, c conditions.Condition, now time.Time) {
	if c.Status == "" {
		meta.RemoveStatusCondition(all, c.Type)
		return
	}
	meta.SetStatusCondition(all, metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason,
		Message: c.Message, LastTransitionTime: metav1.NewTime(now)})
}
