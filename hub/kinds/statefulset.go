package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/flotilla-dev/flotilla/topology/handover"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

func statefulSetKind() Kind {
	return Kind{
		GVK:            apps.StatefulSetKind,
		New:            func() Object { return &apps.StatefulSet{} },
		NewList:        func() ObjectList { return &apps.StatefulSetList{} },
		Read:           readStatefulSet,
		Divider:        unusedSpreads(),
		Template:       plainTemplate(func(o Object) *apps.PodTemplate { return &o.(*apps.StatefulSet).Spec.Template }),
		Render:         renderStatefulSet,
		Budget:         true,
		UpdateStrategy: func(o Object) any { return o.(*apps.StatefulSet).Spec.UpdateStrategy },
		Guarded: append([]string{"spec.replicas", "spec.selector", "spec.ordinals", "spec.reserveOrdinals"},
			limitPaths("spec.updateStrategy.rollingUpdate")...),
		Reflect:            reflectStatefulSet,
		Observe:            observeStatefulSet,
		Failures:           []Failure{{Type: failedCreatePod, Creates: true}, {Type: failedUpdatePod}},
		AnswersWhenStalled: true,
		Status:             statefulSetStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.StatefulSet).Status },
	}
}

// The published conditions by which a StatefulSet tells of what its controller retries.
const (
	failedCreatePod = string(apps.StatefulSetConditionFailedCreatePod)
	failedUpdatePod = string(apps.StatefulSetConditionFailedUpdatePod)
)

const (
	// mostStart is the highest first ordinal: members get ordinals above it, in ranges of [ordinals.Stride].
	mostStart = 1_000_000_000
	// mostReserved is the largest number of ordinals that can be reserved: each member gets as many more.
	mostReserved = 100_000
)

func readStatefulSet(o Object) (Workload, *Rejection) {
	set := o.(*apps.StatefulSet)
	w := NewWorkload(set, apps.StatefulSetKind, set.Spec.Replicas)
	if err := set.Spec.Template.Err(field.NewPath("spec", "template")); err != nil {
		return w, undecodable(w.Key, err)
	}
	template := &set.Spec.Template.PodTemplateSpec
	if rejection := checkSelector(w.Key, set.Spec.Selector, template.Labels); rejection != nil {
		return w, rejection
	}
	var rejection *Rejection
	if w.Template, w.Kept, rejection = keptOf(w.Key, *template, set.Spec.RevisionHistoryLimit); rejection != nil {
		return w, rejection
	}
	if w.Ordinals, rejection = readOrdinals(w.Key, set); rejection != nil {
		return w, rejection
	}
	limits, rejection := statefulSetLimits(w.Key, "spec.", &set.Spec)
	if rejection != nil {
		return w, rejection
	}
	w.Subsets = []Subset{{Amounts: limits}}
	w.Revision, w.Open, w.Paused = history.Hash(w.Template, nil), true, rollingOf(&set.Spec).Paused
	w.Needs, w.Requests = statefulSetNeeds(set), PodRequests(template)
	if !onDelete(&set.Spec) {
		w.Steps = waves.StepsOf(set.Spec.Flotilla)
	}
	if scale := set.Spec.ScaleStrategy; scale != nil && scale.MaxUnavailable != nil {
		w.Remarks = append(w.Remarks, fmt.Sprintf(
			"scaleStrategy.maxUnavailable %s is not divided yet; it holds in each member", scale.MaxUnavailable))
	}
	return w, nil
}

// statefulSetNeeds returns what the pods name, and the Service of their DNS names, without which they start.
func statefulSetNeeds(set *apps.StatefulSet) []Need {
	needs := NeedsOf(&set.Spec.Template.PodTemplateSpec)
	if set.Spec.ServiceName == "" {
		return needs
	}
	service := Need{topology.DependencyReference{Kind: "Service", Name: set.Spec.ServiceName}, true}
	at, _ := slices.BinarySearchFunc(needs, service, func(a, b Need) int {
		return CompareRefs(a.DependencyReference, b.DependencyReference)
	})
	return slices.Insert(needs, at, service)
}

