package lending

import (
	"fmt"
	"testing"
)

// A whole rollout in lockstep: every round the members report, the hub lends and writes the orders that changed, and every
// member takes down what it may and brings back what it took down the round before. Besides ending, a rollout must not
// write more than the hand-overs that it needs.
func TestRolloutOrders(t *testing.T) {
	tests := []struct {
		reason    string
		replicas  []int32
		global    Amounts
		maxOrders int // beyond the one per cell that brings the new template
		maxRounds int
	}{
		{"one unit goes from cell to cell: give, take, twice", []int32{4, 4, 4}, Amounts{12, 1, 0}, 4, 40},
		{"equal cells with equal shares hand on nothing", []int32{4, 4, 4}, Amounts{12, 3, 0}, 0, 8},
		{"100 over 34/33/33 with 20 %: the last pods need no hand-over", []int32{34, 33, 33}, Amounts{100, 20, 0}, 0, 20},
		{"a canary of one writes nothing more", []int32{34, 33, 33}, Amounts{1, 20, 0}, 0, 8},
		{"all at once", []int32{4, 2, 9}, Amounts{15, 15, 0}, 0, 8},
		{"uneven cells stay in step, since shares follow replicas", []int32{20, 10, 2}, Amounts{32, 8, 0}, 3, 16},
		{"one unit over twenty cells", twenty(5), Amounts{100, 1, 0}, 38, 280},
		{"a canary of one with one unit starts at once", []int32{4, 4, 4}, Amounts{1, 1, 0}, 0, 6},
		{"a partition that leaves a cell without work", []int32{4, 4, 4}, Amounts{2, 1, 0}, 2, 16},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cells := make([]Cell, len(tc.replicas))
			members := make([]member, len(cells))
			for i, n := range tc.replicas {
				cells[i] = Cell{Key: fmt.Sprint("m", i), Replicas: n}
			}
			orders, rounds := -len(cells), 0
			for quiet := 0; quiet < 3; rounds++ {
				if rounds > tc.maxRounds {
					t.Fatalf("no end after %d rounds: %+v", rounds, members)
				}
				quiet++
				for i, g := range Lend(tc.global, cells) {
					c, m := &cells[i], &members[i]
					if g.Share != c.Share || g.Frozen != m.frozen || c.Sequence == 0 {
						c.Sequence++
						orders++
						quiet = 0
					}
					c.Share, c.Held = g.Share, g.Held
					m.follow(order{sequence: c.Sequence, replicas: c.Replicas, share: g.Share, frozen: g.Frozen})
				}
				for i := range members {
					m := &members[i]
					m.down = 0 // what was down the round before is ready again
					for !m.frozen && m.down < m.share.Break && m.updated < min(m.share.Update, m.replicas) {
						m.down++
						m.updated++
						quiet = 0
					}
					cells[i].Report = &Report{Sequence: m.sequence, InUse: m.inUse(), Updated: m.updated, Available: m.replicas - m.down, Total: m.replicas}
				}
			}
			updated := int32(0)
			for _, m := range members {
				updated += m.updated
			}
			t.Logf("%d orders beyond the first, %d rounds", orders, rounds)
			if updated != tc.global.Update || orders > tc.maxOrders {
				t.Errorf("%d updated, want %d; %d orders beyond the first, at most %d", updated, tc.global.Update, orders, tc.maxOrders)
			}
		})
	}
}

func twenty(replicas int32) []int32 {
	n := make([]int32, 20)
	for i := range n {
		n[i] = replicas
	}
	return n
}
