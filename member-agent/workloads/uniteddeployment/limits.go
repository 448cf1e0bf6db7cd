package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// readLimits returns the limits that a hub grants to the subsets, nil if there are none.
func readLimits(ud *kruise.UnitedDeployment) (map[string]topology.SubsetLimit, *problem) {
	value, ok := ud.Annotations[topology.AnnotationSubsetLimits]
	if !ok {
		return nil, nil
	}
	limits := map[string]topology.SubsetLimit{}
	if err := json.Unmarshal([]byte(value), &limits); err != nil {
		return nil, &problem{ReasonInvalidLimits, fmt.Sprintf("annotation %s cannot be read: %v; the hub writes it, remove "+
			"it if no hub owns this object", topology.AnnotationSubsetLimits, err)}
	}
	return limits, nil
}

// resolved pauses a subset with neither maxUnavailable nor maxSurge: it could never be updated, so the API rejects or
// corrects it. The 1 has no effect while paused.
func resolved(limit topology.SubsetLimit) topology.SubsetLimit {
	if limit.MaxUnavailable <= 0 && limit.MaxSurge <= 0 {
		return topology.SubsetLimit{MaxUnavailable: 1, Paused: true}
	}
	return limit
}

// limitCloneSet puts the limits of the hub in the place of the template's. With OnDelete the controller updates nothing
// by itself, so there is nothing to limit.
func limitCloneSet(spec *kruise.CloneSetSpec, limit topology.SubsetLimit) {
	if spec.UpdateStrategy.Type == kruise.OnDeleteCloneSetUpdateStrategyType {
		return
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateCloneSetStrategy{}
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	keepsAll := budget.KeepsAll(budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge},
		ptr.Deref(spec.Replicas, 1))
	if none := limit.MaxUnavailable <= 0 && limit.MaxSurge <= 0; none && keepsAll {
		// A pause takes the surge away, and would not take maxUnavailable: pods that are too many go by that.
		limit = topology.SubsetLimit{MaxSurge: 1, Paused: true}
	}
	limit = resolved(limit)
	rolling.MaxUnavailable = new(intstr.FromInt32(limit.MaxUnavailable))
	rolling.MaxSurge = new(intstr.FromInt32(limit.MaxSurge))
	rolling.Paused = rolling.Paused || limit.Paused
}

// limitAdvanced puts the limits of the hub in the place of the template's, as for CloneSets. There is no surge, and in
// order one pod is updated at a time.
func limitAdvanced(spec *kruise.StatefulSetSpec, limit topology.SubsetLimit) {
	if spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateStatefulSetStrategy{}
	}
	limit.MaxSurge = 0
	limit = resolved(limit)
	spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(mostAtOnce(spec, limit.MaxUnavailable)))
	spec.UpdateStrategy.RollingUpdate.Paused = spec.UpdateStrategy.RollingUpdate.Paused || limit.Paused
}

// mostAtOnce returns how many of n pods may be unavailable: without Parallel the schema takes no number but 1.
func mostAtOnce(spec *kruise.StatefulSetSpec, n int32) int32 {
	if spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		return min(n, 1)
	}
	return n
}

// limitDeployment does so for a Deployment. A paused Deployment does not even create its first ReplicaSet, so it is
// paused only if mayPause: there are pods, or it has made a ReplicaSet of this template.
func limitDeployment(spec *appsv1.DeploymentSpec, limit topology.SubsetLimit, mayPause bool) {
	limit = resolved(limit)
	spec.Paused = spec.Paused || limit.Paused && mayPause
	if spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return
	}
	spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
		MaxUnavailable: new(intstr.FromInt32(limit.MaxUnavailable)),
		MaxSurge:       new(intstr.FromInt32(limit.MaxSurge)),
	}
}

// paused reports whether a child object holds its updates.
func paused(object client.Object) bool {
	switch o := object.(type) {
	case *kruise.CloneSet:
		return o.Spec.UpdateStrategy.RollingUpdate != nil && o.Spec.UpdateStrategy.RollingUpdate.Paused
	case *kruise.StatefulSet:
		return o.Spec.UpdateStrategy.RollingUpdate != nil && o.Spec.UpdateStrategy.RollingUpdate.Paused
	case *appsv1.Deployment:
		return o.Spec.Paused
	}
	return false
}

