package kinds

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/expr"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/sidecars"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// sidecarSetKind is the kind whose pods are those of other workloads. Each member has the SidecarSet; its limits are of
// the pods of all members that have the sidecars. What a revision of it keeps is its template.
func sidecarSetKind() Kind {
	return Kind{
		GVK:                apps.SidecarSetKind,
		Mode:               PerMember,
		NoPods:             true,
		ClusterScoped:      true,
		New:                func() Object { return &apps.SidecarSet{} },
		NewList:            func() ObjectList { return &apps.SidecarSetList{} },
		Read:               readSidecarSet,
		Template:           sidecarSetTemplate(),
		NewPodsUpdated:     newPodsGetNewSidecars,
		Render:             renderSidecarSet,
		Budget:             true,
		UpdateStrategy:     func(o Object) any { return o.(*apps.SidecarSet).Spec.UpdateStrategy },
		Guarded:            limitPaths("spec.updateStrategy"),
		Reflect:            reflectSidecarSet,
		Observe:            observeSidecarSet,
		Held:               []string{podsNotUpgradable, podsWithoutSidecars},
		AnswersWhenStalled: true,
		Status:             sidecarSetStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.SidecarSet).Status },
	}
}

// Reasons of Ready that members report and that no update mends.
const (
	// podsNotUpgradable: pods differ from the SidecarSet in more than images.
	podsNotUpgradable = "PodsNotUpgradable"
	// podsWithoutSidecars: pods were created without the sidecars.
	podsWithoutSidecars = "PodsWithoutSidecars"
)

// sidecarSetTemplate is how what a revision keeps of a SidecarSet is kept in a placement, and put back.
func sidecarSetTemplate() *Template {
	set := func(o Object, raw []byte) (Object, error) {
		content, err := sidecars.Read(raw)
		if err != nil {
			return nil, err
		}
		out := o.DeepCopyObject().(*apps.SidecarSet)
		out.Spec = *content.In(&out.Spec)
		return out, nil
	}
	return &Template{
		Set: set,
		Restore: func(o Object, raw []byte, _ string) Object {
			out, err := set(o, raw)
			if err != nil {
				return nil
			}
			return out
		},
		Revision: func(o Object) string {
			data, err := sidecars.Canonical(sidecars.ContentOf(&o.(*apps.SidecarSet).Spec))
			if err != nil {
				return ""
			}
			return history.Hash(data, nil)
		},
		StillApplies: func(Object, []byte, string) bool { return true },
		RevisionData: func(raw []byte) ([]byte, error) {
			content, err := sidecars.Read(raw)
			if err != nil {
				return nil, err
			}
			return sidecars.Encode(content)
		},
		Canonical: func(data []byte) ([]byte, error) {
			content, err := sidecars.Decode(data)
			if err != nil {
				return nil, err
			}
			return sidecars.Canonical(content)
		},
		Of: func(spec []byte) ([]byte, error) {
			var content sidecars.Content
			if err := json.Unmarshal(spec, &content); err != nil {
				return nil, fmt.Errorf("read the sidecars of a SidecarSet: %w", err)
			}
			return sidecars.Canonical(content)
		},
	}
}

func readSidecarSet(o Object) (Workload, *Rejection) {
	set := o.(*apps.SidecarSet)
	w := NewWorkload(set, apps.SidecarSetKind, nil)
	if err := undecodableSidecar(&set.Spec); err != nil {
		return w, undecodable(w.Key, err)
	}
	if err := expr.Check(&set.Spec); err != nil {
		return w, undecodable(w.Key, err)
	}
	limits, rejection := sidecarSetLimits(w.Key, &set.Spec.UpdateStrategy)
	if rejection != nil {
		return w, rejection
	}
	var err error
	if w.Template, err = sidecars.Canonical(sidecars.ContentOf(&set.Spec)); err != nil {
		return w, undecodable(w.Key, err)
	}
	w.Kept = defaultKept
	if limit := set.Spec.RevisionHistoryLimit; limit != nil {
		w.Kept = max(*limit, 0)
	}
	w.Subsets = []Subset{{Amounts: limits}}
	w.Revision, w.Paused = history.Hash(w.Template, nil), set.Spec.UpdateStrategy.Paused
	w.Selective = set.Spec.UpdateStrategy.Selector != nil
	return w, nil
}

