package lending

import (
	"fmt"
	"testing"
)

// A whole rollout in lockstep: every round the members report, the hub lends and writes the orders that changed, and
// every member takes down what it may and brings back what it took down the round before. Besides ending, a rollout
// must not write more than the hand-overs that it needs.
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
		{"uneven cells stay in step, since shares follow replicas, and at rest two orders give back what was handed on",
			[]int32{20, 10, 2}, Amounts{32, 8, 0}, 5, 16},
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
					if g.Granted != c.Granted || g.Waiting != m.frozen || c.Sequence == 0 {
						c.Sequence++
						orders++
						quiet = 0
					}
					c.Granted, c.Reserved = g.Granted, g.Reserved
					m.follow(order{sequence: c.Sequence, replicas: c.Replicas, share: g.Granted, frozen: g.Waiting})
				}
				for i := range members {
					m := &members[i]
					m.down = 0 // what was down the round before is ready again
					for !m.frozen && m.down < m.share.Unavailable && m.updated < min(m.share.Updated, m.replicas) {
						m.down++
						m.updated++
						quiet = 0
					}
					cells[i].Report = &Report{Sequence: m.sequence, InUse: m.inUse(), Updated: m.updated,
						Available: m.replicas - m.down, Total: m.replicas}
				}
			}
			updated := int32(0)
			for _, m := range members {
				updated += m.updated
			}
			t.Logf("%d orders beyond the first, %d rounds", orders, rounds)
			if updated != tc.global.Updated || orders > tc.maxOrders {
				t.Errorf("%d updated, want %d; %d orders beyond the first, at most %d", updated, tc.global.Updated, orders,
					tc.maxOrders)
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

// The user raises the partition in the middle of a rollout, or at its end, in lockstep as above: as many pods go back
// as members can bring back, none is updated for another one, and then nothing is written any more.
func TestRaisedPartition(t *testing.T) {
	tests := []struct {
		reason    string
		updated   []int32 // pods of three members of 4 each when the partition is raised
		stuck     []bool  // members that have no old revision
		global    Amounts
		want      []int32
		maxOrders int // the first one of each cell counts
	}{
		{"the second of three is at work: it goes back, the first one cannot", []int32{4, 2, 0}, []bool{true, false, false},
			Amounts{5, 1, 0}, []int32{4, 1, 0}, 3},
		{"what cannot go back is more than is asked for", []int32{4, 4, 2}, []bool{true, true, false}, Amounts{3, 1, 0},
			[]int32{4, 4, 0}, 4},
		{"all are updated and none can go back", []int32{4, 4, 4}, []bool{true, true, true}, Amounts{6, 1, 0},
			[]int32{4, 4, 4}, 3},
		{"all can go back, one after the other", []int32{2, 2, 2}, []bool{false, false, false}, Amounts{0, 1, 0},
			[]int32{0, 0, 0}, 8},
		{"all can go back, at once", []int32{2, 2, 2}, []bool{false, false, false}, Amounts{0, 6, 0}, []int32{0, 0, 0}, 3},
		{"less is asked for than is updated nowhere", []int32{1, 0, 0}, []bool{false, false, false}, Amounts{2, 1, 0}, nil,
			5},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cells, members := make([]Cell, 3), make([]member, 3)
			before := Amounts{12, tc.global.Unavailable, 0}
			for i := range cells {
				cells[i] = Cell{Key: fmt.Sprint("m", i), Replicas: 4}
			}
			for i, g := range Lend(before, cells) {
				cells[i].Granted, cells[i].Reserved, cells[i].Sequence = g.Granted, g.Reserved, 1
				m := &members[i]
				m.current = -1
				if tc.stuck[i] {
					m.current = 0
				}
				m.follow(order{sequence: 1, replicas: 4, share: g.Granted, frozen: g.Waiting})
				m.updated = tc.updated[i]
				cells[i].Report = &Report{Sequence: 1, InUse: m.inUse(), Updated: m.updated, Available: 4, Total: 4,
					CanGoBack: m.canGoBack()}
			}
			orders, updates := 0, 0
			for round, quiet := 0, 0; quiet < 3; round++ {
				if round > 40 {
					t.Fatalf("no end: %+v", members)
				}
				quiet++
				for i, g := range Lend(tc.global, cells) {
					c, m := &cells[i], &members[i]
					if g.Granted != c.Granted || g.Waiting != m.frozen {
						c.Sequence++
						orders++
						quiet = 0
					}
					c.Granted, c.Reserved = g.Granted, g.Reserved
					m.follow(order{sequence: c.Sequence, replicas: 4, share: g.Granted, frozen: g.Waiting})
				}
				for i := range members {
					m := &members[i]
					for m.down = 0; !m.frozen && m.down < m.share.Unavailable; m.down++ {
						if m.updated < m.share.Updated {
							m.updated++
							updates++
						} else if m.updated > m.share.Updated && m.canGoBack() {
							m.updated--
						} else {
							break
						}
						quiet = 0
					}
					cells[i].Report = &Report{Sequence: m.sequence, InUse: m.inUse(), Updated: m.updated, Available: 4 - m.down,
						Total: 4, CanGoBack: m.canGoBack()}
				}
			}
			total := int32(0)
			for i := range members {
				total += members[i].updated
				if tc.want != nil && members[i].updated != tc.want[i] {
					t.Errorf("m%d has %d updated pods, want %d", i, members[i].updated, tc.want[i])
				}
			}
			if tc.want == nil && total != tc.global.Updated || tc.want != nil && updates > 0 || orders > tc.maxOrders {
				t.Errorf("%d updated, %d on the way; %d orders, at most %d", total, updates, orders, tc.maxOrders)
			}
			t.Logf("%d orders", orders)
		})
	}
}

