package division

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Spread says how the number of each subset goes over its cells. The zero value divides by the weights of the cells
// alone.
type Spread struct {
	// By says what the cells are grouped by before the groups are divided over their cells; "" for not at all.
	By By
	// Type says what a share follows; "" for weights.
	Type Type
	// MaxSkew bounds by how many replicas the groups of the first level may differ; 0 for no bound. It bounds what is new:
	// nothing that runs is moved for it.
	MaxSkew int32
	// Bounds are of regions, zones and clusters, over all subsets together. Percentages are of [Input.Replicas].
	Bounds []Bound
}

// By is what cells are grouped by.
type By string

// The groups that there may be. A cell without a region or zone belongs to the group with the empty name.
const (
	// ByCluster groups cells of a cluster's zones: cluster, then zone.
	ByCluster By = "Cluster"
	// ByZone is zone, then cluster.
	ByZone By = "Zone"
	// ByRegion is region, then zone where the cells have one, then cluster.
	ByRegion By = "Region"
)

// Type is what shares follow.
type Type string

// What shares can follow beside weights.
const (
	// Available: the share is proportional to the room that a cell has, with what it runs already.
	Available Type = "Available"
	// Compact: cells are filled one after the other, those in use first, then those with the most room.
	Compact Type = "Compact"
)

// Bound holds for the cells that agree with all of its fields that are not empty; at least one is not.
type Bound struct {
	Region, Zone, Cluster string
	// Weight of the group among those beside it, nil for 1 (a group) or [Cell.Weight] (a cell).
	Weight *int32
	// Min and Max bound the sum of the cells, nil for none. An integer of 0 or more, or "0%" to "100%" of
	// [Input.Replicas], half rounding up.
	Min, Max *intstr.IntOrString
}

// Pool is room that several cells share: those of a cluster, or of a zone of it if Zone is given. Free is what it takes
// beside what they have now, 0 or more; a negative number counts as 0.
type Pool struct {
	Cluster, Zone string
	Free          int32
}

// title names what a bound holds for, as in `zone "a"`.
func (b *Bound) title() string {
	var parts []string
	for _, p := range [...]struct{ what, value string }{{"region", b.Region}, {"zone", b.Zone}, {"cluster", b.Cluster}} {
		if p.value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p.what, p.value))
		}
	}
	return strings.Join(parts, " ")
}

func (b *Bound) holdsFor(c *Cell) bool {
	return (b.Region == "" || b.Region == c.Region) && (b.Zone == "" || b.Zone == c.zone()) &&
		(b.Cluster == "" || b.Cluster == c.Cluster)
}

// limit is a bound, or a pool, as integers over a set of cells.
type limit struct {
	low, high int64 // high is Unbounded for none
	cells     []int // ascending
	reason    Reason
	pool      bool
}

// limitsOf resolves the bounds and pools over sorted cells.
func limitsOf(in Input, cells []Cell) ([]limit, error) {
	var limits []limit
	for i := range in.Spread.Bounds {
		b := &in.Spread.Bounds[i]
		l := limit{high: Unbounded}
		params := map[string]string{"of": b.title()}
		var err error
		if b.Min != nil {
			if l.low, err = resolve(int64(in.Replicas), b.title(), "min", b.Min); err != nil {
				return nil, err
			}
			params["min"] = b.Min.String()
		}
		if b.Max != nil {
			if l.high, err = resolve(int64(in.Replicas), b.title(), "max", b.Max); err != nil {
				return nil, err
			}
			params["max"] = b.Max.String()
		}
		if b.Min == nil && b.Max == nil {
			continue
		}
		l.low, l.reason.Params = min(l.low, l.high), params // where an integer crosses a percentage the ceiling holds
		for j := range cells {
			if b.holdsFor(&cells[j]) {
				l.cells = append(l.cells, j)
			}
		}
		limits = append(limits, l)
	}
	for _, p := range in.Pools {
		l := limit{high: int64(max(p.Free, 0)), pool: true}
		for j := range cells {
			if c := &cells[j]; c.Cluster == p.Cluster && (p.Zone == "" || p.Zone == c.zone()) {
				l.cells = append(l.cells, j)
				l.high += int64(c.Current)
			}
		}
		limits = append(limits, l)
	}
	return slices.DeleteFunc(limits, func(l limit) bool { return len(l.cells) == 0 }), nil
}
