package division

import (
	"slices"
	"testing"
)

// TestCrossingLimitsSettle holds cases that random inputs found, in which limits that cross make each division of a plan
// another plan: the plan that is given is divided into itself.
func TestCrossingLimitsSettle(t *testing.T) {
	drift := Input{
		Replicas: 49620, Subsets: parse("s0", "s1"), Salt: "53",
		Cells: []Cell{
			{Subset: "s0", Cluster: "c1", Zone: "z0", Region: "r1", Weight: 1, Max: new(int32(29932)), Current: 59672},
			{Subset: "s0", Cluster: "c1", Zone: "z1", Region: "r1", Weight: 1},
			{Subset: "s0", Cluster: "c2", Zone: "z2", Region: "r2", Weight: 1, Min: 22696, Max: new(int32(23822)), Capacity: new(int32(39891))},
			{Subset: "s1", Cluster: "c0", Zone: "z2", Region: "r0", Weight: 3},
			{Subset: "s1", Cluster: "c1", Zone: "z2", Region: "r1", Weight: 2},
			{Subset: "s1", Cluster: "c2", Zone: "z2", Region: "r2", Weight: 1, Max: new(int32(92025)), Capacity: new(int32(55025)), Current: 69305},
		},
		Spread: Spread{Bounds: append(bounded("region=r1 weight=0 min=3980 max=43383", "cluster=c2 weight=0 min=17818"),
			Bound{Cluster: "c1", Zone: "z2", Min: bounded("zone=z2 min=1831")[0].Min})},
	}
	odd := Input{
		Replicas: 2, Subsets: parse("s0", "s1", "s2"), Salt: "68",
		Cells: []Cell{
			{Subset: "s0", Cluster: "c0", Region: "r0", Max: new(int32(3)), Current: 2},
			{Subset: "s0", Cluster: "c1", Region: "r1"},
			{Subset: "s0", Cluster: "c2", Region: "r2", Weight: 3, Frozen: true, Taint: PreferNoSchedule},
			{Subset: "s1", Cluster: "c0", Region: "r0", Weight: 3, Current: 3},
			{Subset: "s1", Cluster: "c1", Region: "r1"},
			{Subset: "s2", Cluster: "c0", Region: "r0", Weight: 3, Max: new(int32(1))},
		},
		Spread: Spread{Type: Available, Bounds: bounded("region=r2 min=0 max=1", "cluster=c0 weight=3 max=1")},
		Pools:  []Pool{{Cluster: "c2", Free: 2}},
	}
	tests := []struct {
		reason string
		in     Input
	}{
		{"35 replicas go from one cell to another in each of 30 divisions", drift},
		{"the odd replica of a subset that cannot place it goes to another that cannot either", odd},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if !crossed(tc.in) {
				t.Fatal("the limits do not cross")
			}
			plan, err := Divide(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Divide(settled(tc.in, plan))
			if err != nil {
				t.Fatal(err)
			}
			if !sameCells(plan, again) || !slices.Equal(numbers(plan.Subsets), numbers(again.Subsets)) {
				t.Errorf("first\n%s\nthen\n%s", plan, again)
			}
		})
	}
}
