package budget

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// PerNode is the strategy of a kind with one pod on each node. A nil value is the published default.
type PerNode struct {
	// Partition is on how many nodes the old revision stays; default 0. A percentage rounds down.
	Partition *intstr.IntOrString
	// MaxUnavailable is on how many nodes the pod may be unavailable; default 1, or 0 with a surge.
	MaxUnavailable *intstr.IntOrString
	// MaxSurge is on how many nodes a new pod may run beside the old one; default 0.
	MaxSurge *intstr.IntOrString
}

// Resolve returns the limits for so many nodes. The error names the field.
func (p PerNode) Resolve(nodes int32) (Limits, error) {
	s := Strategy{
		Defaults:       Defaults{MaxUnavailable: new(intstr.FromInt32(1))},
		MaxUnavailable: p.MaxUnavailable, MaxSurge: p.MaxSurge,
	}
	if p.MaxUnavailable == nil && p.MaxSurge != nil && p.MaxSurge.String() != "0" && p.MaxSurge.String() != "0%" {
		s.MaxUnavailable = new(intstr.FromInt32(0))
	}
	limits, err := Resolve(s, nodes)
	if err != nil || p.Partition == nil {
		return limits, err
	}
	kept, err := Scaled(*p.Partition, nodes, Down)
	if err != nil {
		return Limits{}, fmt.Errorf("partition %w", err)
	}
	limits.Partition = min(kept, nodes)
	return limits, nil
}
