package kinds

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func cloneSetKind() Kind {
	rolling := "spec.updateStrategy.rollingUpdate"
	return Kind{
		GVK:                apps.CloneSetKind,
		New:                func() Object { return &apps.CloneSet{} },
		NewList:            func() ObjectList { return &apps.CloneSetList{} },
		Read:               readCloneSet,
		Divider:            workloadSpreadDivider(),
		Template:           plainTemplate(func(o Object) *apps.PodTemplate { return &o.(*apps.CloneSet).Spec.Template }),
		Render:             renderCloneSet,
		UpdateStrategy:     func(o Object) any { return o.(*apps.CloneSet).Spec.UpdateStrategy },
		Guarded:            append([]string{"spec.replicas", "spec.selector"}, limitPaths(rolling)...),
		Reflect:            reflectCloneSet,
		Observe:            observeCloneSet,
		Failures:           []Failure{{Type: failedScale, Creates: true}, {Type: failedUpdate}},
		AnswersWhenStalled: true,
		Status:             cloneSetStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.CloneSet).Status },
	}
}

// The published conditions by which a CloneSet tells of what its controller retries.
const (
	failedScale  = string(apps.CloneSetConditionFailedScale)
	failedUpdate = string(apps.CloneSetConditionFailedUpdate)
)

func readCloneSet(o Object) (Workload, *Rejection) {
	cs := o.(*apps.CloneSet)
	w := NewWorkload(cs, apps.CloneSetKind, cs.Spec.Replicas)
	if err := cs.Spec.Template.Err(field.NewPath("spec", "template")); err != nil {
		return w, undecodable(w.Key, err)
	}
	if rejection := checkSelector(w.Key, cs.Spec.Selector, cs.Spec.Template.Labels); rejection != nil {
		return w, rejection
	}
	var rejection *Rejection
	if w.Template, w.Kept, rejection = keptOf(w.Key, cs.Spec.Template.PodTemplateSpec,
		cs.Spec.RevisionHistoryLimit); rejection != nil {
		return w, rejection
	}
	rolling := cs.Spec.UpdateStrategy.RollingUpdate
	if cs.Spec.UpdateStrategy.Type == apps.OnDeleteCloneSetUpdateStrategyType {
		rolling = nil // the type does not use it
	}
	limits, rejection := readLimits(w.Key, "spec.updateStrategy.rollingUpdate", rolling)
	if rejection != nil {
		return w, rejection
	}
	w.Revision, w.Open, w.Needs = history.Hash(w.Template, nil), true, NeedsOf(&cs.Spec.Template.PodTemplateSpec)
	w.Requests = PodRequests(&cs.Spec.Template.PodTemplateSpec)
	w.Paused = rolling != nil && rolling.Paused
	w.Subsets = []Subset{{Amounts: limits}}
	if len(cs.Spec.ScaleStrategy.PodsToDelete) > 0 {
		w.Remarks = append(
			w.Remarks,
			"scaleStrategy.podsToDelete is not carried to members yet; set the label "+apps.LabelSpecifiedDelete+" on the pods in their member",
		)
	}
	w.Remarks = append(w.Remarks, remarkOnScale("scaleStrategy", &cs.Spec.ScaleStrategy)...)
	return w, nil
}

// remarkOnScale tells of a number that is not divided. A percentage means the same in each member but for the rounding.
func remarkOnScale(path string, strategy *apps.CloneSetScaleStrategy) []string {
	limit := strategy.MaxUnavailable
	if limit == nil || limit.Type != intstr.Int {
		return nil
	}
	return []string{fmt.Sprintf("%s.maxUnavailable %d is not divided yet; it holds in each member", path, limit.IntVal)}
}

// readLimits returns the limits of a CloneSet's rolling update for n replicas, by the rules of the kind. The strategy
// is resolved once here, to refuse what can never be resolved; percentages are resolved anew for each n.
func readLimits(
	key wire.Key,
	path string,
	rolling *apps.RollingUpdateCloneSetStrategy,
) (func(n int32) lending.Amounts, *Rejection) {
	var strategy budget.Strategy
	if rolling != nil {
		strategy.Partition, strategy.MaxUnavailable, strategy.MaxSurge = rolling.Partition, rolling.MaxUnavailable,
			rolling.MaxSurge
	}
	if _, err := budget.Resolve(strategy, 1); err != nil {
		return nil, &Rejection{InvalidAmount, fmt.Sprintf("%s of %s: %v", path, key.Sentence(), err)}
	}
	return func(n int32) lending.Amounts {
		// The error was refused above; it does not depend on n.
		limits, _ := budget.Resolve(strategy, n)
		return lending.Amounts{Updated: n - limits.Partition, Unavailable: limits.MaxUnavailable, Surge: limits.MaxSurge}
	}, nil
}

// undecodable rejects a workload whose template cannot be decoded.
func undecodable(key wire.Key, err error) *Rejection {
	return &Rejection{InvalidTemplate, fmt.Sprintf("the template of %s cannot be used: %v", key.Sentence(), err)}
}

// renderCloneSet returns the member's CloneSet.
func renderCloneSet(o Object, order *Order) (Manifest, error) {
	annotations, err := zonesOrSubsets(order)
	if err != nil {
		return Manifest{}, err
	}
	return Manifest{Spec: cloneSetSpec(o.(*apps.CloneSet), order.Cells), Annotations: annotations}, nil
}

