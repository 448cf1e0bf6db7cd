package delivery

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
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
	keepsAll := budget.KeepsAll(budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge}, ptr.Deref(cs.Spec.Replicas, 1))
	rolling.Partition = new(intstr.FromInt32(max(replicas-share.Update, 0)))
	rolling.MaxUnavailable = new(intstr.FromInt32(share.Break))
	rolling.MaxSurge = new(intstr.FromInt32(share.Add))
	rolling.Paused = rolling.Paused || frozen
	if share.Break == 0 && share.Add == 0 {
		// 0 and 0 is no valid strategy; without permission the member waits. What a person asks for in the member may still go one
		// by one, unless the user lets no available pod go: a pause takes the surge away. What is too many there goes as far as
		// replicas are available without it: so a member reads maxUnavailable beside a pause.
		rolling.Paused = true
		if keepsAll {
			rolling.MaxSurge = new(intstr.FromInt32(1))
		} else {
			rolling.MaxUnavailable = new(intstr.FromInt32(1))
		}
	}
	return spec
}

// spread is what tells a member's CloneSet where its pods run.
func spread(cells []topology.Cell, ws *apps.WorkloadSpread) (map[string]string, error) {
	if ws == nil {
		return zones(cells)
	}
	subsets := []apps.WorkloadSpreadSubset{}
	for i := range ws.Spec.Subsets {
		subset := ws.Spec.Subsets[i].DeepCopy()
		var replicas int32
		has := false
		for j := range cells {
			if cells[j].SpreadSubset == subset.Name {
				replicas, has = replicas+cells[j].Replicas, true
			}
		}
		if !has {
			continue
		}
		subset.MaxReplicas = new(intstr.FromInt32(replicas))
		subset.RequiredNodeSelector = placement.StripDecided(subset.RequiredNodeSelector)
		subsets = append(subsets, *subset)
	}
	if len(subsets) == 0 {
		return nil, nil // all of its pods are above the sum of the caps
	}
	data, err := json.Marshal(subsets)
	if err == nil {
		data, err = json.Marshal(topology.MemberSpread{Name: ws.Name, Subsets: data})
	}
	if err != nil {
		return nil, fmt.Errorf("encode WorkloadSpread %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	return map[string]string{topology.AnnotationSpread: string(data)}, nil
}

// zones is the annotation that tells a member's CloneSet how many pods each of its zones has, nil where the policy does not spread
// by zone. It is no part of the pod template: zones that come, go or are renamed restart nothing.
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