func readOrdinals(key wire.Key, set *apps.StatefulSet) (*Ordinals, *Rejection) {
	out := &Ordinals{
		Start:     ptr.Deref(set.Spec.Ordinals, apps.StatefulSetOrdinals{}).Start,
		Unordered: onDelete(&set.Spec) || rollingOf(&set.Spec).UnorderedUpdate != nil,
	}
	if out.Start > mostStart {
		return nil, &Rejection{InvalidOrdinals, fmt.Sprintf(
			"spec.ordinals.start %d of %s is above %d, the highest on a hub: each member gets ordinals above it; lower it",
			out.Start, key.Sentence(), mostStart)}
	}
	reserved, err := ordinals.Reserved(set.Spec.ReserveOrdinals)
	if err != nil {
		return nil, &Rejection{InvalidOrdinals, fmt.Sprintf("spec of %s: %v", key.Sentence(), err)}
	}
	var sum int64
	for _, r := range reserved {
		sum += int64(r.End) - int64(r.Start) + 1
	}
	if sum > mostReserved {
		return nil, &Rejection{InvalidOrdinals, fmt.Sprintf(
			"spec.reserveOrdinals of %s reserves %d ordinals, and at most %d can be reserved on a hub; reserve fewer",
			key.Sentence(), sum, mostReserved)}
	}
	out.Reserved = reserved
	return out, nil
}

func onDelete(spec *apps.StatefulSetSpec) bool {
	return spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
}

// rollingOf returns the limits of a rolling update, the zero value without one.
func rollingOf(spec *apps.StatefulSetSpec) apps.RollingUpdateStatefulSetStrategy {
	if onDelete(spec) {
		return apps.RollingUpdateStatefulSetStrategy{}
	}
	return ptr.Deref(spec.UpdateStrategy.RollingUpdate, apps.RollingUpdateStatefulSetStrategy{})
}

// statefulSetLimits returns the limits for n replicas, by the rules of the kind: the partition is a number of pods,
// percentages round down, and OrderedReady is one pod at a time, over all members.
func statefulSetLimits(
	key wire.Key,
	path string,
	spec *apps.StatefulSetSpec,
) (func(n int32) lending.Amounts, *Rejection) {
	rolling, ordered := rollingOf(spec), spec.PodManagementPolicy != appsv1.ParallelPodManagement
	strategy := budget.Strategy{
		Defaults:       budget.Defaults{MaxUnavailable: new(intstr.FromInt32(1)), RoundDown: true},
		MaxUnavailable: rolling.MaxUnavailable,
	}
	if rolling.Partition != nil {
		strategy.Partition = new(intstr.FromInt32(*rolling.Partition))
	}
	if _, err := budget.Resolve(strategy, 1); err != nil {
		return nil, &Rejection{InvalidAmount, fmt.Sprintf("%supdateStrategy.rollingUpdate of %s: %v", path, key.Sentence(),
			err)}
	}
	return func(n int32) lending.Amounts {
		limits, _ := budget.Resolve(strategy, n) // the error was refused above; it does not depend on n
		if ordered {
			limits.MaxUnavailable = 1
		}
		return lending.Amounts{Updated: n - limits.Partition, Unavailable: limits.MaxUnavailable}
	}, nil
}

// renderStatefulSet returns the member's StatefulSet. The limits stay the user's for members that get a budget.
func renderStatefulSet(o Object, order *Order) (Manifest, error) {
	set := o.(*apps.StatefulSet)
	spec := set.Spec.DeepCopy()
	replicas, granted, waiting := Total(order.Cells)
	var annotations map[string]string
	if order.Ordinals != nil {
		replicas = renderOrdinals(spec, order, replicas)
		annotations = handedOver(spec, replicas, order.Ordinals.HandOver)
	}
	spec.Replicas, spec.Flotilla = &replicas, nil // the steps are the hub's
	if order.Budget == nil && !onDelete(&set.Spec) {
		rolling := rollingOf(&set.Spec)
		rolling.Partition = new(max(replicas-granted.Updated, 0))
		rolling.MaxUnavailable = new(intstr.FromInt32(max(granted.Unavailable, 1))) // 0 is no valid limit
		rolling.Paused = rolling.Paused || waiting || granted.Unavailable == 0
		spec.UpdateStrategy.RollingUpdate = &rolling
	}
	return Manifest{Spec: spec, Annotations: annotations}, nil
}

// handedOver returns the annotation with the values that wait for pods of a member, whose ordinals its spec has.
func handedOver(spec *apps.StatefulSetSpec, replicas int32, waiting *topology.HandOverValues) map[string]string {
	if waiting == nil {
		return nil
	}
	own, _ := ordinals.NewSet(ptr.Deref(spec.Ordinals, apps.StatefulSetOrdinals{}).Start, replicas, spec.ReserveOrdinals)
	text := handover.Give(slices.DeleteFunc(slices.Clone(waiting.Pods), func(pod topology.OrdinalValues) bool {
		return !own.Has(pod.Ordinal)
	}))
	if text == "" {
		return nil
	}
	return map[string]string{topology.AnnotationHandedOver: text}
}