// One unit goes from member to member until all pods have restarted in place, in lockstep as above.
func TestRestartInTurn(t *testing.T) {
	for _, tc := range []struct {
		reason      string
		replicas    []int32
		unavailable int32
		maxOrders   int
	}{
		{"one unit: give and take, twice, and back at rest", []int32{4, 4, 4}, 1, 6},
		{"a unit for each: nothing is handed on", []int32{4, 4, 4}, 3, 0},
		{"one unit over twenty members", twenty(2), 1, 40},
		{"a member without pods", []int32{3, 0, 3}, 1, 4},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			cells, members := make([]Cell, len(tc.replicas)), make([]member, len(tc.replicas))
			total := int32(0)
			for i, n := range tc.replicas {
				cells[i], total = Cell{Key: fmt.Sprint("m", i), Replicas: n}, total+n
			}
			global, orders := Amounts{Updated: total, Unavailable: tc.unavailable}, 0
			for round, quiet := 0, 0; quiet < 3; round++ {
				if round > 300 {
					t.Fatalf("no end: %+v", members)
				}
				quiet++
				for i, g := range Lend(global, cells) {
					c, m := &cells[i], &members[i]
					if c.Sequence == 0 || g.Granted != c.Granted || g.Waiting != m.frozen {
						c.Sequence++
						orders++
						quiet = 0
					}
					c.Granted, c.Reserved = g.Granted, g.Reserved
					m.follow(order{sequence: c.Sequence, replicas: c.Replicas, share: g.Granted, frozen: g.Waiting})
				}
				down := int32(0)
				for i := range members {
					m := &members[i]
					m.updated = m.replicas
					if round == 3 { // at rest
						m.sees(1)
						orders = 0
					}
					for m.down = 0; !m.frozen && m.down < m.share.Unavailable && m.restarts > 0; m.down++ {
						m.restarts--
						quiet = 0
					}
					down += m.down
					cells[i].Report = &Report{Sequence: m.sequence, InUse: m.inUse(), Updated: m.updated,
						Available: m.replicas - m.down, Total: m.replicas, ToRestart: m.restarts + m.down}
				}
				if down > tc.unavailable {
					t.Fatalf("%d pods are down", down)
				}
				if round < 4 {
					quiet = 0
				}
			}
			for i := range members {
				if members[i].restarts > 0 || members[i].restart != 1 {
					t.Errorf("m%d has still to restart %d pods", i, members[i].restarts)
				}
			}
			t.Logf("%d orders", orders)
			if orders > tc.maxOrders {
				t.Errorf("%d orders, at most %d", orders, tc.maxOrders)
			}
		})
	}
}

// While a cell has pods to update, cells that have only to restart some keep what they use and what is left.
func TestUpdatesBeforeRestarts(t *testing.T) {
	restarting := func(granted, used int32) Cell {
		return Cell{Key: "restarting", Replicas: 4, Granted: Amounts{4, granted, 0}, Reserved: Amounts{4, granted, 0},
			Sequence: 1, Report: &Report{Sequence: 1, InUse: Amounts{4, used, 0}, Updated: 4, Available: 4 - used, Total: 4,
				ToRestart: 4}}
	}
	other := func(updated, restarts, granted int32) Cell {
		return Cell{Key: "other", Replicas: 4, Granted: Amounts{4, granted, 0}, Reserved: Amounts{4, granted, 0}, Sequence: 1,
			Report: &Report{Sequence: 1, InUse: Amounts{updated, 0, 0}, Updated: updated, Available: 4, Total: 4,
				ToRestart: restarts}}
	}
	for _, tc := range []struct {
		reason      string
		cells       []Cell
		unavailable int32
		want        []int32
	}{
		{"an update takes the unit that is not in use", []Cell{restarting(1, 0), other(0, 0, 0)}, 1, []int32{0, 1}},
		{"and waits for one that is in use", []Cell{restarting(1, 1), other(0, 0, 0)}, 1, []int32{1, 0}},
		{"and takes the rest of several", []Cell{restarting(3, 1), other(0, 0, 0)}, 3, []int32{1, 2}},
		{"what an update cannot use stays", []Cell{restarting(3, 0), other(3, 0, 0)}, 3, []int32{2, 1}},
		{"a finished cell gives up what a restart can use", []Cell{restarting(0, 0), other(3, 0, 1),
			{Key: "finished", Replicas: 4, Granted: Amounts{4, 1, 0}, Reserved: Amounts{4, 1, 0}, Sequence: 1,
				Report: &Report{Sequence: 1, InUse: Amounts{4, 0, 0}, Updated: 4, Available: 4, Total: 4}}}, 2, []int32{1, 1, 0}},
		{"a restart takes nothing from a restart", []Cell{restarting(1, 0), other(4, 4, 0)}, 1, []int32{1, 0}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var total int32
			for i := range tc.cells {
				total += tc.cells[i].Replicas
			}
			for range 2 { // the lower order is confirmed by the second one
				for i, g := range Lend(Amounts{Updated: total, Unavailable: tc.unavailable}, tc.cells) {
					c := &tc.cells[i]
					c.Granted, c.Reserved = g.Granted, g.Reserved
					c.Sequence, c.Report.Sequence = 2, 2
				}
			}
			for i, c := range tc.cells {
				if c.Granted.Unavailable != tc.want[i] {
					t.Errorf("%s has %d, want %d", c.Key, c.Granted.Unavailable, tc.want[i])
				}
			}
		})
	}
}
