package delivery

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// cloneSetSpec is the spec of a member's CloneSet: integers everywhere, and never more permission than the member's share.
func cloneSetSpec(cs *apps.CloneSet, cells []topology.Cell) *apps.CloneSetSpec {
	spec := cs.Spec.DeepCopy()
	replicas, share, frozen := sum(cells)
	spec.Replicas = &replicas
	spec.ScaleStrategy.PodsToDelete = nil // pods of one member mean nothing in another
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{}
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	rolling.Partition = new(intstr.FromInt32(max(replicas-share.Update, 0)))
	rolling.MaxUnavailable = new(intstr.FromInt32(share.Break))
	rolling.MaxSurge = new(intstr.FromInt32(share.Add))
	rolling.Paused = rolling.Paused || frozen
	if share.Break == 0 && share.Add == 0 {
		// 0 and 0 is no valid strategy; without permission the member waits.
		rolling.Paused, rolling.MaxUnavailable = true, new(intstr.FromInt32(1))
	}
	if zones := zonesOf(cells); len(zones) > 0 {
		require(&spec.Template.Spec, corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones})
	}
	return spec
}

// zonesOf returns the zones in which a member has cells, none where the policy does not spread by zone. Cells without
// replicas count, so that scaling does not change the pod template.
func zonesOf(cells []topology.Cell) []string {
	var zones []string
	for i := range cells {
		if cells[i].Zone != "" {
			zones = append(zones, cells[i].Zone)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// require adds a requirement on nodes to whatever a pod requires already: the terms of a node affinity are alternatives,
// so each of them gets it.
func require(pod *corev1.PodSpec, requirement corev1.NodeSelectorRequirement) {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	selector := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(selector.NodeSelectorTerms) == 0 {
		selector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range selector.NodeSelectorTerms {
		term := &selector.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, requirement)
	}
}
