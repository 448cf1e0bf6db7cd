package division

import (
	"fmt"
	"testing"
)

// BenchmarkDivide divides over many cells of one subset: from nothing, with one replica more than placed, and scaled by
// a tenth. The cost must depend on the cells, not on the replicas.
func BenchmarkDivide(b *testing.B) {
	for _, size := range []struct{ replicas, cells int32 }{{1_000, 1_000}, {100_000, 1_000}, {1_000_000_000, 1_000},
		{1_000_000, 5_000}} {
		for _, from := range []string{"nothing", "one-less", "nine-tenths", "ten-ninths"} {
			b.Run(fmt.Sprintf("replicas=%d/cells=%d/from=%s", size.replicas, size.cells, from), func(b *testing.B) {
				in := fleet(size.replicas, size.cells)
				placed := size.replicas
				switch from {
				case "nothing":
					placed = 0
				case "one-less":
					placed--
				case "nine-tenths":
					placed = placed / 10 * 9
				case "ten-ninths":
					placed = placed / 9 * 10
				}
				in.Replicas = placed
				before, err := Divide(in)
				if err != nil {
					b.Fatal(err)
				}
				in.Cells = sortedCells(in)
				for i := range in.Cells {
					in.Cells[i].Current = before.Cells[i].Replicas
				}
				in.Replicas = size.replicas
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Divide(in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// fleet makes cells of three weights, some of them bounded.
func fleet(replicas, cells int32) Input {
	in := Input{Replicas: replicas, Subsets: []Subset{{}}, Salt: "default/web"}
	for i := range cells {
		c := Cell{Cluster: fmt.Sprintf("member-%04d", i), Weight: 1 + i%3}
		if i%10 == 0 {
			c.Max = new(replicas / cells)
		}
		if i%10 == 1 {
			c.Min = 1
		}
		in.Cells = append(in.Cells, c)
	}
	return in
}
