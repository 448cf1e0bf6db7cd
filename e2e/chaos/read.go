package main

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// generation returns the generation of an object, of a cell that of what it permits.
func (s *source) generation(object client.Object) int64 {
	e := judge.Entry{}
	if s.read(&e, object, false) && e.Cell != nil {
		return e.Cell.Spec.Generation
	}
	return object.GetGeneration()
}

// read fills in what an object says; false for one that says nothing.
func (s *source) read(e *judge.Entry, object client.Object, gone bool) bool {
	switch o := object.(type) {
	case *corev1.Pod:
		e.Pod = judge.ReadPod(o, gone)
	case *topology.WorkloadPlacement:
		e.Placement = judge.ReadPlacement(o)
	case *policy.PodUnavailableBudget:
		e.Budget = judge.ReadBudget(o, gone)
	case *apps.SidecarSet:
		e.Sidecars = judge.ReadSidecars(o)
	case *topology.MemberCluster:
		e.Cluster, e.Member = o.Name, judge.ReadMember(o)
	default:
		if s.cluster == fleet.HubName {
			e.Desired = s.kind.Desired(o)
		} else {
			e.Cell = s.kind.Cell(o, gone)
		}
	}
	if e.Pod != nil {
		return e.Pod.Owner != ""
	}
	if e.Cell != nil || e.Budget != nil {
		return true
	}
	return !gone && (e.Sidecars != nil || e.Desired != nil || e.Placement != nil || e.Member != nil)
}