// PassedOn returns the sequence of the newest order of a UnitedDeployment that a child carries out. It is the one that
// all children carry out, unless this child already permits no more than a newer order does.
func PassedOn(owner, owned client.Object) int64 {
	ud, ok := owner.(*kruise.UnitedDeployment)
	if !ok {
		return 0
	}
	if set, ok := owned.(*kruise.CloneSet); ok && follows(ud, set) {
		return max(ud.Status.ObservedSequence, workload.Sequence(ud))
	}
	return ud.Status.ObservedSequence
}

// follows reports whether a child permits no more than the order on its UnitedDeployment does. That can be so before
// the UnitedDeployment has answered the order, for as long as another child of it is refused.
func follows(ud *kruise.UnitedDeployment, set *kruise.CloneSet) bool {
	name := subsetOf(set, set.Spec.Selector)
	limits, bad := readLimits(ud)
	limit, ok := limits[name]
	i := slices.IndexFunc(ud.Spec.Topology.Subsets, func(s kruise.Subset) bool { return s.Name == name })
	if bad != nil || !ok || i < 0 || ud.Spec.Topology.Subsets[i].Replicas == nil {
		return false
	}
	if set.Spec.UpdateStrategy.Type == kruise.OnDeleteCloneSetUpdateStrategyType {
		return true // it updates nothing by itself
	}
	var stays int32
	if manual := ud.Spec.UpdateStrategy.ManualUpdate; manual != nil {
		stays = manual.Partitions[name]
	}
	limited := set.Spec.DeepCopy()
	limitCloneSet(limited, limit)
	if !equality.Semantic.DeepEqual(limited.UpdateStrategy, set.Spec.UpdateStrategy) {
		return false
	}
	partition := set.Spec.UpdateStrategy.RollingUpdate.Partition
	if partition == nil || partition.Type != intstr.Int {
		return false // the hub's orders have a number
	}
	granted := ud.Spec.Topology.Subsets[i].Replicas.IntVal - stays
	return orOne(set.Spec.Replicas)-partition.IntVal <= max(0, granted)
}

// updatedAll reports whether as many pods are updated as are to be, and for a Deployment also that no others are left.
func updatedAll(live *child, expected int32) bool {
	return live.pods.updated >= expected && (live.kind != deploymentKind || live.pods.replicas == live.pods.updated)
}

// pause pauses a child that is being updated while the budget has expired. CloneSets and StatefulSets
// of apps.kruise.io ask for it themselves.
func (p *plan) pause(o *observed, s *subsetPlan, asked *order) {
	live := s.live
	if !o.budget.Granted || live == nil ||
		live.revision == o.revision && live.observed && updatedAll(live, s.expected()) {
		return
	}
	p.sooner(o.budget.AskAgain())
	if !o.budget.Expired || live.kind == cloneSetKind || live.kind == advancedKind {
		return
	}
	limit := topology.SubsetLimit{}
	if asked.limit != nil {
		limit = *asked.limit
	}
	limit.Paused = true
	asked.limit = &limit
}

// A hub grants a subset how many of its pods may be of the newest revision. A StatefulSet knows only from which ordinal
// on pods are updated, makes new pods above it of the newest revision, and leaves those below it as they are. So a pod
// more, with the same number granted, would be one more of the newest revision: of 4 pods with partition 3, pod 3 is
// updated; of 5 pods with partition 4 pods 3 and 4 would be. Therefore the pods are looked at, and here the partition
// of the 5 is 5 until more is granted.

// askForPods is how soon a plan is made again where the cache shows other pods than the StatefulSet's status: no event
// tells when it does not any more.
const askForPods = time.Second

// ordinalPod is a pod of a StatefulSet: its place in the order in which pods are made, from 0, and whether it is of the
// newest revision.
type ordinalPod struct {
	rank    int32
	updated bool
}