// undecodableSidecar reports the first container or volume that cannot be decoded.
func undecodableSidecar(spec *apps.SidecarSetSpec) error {
	path := field.NewPath("spec")
	for i := range spec.InitContainers {
		if err := spec.InitContainers[i].Err(path.Child("initContainers").Index(i)); err != nil {
			return err
		}
	}
	for i := range spec.Containers {
		if err := spec.Containers[i].Err(path.Child("containers").Index(i)); err != nil {
			return err
		}
	}
	for i := range spec.Volumes {
		if err := spec.Volumes[i].Err(path.Child("volumes").Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// sidecarSetLimits returns the limits for n pods of all members together. Both percentages round up, as published.
func sidecarSetLimits(
	key wire.Key, strategy *apps.SidecarSetUpdateStrategy,
) (func(n int32) lending.Amounts, *Rejection) {
	amount := func(name string, value *intstr.IntOrString, absent int32) (func(int32) int32, *Rejection) {
		if value == nil {
			return func(int32) int32 { return absent }, nil
		}
		of, err := scaled(*value)
		if err != nil {
			return nil, &Rejection{InvalidAmount, fmt.Sprintf("spec.updateStrategy.%s of %s %v", name, key.Sentence(), err)}
		}
		return of, nil
	}
	partition, rejection := amount("partition", strategy.Partition, 0)
	if rejection != nil {
		return nil, rejection
	}
	unavailable, rejection := amount("maxUnavailable", strategy.MaxUnavailable, 1)
	if rejection != nil {
		return nil, rejection
	}
	return func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n - min(partition(n), n), Unavailable: min(max(unavailable(n), 1), n)}
	}, nil
}

// newPodsGetNewSidecars reports whether new pods of a member get the newest sidecars once all of its pods may have them.
// Each new pod raises then both the number of updated pods and the number that may be updated, unless the partition is
// a percentage.
func newPodsGetNewSidecars(o Object) bool {
	partition := o.(*apps.SidecarSet).Spec.UpdateStrategy.Partition
	return partition == nil || partition.Type == intstr.Int || partition.StrVal == "0%"
}

// renderSidecarSet returns the member's SidecarSet. The limits stay the user's for members that get a budget.
func renderSidecarSet(o Object, order *Order) (Manifest, error) {
	spec := o.(*apps.SidecarSet).Spec.DeepCopy()
	if order.Budget == nil {
		replicas, granted, waiting := Total(order.Cells)
		strategy := &spec.UpdateStrategy
		if strategy.Selector == nil { // not beside a partition
			strategy.Partition = new(intstr.FromInt32(max(replicas-granted.Updated, 0)))
		}
		strategy.Paused = strategy.Paused || waiting || granted.Unavailable == 0 ||
			strategy.Selector != nil && granted.Updated == 0
		strategy.MaxUnavailable = new(intstr.FromInt32(max(granted.Unavailable, 1)))
	}
	return Manifest{Spec: spec}, nil
}

func reflectSidecarSet(r *Reflected) (Usage, error) {
	status := apps.SidecarSetStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.SidecarSetUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observeSidecarSet(o Object) Observed {
	set := o.(*apps.SidecarSet)
	strategy := &set.Spec.UpdateStrategy
	out := Observed{
		Generation: set.Status.ObservedGeneration, UpdateRevision: set.Status.LatestRevision, Paused: strategy.Paused,
		OnDelete: strategy.Type == apps.NotUpdateSidecarSetStrategyType,
	}
	if strategy.Selector != nil {
		out.KeptBy = "the selector of pods"
	}
	return out
}

func sidecarSetStatus(o Object, s *Sum, now time.Time) bool {
	sidecarSet := o.(*apps.SidecarSet)
	out := *sidecarSet.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSequence, out.CollisionCount = s.ObservedGeneration, 0, nil
	out.LatestRevision = s.UpdateRevision
	out.MatchedPods, out.ReadyPods, out.NotUpdatablePods = 0, 0, 0
	for _, data := range s.Statuses {
		var status apps.SidecarSetStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		use := cleanUse(work.SidecarSetUse(&status))
		out.MatchedPods += use.Total
		out.ReadyPods += use.Ready
		out.NotUpdatablePods += use.NotUpdatable
	}
	// Those of a status may be of the previous revision.
	out.UpdatedPods, out.UpdatedReadyPods = s.Whole.Updated, s.Whole.UpdatedReady
	for _, c := range sidecarSetConditions(s, &out) {
		set(&out.Conditions, c, now)
	}
	changed := !equality.Semantic.DeepEqual(&sidecarSet.Status, &out)
	sidecarSet.Status = out
	return changed
}

// sidecarSetConditions returns the conditions of a SidecarSet. Where all is as asked but for pods that changes cannot
// reach, they say so.
func sidecarSetConditions(s *Sum, status *apps.SidecarSetStatus) []conditions.Condition {
	out := make([]conditions.Condition, len(s.Conditions))
	for i, c := range s.Conditions {
		atRest := c.Reason == conditions.ReasonAllAvailable
		switch {
		case atRest && s.Held != nil:
			c.Status, c.Reason = corev1.ConditionFalse, s.Held.Reason
			if c.Type == apps.ConditionReady {
				c.Message = s.Held.Message
			}
		case atRest && c.Type == apps.ConditionReady && status.MatchedPods == 0 && len(s.Statuses) > 0:
			c.Message = fmt.Sprintf("no pod of %d members has the sidecars", len(s.Statuses))
		}
		out[i] = c
	}
	return out
}
