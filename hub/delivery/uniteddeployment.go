package delivery

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// unitedDeploymentSpec is the spec of a member's UnitedDeployment: the subsets that have cells there, each with a number.
func unitedDeploymentSpec(ud *apps.UnitedDeployment, cells []topology.Cell) *apps.UnitedDeploymentSpec {
	spec := ud.Spec.DeepCopy()
	subsets, partitions := []apps.Subset{}, map[string]int32{}
	var total int32
	for i := range spec.Topology.Subsets {
		subset := &spec.Topology.Subsets[i]
		own := cellsOf(cells, subset.Name)
		if len(own) == 0 {
			continue
		}
		replicas, share, _ := sum(own)
		total += replicas
		if stays := replicas - share.Update; stays > 0 {
			partitions[subset.Name] = stays
		}
		subset.Replicas, subset.MinReplicas, subset.MaxReplicas = new(intstr.FromInt32(replicas)), nil, nil
		subset.NodeSelectorTerm.MatchExpressions = slices.DeleteFunc(subset.NodeSelectorTerm.MatchExpressions, decidedByHub)
		subsets = append(subsets, *subset)
	}
	spec.Replicas = &total
	spec.Topology = apps.Topology{Subsets: subsets}
	spec.UpdateStrategy.ManualUpdate = nil
	if len(partitions) > 0 {
		spec.UpdateStrategy.ManualUpdate = &apps.ManualUpdate{Partitions: partitions}
	}
	return spec
}

// decidedByHub tells which requirements have done their work on the hub. A zone stays: a member may have several.
func decidedByHub(r corev1.NodeSelectorRequirement) bool {
	return r.Key == topology.LabelCluster || r.Key == corev1.LabelTopologyRegion
}

func cellsOf(cells []topology.Cell, subset string) []topology.Cell {
	var own []topology.Cell
	for i := range cells {
		if cells[i].Subset == subset {
			own = append(own, cells[i])
		}
	}
	return own
}

// subsetLimits is the annotation that holds each child to its share of its subset's limits. They are told as they are lent:
// the member's controller turns 0 and 0 into a pause.
func subsetLimits(cells []topology.Cell) (map[string]string, error) {
	limits := map[string]topology.SubsetLimit{}
	for i := range cells {
		c := &cells[i]
		limits[c.Subset] = topology.SubsetLimit{MaxUnavailable: c.Share.Break, MaxSurge: c.Share.Add, Paused: c.Frozen}
	}
	data, err := json.Marshal(limits)
	if err != nil {
		return nil, fmt.Errorf("encode the limits of the subsets: %w", err)
	}
	return map[string]string{topology.AnnotationSubsetLimits: string(data)}, nil
}