// cloneSetSpec is the spec of a member's CloneSet: integers everywhere, and never more than the member is granted.
func cloneSetSpec(cs *apps.CloneSet, cells []topology.Cell) *apps.CloneSetSpec {
	spec := cs.Spec.DeepCopy()
	replicas, granted, waiting := Total(cells)
	spec.Replicas = &replicas
	spec.ScaleStrategy.PodsToDelete = nil // pods of one member mean nothing in another
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{}
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	keepsAll := budget.KeepsAll(
		budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge},
		ptr.Deref(cs.Spec.Replicas, 1),
	)
	rolling.Partition = new(intstr.FromInt32(max(replicas-granted.Updated, 0)))
	rolling.MaxUnavailable = new(intstr.FromInt32(granted.Unavailable))
	rolling.MaxSurge = new(intstr.FromInt32(granted.Surge))
	rolling.Paused = rolling.Paused || waiting
	if granted.Unavailable == 0 && granted.Surge == 0 {
		// 0 and 0 is no valid strategy; without permission the member waits. What a person asks for in the member may
		// still go one by one, unless the user lets no available pod go: a pause takes the surge away. What is too
		// many there goes as far as replicas are available without it: so a member reads maxUnavailable beside a
		// pause.
		rolling.Paused = true
		if keepsAll {
			rolling.MaxSurge = new(intstr.FromInt32(1))
		} else {
			rolling.MaxUnavailable = new(intstr.FromInt32(1))
		}
	}
	return spec
}

// zonesOrSubsets returns the annotation that says where the member's pods run: in the subsets of the divider, else in
// zones.
func zonesOrSubsets(order *Order) (map[string]string, error) {
	if order.Divider != nil {
		return memberSubsets(order.Divider.(*apps.WorkloadSpread), order.Cells)
	}
	return zones(order.Cells)
}

// zones is the annotation that tells a member's CloneSet how many pods each of its zones has, nil where the policy
// does not spread by zone. It is no part of the pod template: zones that come, go or are renamed restart nothing.
func zones(cells []topology.Cell) (map[string]string, error) {
	replicas := map[string]int32{}
	for i := range cells {
		if cells[i].Zone != "" {
			replicas[cells[i].Zone] += cells[i].Replicas
		}
	}
	if len(replicas) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(replicas)
	if err != nil {
		return nil, fmt.Errorf("encode the zones: %w", err)
	}
	return map[string]string{topology.AnnotationZones: string(data)}, nil
}

func reflectCloneSet(r *Reflected) (Usage, error) {
	status := apps.CloneSetStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	desired := status.Replicas
	if r.Current && r.Replicas != nil {
		desired = *r.Replicas
	}
	return Usage{
		InUse:    []work.SubsetUse{work.CloneSetUse(desired, &status)},
		Answered: r.Seen && r.Current && r.ObservedSpread == topology.SpreadSeen(r.Annotations),
	}, nil
}

func observeCloneSet(o Object) Observed {
	cs := o.(*apps.CloneSet)
	return Observed{
		Generation: cs.Status.ObservedGeneration, UpdateRevision: cs.Status.UpdateRevision,
		CurrentRevision: cs.Status.CurrentRevision,
		Desired:         ptr.Deref(cs.Spec.Replicas, defaultReplicas),
		NoDeadline:      !conditions.HasDeadline(cs.Spec.ProgressDeadlineSeconds),
		OnDelete:        cs.Spec.UpdateStrategy.Type == apps.OnDeleteCloneSetUpdateStrategyType,
		Paused:          isPaused(cs.Spec.UpdateStrategy),
	}
}

func isPaused(update apps.CloneSetUpdateStrategy) bool {
	return update.RollingUpdate != nil && update.RollingUpdate.Paused
}

func cloneSetStatus(o Object, s *Sum, now time.Time) bool {
	cs := o.(*apps.CloneSet)
	out := *cs.Status.DeepCopy()
	w := s.Whole
	out.ObservedGeneration = s.ObservedGeneration
	out.Replicas, out.ReadyReplicas, out.AvailableReplicas = w.Replicas, w.Ready, w.Available
	out.UpdatedReplicas, out.UpdatedReadyReplicas, out.UpdatedAvailableReplicas = w.Updated, w.UpdatedReady,
		w.UpdatedAvailable
	out.ExpectedUpdatedReplicas = w.ExpectedUpdated
	out.LabelSelector = selectorText(cs.Spec.Selector)
	out.UpdateRevision, out.CurrentRevision = s.UpdateRevision, s.CurrentRevision
	retries := retried(s, failedScale, failedUpdate)
	out.Conditions = conditions.Merge(out.Conditions, now, append(retries, s.Conditions...)...)
	for i := range out.Conditions {
		// The type writes null for a time that is not set, which no schema takes.
		if out.Conditions[i].LastUpdateTime.IsZero() {
			out.Conditions[i].LastUpdateTime = out.Conditions[i].LastTransitionTime
		}
	}
	changed := !equality.Semantic.DeepEqual(&cs.Status, &out)
	cs.Status = out
	return changed
}
