package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func daemonSetKind() Kind {
	return Kind{
		GVK:                apps.DaemonSetKind,
		Mode:               PerMember,
		New:                func() Object { return &apps.DaemonSet{} },
		NewList:            func() ObjectList { return &apps.DaemonSetList{} },
		Read:               readDaemonSet,
		Template:           plainTemplate(func(o Object) *apps.PodTemplate { return &o.(*apps.DaemonSet).Spec.Template }),
		Render:             renderDaemonSet,
		Budget:             true,
		UpdateStrategy:     func(o Object) any { return o.(*apps.DaemonSet).Spec.UpdateStrategy },
		Guarded:            append([]string{"spec.selector"}, limitPaths("spec.updateStrategy.rollingUpdate")...),
		Reflect:            reflectDaemonSet,
		Observe:            observeDaemonSet,
		Failures:           []Failure{{Type: failedCreateDaemon, Creates: true}, {Type: failedUpdateDaemon}},
		Held:               []string{"NodesLost", "BurstReplicasZero"},
		AnswersWhenStalled: true,
		Status:             daemonSetStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.DaemonSet).Status },
	}
}

// The published conditions by which a DaemonSet tells of what its controller retries.
const (
	failedCreateDaemon = string(apps.DaemonSetConditionFailedCreatePod)
	failedUpdateDaemon = string(apps.DaemonSetConditionFailedUpdatePod)
)

// noNodeFits is the reason of Ready where no node of any member fits.
const noNodeFits = "NoNodeFits"

func readDaemonSet(o Object) (Workload, *Rejection) {
	set := o.(*apps.DaemonSet)
	w := NewWorkload(set, apps.DaemonSetKind, nil)
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
	limits, rejection := daemonSetLimits(w.Key, set)
	if rejection != nil {
		return w, rejection
	}
	rolling := rollingDaemon(set)
	w.Subsets = []Subset{{Amounts: limits}}
	w.Revision, w.Paused = history.Hash(w.Template, nil), ptr.Deref(rolling.Paused, false)
	w.Selective = rolling.Selector != nil
	w.Needs, w.Requests = NeedsOf(template), PodRequests(template)
	return w, nil
}

func deletesByHand(set *apps.DaemonSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

// rollingDaemon returns the limits of a rolling update, the zero value without one.
func rollingDaemon(set *apps.DaemonSet) apps.RollingUpdateDaemonSet {
	if deletesByHand(set) {
		return apps.RollingUpdateDaemonSet{}
	}
	return ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, apps.RollingUpdateDaemonSet{})
}

// daemonSetLimits returns the limits for n nodes of all members together, by the rules of the kind.
func daemonSetLimits(key wire.Key, set *apps.DaemonSet) (func(n int32) lending.Amounts, *Rejection) {
	rolling := rollingDaemon(set)
	strategy := budget.PerNode{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
		MaxSurge: rolling.MaxSurge}
	if _, err := strategy.Resolve(1); err != nil {
		return nil, &Rejection{InvalidAmount, fmt.Sprintf("spec.updateStrategy.rollingUpdate of %s: %v", key.Sentence(), err)}
	}
	return func(n int32) lending.Amounts {
		limits, _ := strategy.Resolve(n) // the error was refused above; it does not depend on n
		return lending.Amounts{Updated: n - limits.Partition, Unavailable: limits.MaxUnavailable, Surge: limits.MaxSurge}
	}, nil
}

// renderDaemonSet returns the member's DaemonSet. The limits stay the user's for members that get a budget.
func renderDaemonSet(o Object, order *Order) (Manifest, error) {
	set := o.(*apps.DaemonSet)
	spec := set.Spec.DeepCopy()
	if order.Budget == nil && !deletesByHand(set) {
		replicas, granted, waiting := Total(order.Cells)
		rolling := rollingDaemon(set)
		rolling.Partition = new(intstr.FromInt32(max(replicas-granted.Updated, 0)))
		rolling.Paused = new(ptr.Deref(rolling.Paused, false) || waiting || granted.Unavailable+granted.Surge == 0)
		if granted.Surge > 0 { // an update uses one of them
			rolling.MaxUnavailable, rolling.MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(granted.Surge))
		} else {
			rolling.MaxUnavailable, rolling.MaxSurge = new(intstr.FromInt32(max(granted.Unavailable, 1))), nil
		}
		spec.UpdateStrategy.RollingUpdate = &rolling
	}
	return Manifest{Spec: spec}, nil
}

