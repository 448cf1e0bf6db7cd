package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// read fills in what an object says; false for one that says nothing.
func (e *entry) read(object client.Object, gone bool) bool {
	onHub := e.cluster == fleet.HubName
	switch o := object.(type) {
	case *corev1.Pod:
		e.pod = podOf(o, gone)
	case *apps.CloneSet:
		if onHub {
			e.asked = askedOf(o.Name, o.Generation, o.Spec.Replicas, &o.Spec, nil)
		} else {
			e.set = setOf(o, gone)
		}
	case *apps.UnitedDeployment:
		if o.Spec.Template.CloneSetTemplate != nil {
			e.asked = askedOf(o.Name, o.Generation, o.Spec.Replicas, &o.Spec.Template.CloneSetTemplate.Spec, o.Spec.UpdateStrategy.ManualUpdate)
			e.asked.numbers = numbersOf(o)
		}
	case *topology.WorkloadPlacement:
		e.placed = placedOf(o)
	case *topology.MemberCluster:
		e.cluster, e.silent = o.Name, silentOf(o)
	}
	if gone && e.pod == nil && e.set == nil {
		return false
	}
	return e.pod != nil && e.pod.owner != "" || e.set != nil || e.asked != nil || e.placed != nil || e.silent != nil
}

func podOf(pod *corev1.Pod, gone bool) *podState {
	p := &podState{uid: pod.UID, name: pod.Name, gone: gone, active: podstate.Active(pod) && !gone, image: pod.Spec.Containers[0].Image}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		p.owner = owner.UID
	}
	p.ended = podstate.Ended(pod)
	if at := pod.DeletionTimestamp; at != nil { // what is written there is when the pod is to be gone; a later delete may shorten that
		p.deleted = at.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	gate := podstate.Condition(pod, apps.InPlaceUpdateReady)
	p.shut = gate != nil && gate.Status != corev1.ConditionTrue || restarts(pod)
	if ready := podstate.Condition(pod, corev1.PodReady); ready != nil {
		p.ready, p.readySince = podstate.Ready(pod) && !p.shut && p.active, ready.LastTransitionTime.Time
	}
	return p
}

// restarts tells whether a container of the pod still runs an older image: nobody but us changes images.
func restarts(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.Name && !strings.HasSuffix(s.Image, c.Image)
		})
	})
}

func setOf(cs *apps.CloneSet, gone bool) *setState {
	s := &setState{
		uid: cs.UID, name: cs.Name, of: place{workload: cs.Name}, observed: cs.Status.ObservedGeneration, gone: gone,
		ready: time.Duration(cs.Spec.MinReadySeconds) * time.Second,
	}
	if owner := metav1.GetControllerOf(cs); owner != nil {
		s.of = place{owner.Name, cs.Spec.Template.Labels[apps.LabelSubset]}
	}
	replicas := ptr.Deref(cs.Spec.Replicas, 1)
	s.spec = cellSpec{generation: cs.Generation, replicas: replicas}
	strategy := strategyOf(cs.Spec.UpdateStrategy.RollingUpdate)
	strategy.Paused = cs.Spec.UpdateStrategy.RollingUpdate != nil && cs.Spec.UpdateStrategy.RollingUpdate.Paused
	// What cannot be resolved permits nothing.
	if limits, err := budget.Resolve(strategy, replicas); err == nil {
		s.spec.maxUnavailable, s.spec.maxSurge = limits.MaxUnavailable, limits.MaxSurge
	}
	return s
}

func strategyOf(rolling *apps.RollingUpdateCloneSetStrategy) budget.Strategy {
	if rolling == nil {
		return budget.Strategy{}
	}
	return budget.Strategy{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge}
}

// askedOf reads a user's object: the limits are those of spec, and the partitions of subsets those of manual, nil for a CloneSet.
func askedOf(name string, generation int64, replicas *int32, spec *apps.CloneSetSpec, manual *apps.ManualUpdate) *askedState {
	strategy := strategyOf(spec.UpdateStrategy.RollingUpdate)
	return &askedState{workload: name, generation: generation, replicas: ptr.Deref(replicas, 1), amounts: func(subset string, n int32) lending.Amounts {
		limits, err := budget.Resolve(strategy, n)
		if err != nil {
			return lending.Amounts{}
		}
		kept := limits.Partition
		if subset != "" {
			kept = 0
			if manual != nil {
				kept = min(max(manual.Partitions[subset], 0), n)
			}
		}
		return lending.Amounts{Update: n - kept, Break: limits.MaxUnavailable, Add: limits.MaxSurge}
	}}
}

// numbersOf reads how many replicas the subsets are to have that have a number: of a percentage a half rounds up.
func numbersOf(u *apps.UnitedDeployment) map[string]int32 {
	const whole = 100
	numbers := map[string]int32{}
	for i := range u.Spec.Topology.Subsets {
		s := &u.Spec.Topology.Subsets[i]
		if s.Replicas == nil {
			continue
		}
		if s.Replicas.Type == intstr.Int {
			numbers[s.Name] = s.Replicas.IntVal
			continue
		}
		if percent, err := strconv.Atoi(strings.TrimSuffix(s.Replicas.StrVal, "%")); err == nil {
			numbers[s.Name] = (ptr.Deref(u.Spec.Replicas, 1)*int32(percent) + whole/2) / whole
		}
	}
	return numbers
}

func placedOf(p *topology.WorkloadPlacement) *placedState {
	out := &placedState{
		workload: p.Spec.Workload.Name, generation: p.Generation, sequence: p.Spec.Sequence, replicas: p.Spec.Replicas, subsets: map[string]subsetState{},
	}
	for i := range p.Spec.Limits {
		l := &p.Spec.Limits[i]
		out.subsets[l.Subset] = subsetState{whole: true, limit: lending.Amounts{Update: l.Update, Break: l.Break, Add: l.Add}}
	}
	for i := range p.Spec.Cells {
		c := &p.Spec.Cells[i]
		s := out.subsets[c.Subset]
		s.replicas += c.Replicas - c.Leaving
		s.held.Update, s.held.Break, s.held.Add = s.held.Update+c.Held.Update, s.held.Break+c.Held.Break, s.held.Add+c.Held.Add
		out.subsets[c.Subset] = s
		out.placed += c.Replicas - c.Leaving
	}
	for i := range p.Spec.Unplaced {
		u := &p.Spec.Unplaced[i]
		out.unplaced += u.Replicas
		for name, s := range out.subsets {
			if name == u.Subset || u.Subset == "" {
				s.whole = false
				out.subsets[name] = s
			}
		}
	}
	return out
}

func silentOf(object client.Object) *silentState {
	m := object.(*topology.MemberCluster)
	return &silentState{meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberSilent)}
}
