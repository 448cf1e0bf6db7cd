package main

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// read fills in what an object says; false for one that says nothing.
func read(e *judge.Entry, object client.Object, gone bool) bool {
	onHub := e.Cluster == fleet.HubName
	switch o := object.(type) {
	case *corev1.Pod:
		e.Pod = judge.ReadPod(o, gone)
	case *apps.CloneSet:
		if onHub {
			e.Desired = askedOf(o.Name, o.Generation, o.Spec.Replicas, &o.Spec, nil)
		} else {
			e.Cell = setOf(o, gone)
		}
	case *apps.UnitedDeployment:
		if o.Spec.Template.CloneSetTemplate != nil {
			e.Desired = askedOf(o.Name, o.Generation, o.Spec.Replicas, &o.Spec.Template.CloneSetTemplate.Spec,
				o.Spec.UpdateStrategy.ManualUpdate)
			e.Desired.Numbers = numbersOf(o)
		}
	case *topology.WorkloadPlacement:
		e.Placement = judge.ReadPlacement(o)
	case *topology.MemberCluster:
		e.Cluster, e.Member = o.Name, judge.ReadMember(o)
	}
	if gone && e.Pod == nil && e.Cell == nil {
		return false
	}
	return e.Pod != nil && e.Pod.Owner != "" || e.Cell != nil || e.Desired != nil || e.Placement != nil || e.Member != nil
}

func setOf(cs *apps.CloneSet, gone bool) *judge.Cell {
	s := &judge.Cell{
		UID: cs.UID, Name: cs.Name, Of: judge.Place{Workload: cs.Name}, Observed: cs.Status.ObservedGeneration, Gone: gone,
		MinReady: time.Duration(cs.Spec.MinReadySeconds) * time.Second,
	}
	if owner := metav1.GetControllerOf(cs); owner != nil {
		s.Of = judge.Place{Workload: owner.Name, Subset: cs.Spec.Template.Labels[apps.LabelSubset]}
	}
	replicas := ptr.Deref(cs.Spec.Replicas, 1)
	s.Spec = judge.CellSpec{Generation: cs.Generation, Replicas: replicas}
	strategy := strategyOf(cs.Spec.UpdateStrategy.RollingUpdate)
	strategy.Paused = cs.Spec.UpdateStrategy.RollingUpdate != nil && cs.Spec.UpdateStrategy.RollingUpdate.Paused
	// What cannot be resolved permits nothing.
	if limits, err := budget.Resolve(strategy, replicas); err == nil {
		s.Spec.MaxUnavailable, s.Spec.MaxSurge = limits.MaxUnavailable, limits.MaxSurge
	}
	return s
}

func strategyOf(rolling *apps.RollingUpdateCloneSetStrategy) budget.Strategy {
	if rolling == nil {
		return budget.Strategy{}
	}
	return budget.Strategy{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
		MaxSurge: rolling.MaxSurge}
}

// askedOf reads a user's object: the limits are those of spec, and the partitions of subsets those of manual, nil for a
// CloneSet.
func askedOf(name string, generation int64, replicas *int32, spec *apps.CloneSetSpec,
	manual *apps.ManualUpdate) *judge.Desired {
	strategy := strategyOf(spec.UpdateStrategy.RollingUpdate)
	return &judge.Desired{Workload: name, Generation: generation, Replicas: ptr.Deref(replicas, 1), Amounts: func(subset string, n int32) lending.Amounts {
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
