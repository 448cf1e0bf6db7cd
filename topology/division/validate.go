package division

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// validate refuses what no division can mean anything for. The numbers of the subsets are checked where they are resolved.
func validate(in Input) error {
	if err := validateSubsets(in.Replicas, in.Subsets); err != nil {
		return err
	}
	names := make(map[string]struct{}, len(in.Subsets))
	for _, s := range in.Subsets {
		names[s.Name] = struct{}{}
	}
	type identity struct{ subset, cluster, zone string }
	seen := make(map[identity]struct{}, len(in.Cells))
	for i := range in.Cells {
		c := &in.Cells[i]
		if _, ok := names[c.Subset]; !ok {
			return fmt.Errorf("cell %s: subset %q does not exist: name a subset of the workload", c.place(), c.Subset)
		}
		id := identity{c.Subset, c.Cluster, c.Zone}
		if _, ok := seen[id]; ok {
			return fmt.Errorf("cell %s: given twice for subset %q: give each cell once", c.place(), c.Subset)
		}
		seen[id] = struct{}{}
		if err := validateCell(c); err != nil {
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
		if err := validateRange(s); err != nil {
			return err
		}
	}
	return nil
}

// validateRange refuses a min above max where that is true for every n: two integers, or two percentages.
func validateRange(s Subset) error {
	if s.Min == nil || s.Max == nil || s.Min.Type != s.Max.Type {
		return nil
	}
	low, high := int64(s.Min.IntVal), int64(s.Max.IntVal)
	if s.Min.Type == intstr.String {
		low, _ = parsePercent(s.Min.StrVal)
		high, _ = parsePercent(s.Max.StrVal)
	}
	if low > high {
		return fmt.Errorf("subset %q: min %s is above max %s: lower min or raise max", s.Name, s.Min, s.Max)
	}
	return nil
}
