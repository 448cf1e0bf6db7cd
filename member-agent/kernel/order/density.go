package order

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// Density is how many pods of a workload each place runs. Places are the domains of the template's spread constraints,
// or the nodes if there are none.
type Density struct{ layers []layer }

// layer is one way to divide the nodes into places.
type layer struct {
	domain func(node string) string
	count  map[string]int
	weight float64
}

// NewDensity counts the pods of a workload (all that are active, also those that are not to be removed). topology
// returns the value of a node's label, or "" if it is not known; such nodes count as no place. It is asked once for
// each node and constraint. Without topology the constraints are left out.
func NewDensity(own []*corev1.Pod, constraints []corev1.TopologySpreadConstraint,
	topology func(node, key string) string) *Density {
	nodes := map[string]int{}
	for _, pod := range own {
		if pod.Spec.NodeName != "" {
			nodes[pod.Spec.NodeName]++
		}
	}
	if len(constraints) == 0 || topology == nil {
		return &Density{layers: []layer{{domain: func(node string) string { return node }, count: nodes, weight: 1}}}
	}
	c := &Density{layers: make([]layer, 0, len(constraints))}
	for i := range constraints {
		c.layers = append(c.layers, newLayer(nodes, constraints[i].TopologyKey, topology))
	}
	return c
}

func newLayer(nodes map[string]int, key string, topology func(node, key string) string) layer {
	domains, count := make(map[string]string, len(nodes)), map[string]int{}
	for node, pods := range nodes {
		domains[node] = topology(node, key)
		if domains[node] != "" {
			count[domains[node]] += pods
		}
	}
	return layer{
		domain: func(node string) string { return domains[node] },
		count:  count,
		// The scheduler weighs the constraints like this: a pod too many in one of three zones is worse than on one of a
		// hundred nodes, but not thirty times as bad.
		weight: math.Log(float64(len(count)) + 2),
	}
}

// rankUnit makes ranks of weighted sums: sums that differ by less than a millionth are equal, whatever their rounding.
const rankUnit = 1e6

// ranks returns the ranks of the pods: the more crowded its place, the earlier a pod comes. sequence is the order in
// which they would be removed from one place.
func (c *Density) ranks(pods []*corev1.Pod, sequence []item) []int64 {
	sums := make([]float64, len(pods))
	for _, l := range c.layers {
		gone := make(map[string]int, len(l.count))
		for i := range sequence {
			index := sequence[i].index
			place := l.domain(pods[index].Spec.NodeName)
			if place == "" {
				continue
			}
			sums[index] += l.weight * float64(l.count[place]-gone[place])
			gone[place]++
		}
	}
	out := make([]int64, len(pods))
	for i, sum := range sums {
		out[i] = -int64(math.Round(sum * rankUnit))
	}
	return out
}
