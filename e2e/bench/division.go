package main

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/topology/division"
)

// divisionSection divides 100 000 replicas over 1 000 cells, the largest placement that the hub admits, and ten times
// as many over 5 000.
func divisionSection(_ context.Context, b *bench) error {
	const replicas, cells = 100_000, 1_000
	fresh := divisionInput(replicas, cells, 1)
	plan, err := division.Divide(fresh)
	if err != nil {
		return fmt.Errorf("divide %d over %d cells: %w", replicas, cells, err)
	}
	next := fresh
	next.Replicas++
	next.Cells = make([]division.Cell, cells)
	copy(next.Cells, fresh.Cells)
	current := map[string]int32{}
	for _, share := range plan.Cells {
		current[share.Cluster] = share.Replicas
	}
	for i := range next.Cells {
		next.Cells[i].Current = current[next.Cells[i].Cluster]
	}
	for _, c := range []struct {
		name string
		in   division.Input
	}{
		{"100 000 over 1 000 cells, from nothing", fresh},
		{"one replica more, the last decision kept", next},
		{"100 000 over 10 subsets with 100 cells each", divisionInput(replicas, cells, 10)},
		{"1 000 000 over 5 000 cells, from nothing", divisionInput(10*replicas, 5*cells, 1)},
	} {
		result := testing.Benchmark(func(tb *testing.B) {
			tb.ReportAllocs()
			for tb.Loop() {
				if _, err := division.Divide(c.in); err != nil {
					tb.Fatal(err)
				}
			}
		})
		if result.N == 0 {
			return fmt.Errorf("divide %s: failed", c.name)
		}
		b.report.add("division", c.name, "ms", float64(result.T.Microseconds())/1000/float64(result.N))
		b.report.add("division", c.name+", allocations", "", float64(result.AllocsPerOp()))
	}
	return nil
}

// divisionInput has unequal weights, some floors and some ceilings, as a fleet has.
func divisionInput(replicas int32, cells, subsets int) division.Input {
	in := division.Input{Replicas: replicas, Salt: "bench/web"}
	for i := range subsets {
		subset := division.Subset{Name: fmt.Sprintf("subset-%02d", i)}
		if subsets > 1 && i < subsets-1 {
			subset.Replicas = new(intstr.FromString("10%"))
		}
		in.Subsets = append(in.Subsets, subset)
	}
	for i := range cells {
		cell := division.Cell{
			Subset: in.Subsets[i%subsets].Name, Cluster: fmt.Sprintf("cluster-%04d", i), Weight: int32(1 + i%7),
		}
		if i%10 == 0 {
			cell.Min = 5
		}
		if i%13 == 0 {
			cell.Max = new(int32(150))
		}
		in.Cells = append(in.Cells, cell)
	}
	return in
}