func reflectDaemonSet(r *Reflected) (Usage, error) {
	status := apps.DaemonSetStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.DaemonSetUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observeDaemonSet(o Object) Observed {
	set := o.(*apps.DaemonSet)
	rolling := rollingDaemon(set)
	out := Observed{
		Generation: set.Status.ObservedGeneration, UpdateRevision: daemonRevision(set, set.Status.UpdateRevision),
		CurrentRevision: daemonRevision(set, set.Status.CurrentRevision),
		OnDelete:        deletesByHand(set), Paused: ptr.Deref(rolling.Paused, false),
	}
	if rolling.Selector != nil {
		out.KeptBy = "the partition, or the selector of nodes,"
	}
	return out
}

// daemonRevision returns the name of the revision with a hash, as a status has it; "" for none.
func daemonRevision(set *apps.DaemonSet, hash string) string {
	if hash == "" {
		return ""
	}
	return history.Name(set.Name, hash)
}

func daemonSetStatus(o Object, s *Sum, now time.Time) bool {
	set := o.(*apps.DaemonSet)
	out := *set.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSequence, out.CollisionCount = s.ObservedGeneration, 0, nil
	sumNodes(&out, s.Statuses)
	// Those of a status may be of the previous revision.
	out.UpdatedNumberScheduled, out.NodeCounts.UpdatedAvailable = s.Whole.Updated, s.Whole.UpdatedAvailable
	// Revisions are hashes, the label of pods.
	out.UpdateRevision = strings.TrimPrefix(s.UpdateRevision, history.Name(set.Name, ""))
	out.CurrentRevision = strings.TrimPrefix(s.CurrentRevision, history.Name(set.Name, ""))
	all := append(retried(s, failedCreateDaemon, failedUpdateDaemon), s.Conditions...)
	if len(s.Statuses) > 0 && out.DesiredNumberScheduled == 0 {
		for i := range all {
			if c := &all[i]; c.Type == apps.ConditionReady && c.Status == corev1.ConditionTrue {
				c.Reason = noNodeFits
				c.Message = fmt.Sprintf("no node of %d members fits the template, so no pod is to run", len(s.Statuses))
			}
		}
	}
	out.Conditions = conditions.Merge(out.Conditions, now, all...)
	changed := !equality.Semantic.DeepEqual(&set.Status, &out)
	set.Status = out
	return changed
}

// sumNodes writes the sums of the counters of the statuses of member objects, but for those of updated pods. A status
// that cannot be read counts as empty.
func sumNodes(out *apps.DaemonSetStatus, statuses [][]byte) {
	var sum apps.DaemonSetStatus
	var counts apps.DaemonSetNodeCounts
	for _, data := range statuses {
		var status apps.DaemonSetStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		use := cleanUse(work.DaemonSetUse(&status))
		sum.DesiredNumberScheduled += use.Desired
		sum.CurrentNumberScheduled += use.Total - use.Surging
		sum.NumberMisscheduled += within(status.NumberMisscheduled, wire.MaxPods)
		sum.NumberReady += use.Ready
		sum.NumberAvailable += use.Available
		sum.NumberUnavailable += within(status.NumberUnavailable, use.Desired)
		counts.Surging += use.Surging
		counts.Withheld += use.Withheld
		counts.NotUpdatable += use.NotUpdatable
		counts.LostUnavailable += use.LostUnavailable
		counts.LostOutdated += use.LostOutdated
	}
	out.DesiredNumberScheduled, out.CurrentNumberScheduled = sum.DesiredNumberScheduled, sum.CurrentNumberScheduled
	out.NumberMisscheduled, out.NumberReady = sum.NumberMisscheduled, sum.NumberReady
	out.NumberAvailable, out.NumberUnavailable = sum.NumberAvailable, sum.NumberUnavailable
	out.NodeCounts = &counts
}