// renderOrdinals writes the ordinals of the member into its spec, and returns for how many of replicas it has some.
func renderOrdinals(spec *apps.StatefulSetSpec, order *Order, replicas int32) int32 {
	start := order.Ordinals.Start
	var owned []ordinals.Range
	if block := order.Ordinals.Block(order.Cells[0].Cluster); block != nil {
		owned = RangesOf(block.Ranges)
	}
	reserved, _ := ordinals.Reserved(spec.ReserveOrdinals) // the error was refused before the decision
	reserved = ordinals.Offsets(reserved, start)
	rendered := ordinals.Render(owned, reserved, start)
	spec.Ordinals, spec.ReserveOrdinals = nil, nil
	if rendered.Start > 0 {
		spec.Ordinals = &apps.StatefulSetOrdinals{Start: rendered.Start}
	}
	for _, r := range rendered.Reserved {
		entry := intstr.FromInt32(r.Start)
		if r.End > r.Start {
			entry = intstr.FromString(strconv.Itoa(int(r.Start)) + "-" + strconv.Itoa(int(r.End)))
		}
		spec.ReserveOrdinals = append(spec.ReserveOrdinals, entry)
	}
	var n int32
	for _, r := range ordinals.Take(owned, reserved, replicas) {
		n += r.End - r.Start + 1
	}
	return n
}

// RangesOf returns ranges of a placement in the terms of the calculation.
func RangesOf(recorded []topology.OrdinalRange) []ordinals.Range {
	var out []ordinals.Range
	for _, r := range recorded {
		out = append(out, ordinals.Range{Start: r.Start, End: r.End})
	}
	return out
}

func reflectStatefulSet(r *Reflected) (Usage, error) {
	status := apps.StatefulSetStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	desired := status.Replicas
	if r.Current && r.Replicas != nil {
		desired = *r.Replicas
	}
	return Usage{InUse: []work.SubsetUse{work.StatefulSetUse(desired, &status)}, Answered: r.Seen && r.Current}, nil
}

func observeStatefulSet(o Object) Observed {
	set := o.(*apps.StatefulSet)
	return Observed{
		Generation: set.Status.ObservedGeneration, UpdateRevision: set.Status.UpdateRevision,
		CurrentRevision: set.Status.CurrentRevision, Desired: ptr.Deref(set.Spec.Replicas, defaultReplicas),
		NoDeadline: true, OnDelete: onDelete(&set.Spec), Paused: rollingOf(&set.Spec).Paused,
	}
}

func statefulSetStatus(o Object, s *Sum, now time.Time) bool {
	set := o.(*apps.StatefulSet)
	out := *set.Status.DeepCopy()
	w := s.Whole
	out.ObservedGeneration = s.ObservedGeneration
	out.Replicas, out.ReadyReplicas, out.AvailableReplicas = w.Replicas, w.Ready, w.Available
	out.UpdatedReplicas, out.UpdatedReadyReplicas = w.Updated, w.UpdatedReady
	out.UpdatedAvailableReplicas = w.UpdatedAvailable
	out.UpdateRevision, out.CurrentRevision = s.UpdateRevision, s.CurrentRevision
	if out.CurrentReplicas = max(w.Replicas-w.Updated, 0); out.CurrentRevision == out.UpdateRevision {
		out.CurrentReplicas = w.Updated
	}
	out.LabelSelector = selectorText(set.Spec.Selector)
	out.VolumeClaims, out.UpdateProgress = sumClaims(set, s.Statuses), nil
	out.Conditions = conditions.Merge(out.Conditions, now,
		append(retried(s, failedCreatePod, failedUpdatePod), s.Conditions...)...)
	changed := !equality.Semantic.DeepEqual(&set.Status, &out)
	set.Status = out
	return changed
}

// sumClaims adds up the claims that follow their templates, of the statuses of member objects.
func sumClaims(set *apps.StatefulSet, statuses [][]byte) []apps.VolumeClaimStatus {
	var out []apps.VolumeClaimStatus
	for i := range set.Spec.VolumeClaimTemplates {
		out = append(out, apps.VolumeClaimStatus{VolumeClaimName: set.Spec.VolumeClaimTemplates[i].Name})
	}
	for _, data := range statuses {
		var status struct {
			VolumeClaims []apps.VolumeClaimStatus `json:"volumeClaims"`
		}
		if len(out) == 0 || json.Unmarshal(data, &status) != nil {
			continue
		}
		for _, claims := range status.VolumeClaims {
			for i := range out {
				if out[i].VolumeClaimName == claims.VolumeClaimName {
					out[i].CompatibleReplicas += max(claims.CompatibleReplicas, 0)
					out[i].CompatibleReadyReplicas += max(claims.CompatibleReadyReplicas, 0)
				}
			}
		}
	}
	return out
}
