package division

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// validate refuses what no division can mean anything for. The numbers of the subsets are checked where they are
// resolved.
func validate(in Input) error {
	if err := validateSubsets(in.Replicas, in.Subsets); err != nil {
		return err
	}
	if err := validateSpread(&in.Spread); err != nil {
		return err
	}
	names := make(map[string]struct{}, len(in.Subsets))
	for _, s := range in.Subsets {
		names[s.Name] = struct{}{}
	}
	for i := range in.Cells {
		c := &in.Cells[i]
		if _, ok := names[c.Subset]; !ok {
			return fmt.Errorf("cell %s: subset %q does not exist: name a subset of the workload", c.place(), c.Subset)
		}
		if err := validateCell(c); err != nil {
			return err
		}
	}
	return nil
}

// validateSorted refuses a cell that is given twice; cells are sorted.
func validateSorted(cells []Cell) error {
	for i := 1; i < len(cells); i++ {
		if a, b := &cells[i-1], &cells[i]; a.Subset == b.Subset && a.Cluster == b.Cluster && a.Zone == b.Zone {
			return fmt.Errorf("cell %s: given twice for subset %q: give each cell once", b.place(), b.Subset)
		}
	}
	return nil
}

func validateSpread(s *Spread) error {
	if !slices.Contains([]By{"", ByCluster, ByZone, ByRegion}, s.By) {
		return fmt.Errorf("spread by %q does not exist: use Cluster, Zone or Region", s.By)
	}
	if !slices.Contains([]Type{"", Available, Compact}, s.Type) {
		return fmt.Errorf("spread of type %q does not exist: use Available, Compact, or leave it out", s.Type)
	}
	if s.MaxSkew < 0 {
		return fmt.Errorf("max skew %d is negative: use 1 or more, or 0 for none", s.MaxSkew)
	}
	type identity struct{ region, zone, cluster string }
	seen := make(map[identity]struct{}, len(s.Bounds))
	for i := range s.Bounds {
		b := &s.Bounds[i]
		id := identity{b.Region, b.Zone, b.Cluster}
		if id == (identity{}) {
			return errors.New("a bound names no region, zone or cluster: name what it holds for")
		}
		if _, ok := seen[id]; ok {
			return fmt.Errorf("%s: bounded twice: give one entry for it", b.title())
		}
		seen[id] = struct{}{}
		if b.Weight != nil && *b.Weight < 0 {
			return fmt.Errorf("%s: weight %d is negative: use 0 or more", b.title(), *b.Weight)
		}
		if err := validateRange(b.title(), b.Min, b.Max); err != nil {
			return err
		}
	}
	return nil
}

func validateCell(c *Cell) error {
	switch {
	case c.Weight < 0:
		return fmt.Errorf("cell %s: weight %d is negative: use 0 or more", c.place(), c.Weight)
	case c.Min < 0:
		return fmt.Errorf("cell %s: min %d is negative: use 0 or more", c.place(), c.Min)
	case c.Current < 0:
		return fmt.Errorf("cell %s: current %d is negative: use 0 or more", c.place(), c.Current)
	case !slices.Contains([]Effect{"", NoSchedule, PreferNoSchedule, NoExecute}, c.Taint):
		return fmt.Errorf(
			"cell %s: taint %q does not exist: use NoSchedule, PreferNoSchedule or NoExecute",
			c.place(),
			c.Taint,
		)
	case c.Max != nil && *c.Max < c.Min:
		return fmt.Errorf("cell %s: min %d is above max %d: lower min or raise max", c.place(), c.Min, *c.Max)
	}
	return nil
}

// place names a cell for an error.
func (c *Cell) place() string {
	if c.Zone == "" {
		return c.Cluster
	}
	return c.Cluster + "/" + c.Zone
}

func validateSubsets(n int32, subsets []Subset) error {
	if n < 0 {
		return fmt.Errorf("replicas %d is negative: use 0 or more", n)
	}
	if len(subsets) == 0 {
		return errors.New("no subset given: give one with an empty name for a workload without subsets")
	}
	seen := make(map[string]struct{}, len(subsets))
	for _, s := range subsets {
		if _, ok := seen[s.Name]; ok {
			return fmt.Errorf("subset %q: given twice: give each subset its own name", s.Name)
		}
		seen[s.Name] = struct{}{}
		if s.Replicas != nil && (s.Min != nil || s.Max != nil) {
			return fmt.Errorf("subset %q: replicas %s excludes min and max: remove one or the other", s.Name, s.Replicas)
		}
		if err := validateRange("subset "+strconv.Quote(s.Name), s.Min, s.Max); err != nil {
			return err
		}
	}
	return nil
}

// validateRange refuses a min above max where that is true for every n: two integers, or two percentages.
func validateRange(owner string, minimum, maximum *intstr.IntOrString) error {
	if minimum == nil || maximum == nil || minimum.Type != maximum.Type {
		return nil
	}
	low, high := int64(minimum.IntVal), int64(maximum.IntVal)
	if minimum.Type == intstr.String {
		low, _ = parsePercent(minimum.StrVal)
		high, _ = parsePercent(maximum.StrVal)
	}
	if low > high {
		return fmt.Errorf("%s: min %s is above max %s: lower min or raise max", owner, minimum, maximum)
	}
	return nil
}