// partitionOf returns the least partition with which a StatefulSet of n pods has at most share pods of the newest
// revision, counting those that have it already. It is at least n - share. Where more have it already no further one
// gets it. If frozen, it is at least partition too, and no pod that runs is updated.
//
// It costs as much as there are pods, however large n is: anybody may ask for two thousand million.
func partitionOf(n, share, partition int32, pods []ordinalPod, frozen bool) int32 {
	at := make(map[int32]bool, len(pods)) // whether the pod of a rank is updated
	var total int32
	for _, pod := range pods {
		if pod.rank >= n { // it goes
			continue
		}
		at[pod.rank] = pod.updated
		if pod.updated {
			total++
		}
	}
	least := max(n-share, 0)
	if frozen {
		least = max(least, partition)
	}
	q := n
	// free takes ranks that have no pod, down to one, as far as the share lasts.
	free := func(to int32) bool {
		to = max(to, least)
		take := min(max(q-to, 0), max(share-total, 0))
		q, total = q-take, total+take
		return q <= to && q > least
	}
	for _, rank := range slices.Backward(slices.Sorted(maps.Keys(at))) {
		if !free(rank + 1) {
			return q
		}
		switch {
		case at[rank]: // counted already
		case frozen || total >= share:
			return q
		default:
			total++
		}
		q--
	}
	free(0)
	return q
}

// orderStatefulSet turns what a hub grants into the partition of a StatefulSet. It tells to wait where the pods are not
// known: while the StatefulSet's controller has not seen its last change, or the cache not the pods that it tells of.
func (p *plan) orderStatefulSet(o *observed, s *subsetPlan, asked *order) (wait bool) {
	set, isSet := liveObject[*appsv1.StatefulSet](s.live)
	rolling := isSet && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
	frozen := asked.limit != nil && resolved(*asked.limit).Paused
	if asked.limit == nil || !rolling || s.partition == 0 && !frozen || s.live.empty() {
		return false
	}
	switch {
	case s.live.revision != o.revision:
		// Which pods have the newest revision is known when its controller has seen the template. Until then none gets it.
		asked.partition = s.desired
		return false
	case !seen(s.live, o.known):
		return true
	}
	var updated int32
	pods := make([]ordinalPod, 0, len(o.pods[set.UID]))
	for _, pod := range o.pods[set.UID] {
		one := ordinalPod{rank(s.live, pod), pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision}
		if one.updated {
			updated++
		}
		pods = append(pods, one)
	}
	if updated != set.Status.UpdatedReplicas {
		p.sooner(askForPods)
		return true
	}
	var partition int32
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		partition = *r.Partition
	}
	asked.partition = partitionOf(s.desired, s.desired-s.partition, partition, pods, frozen)
	return false
}

// limitStatefulSet puts the limit of the hub in the place of the template's. Without one in the template a StatefulSet
// takes one pod at a time, which is never more than the hub grants to a subset that it does not freeze.
func limitStatefulSet(spec *appsv1.StatefulSetSpec, limit topology.SubsetLimit) {
	rolling := spec.UpdateStrategy.RollingUpdate
	if rolling != nil && rolling.MaxUnavailable != nil {
		rolling.MaxUnavailable = new(intstr.FromInt32(resolved(limit).MaxUnavailable))
	}
}

// countsOrdinals reports whether the pods of the children have to be looked at to carry out what a hub grants.
func countsOrdinals(ud *kruise.UnitedDeployment) bool {
	_, lent := ud.Annotations[topology.AnnotationSubsetLimits]
	return lent && ud.Spec.Template.StatefulSetTemplate != nil
}

// ordinalOf returns the number at the end of a pod's name; ok is false if there is none.
func ordinalOf(pod *corev1.Pod) (ordinal int64, ok bool) {
	at := strings.LastIndexByte(pod.Name, '-')
	ordinal, err := strconv.ParseInt(pod.Name[at+1:], 10, 32)
	return ordinal, err == nil
}

// podName returns the name of the pod at a position.
func podName(set *appsv1.StatefulSet, at int64) string {
	if set.Spec.Ordinals != nil {
		at += int64(set.Spec.Ordinals.Start)
	}
	return set.Name + "-" + strconv.FormatInt(at, 10)
}
