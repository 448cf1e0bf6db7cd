package lending

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cell is short for a cell of four replicas with Update lent in full. used nil: no report; else the report follows the
// newest order, with so many pods updated and so much of Break in use.
func cell(key string, breaks, reserved int32, updated, inUse int32) Cell {
	return Cell{
		Key: key, Replicas: 4, Granted: Amounts{4, breaks, 0}, Reserved: Amounts{4, reserved, 0}, Sequence: 7,
		Report: &Report{Sequence: 7, InUse: Amounts{updated, inUse, 0}, Updated: updated, Available: 4 - inUse, Total: 4},
	}
}

// late makes the report follow the order before.
func late(c Cell) Cell {
	c.Report.Sequence--
	return c
}

// mute takes the report away.
func mute(c Cell) Cell {
	c.Report = nil
	return c
}

// TestCeiling: a cell gets no more of Update than its ceiling, and keeps what it has above it.
func TestCeiling(t *testing.T) {
	cells := []Cell{
		{Key: "a", Replicas: 6, Ceiling: new(int32(2))},
		{Key: "b", Replicas: 6, Ceiling: new(int32(0))},
		{Key: "c", Replicas: 6, Ceiling: new(int32(1)), Granted: Amounts{Updated: 4}, Reserved: Amounts{Updated: 4}},
		{Key: "d", Replicas: 6},
	}
	for update, want := range map[int32][]int32{18: {2, 0, 4, 6}, 3: {0, 0, 3, 0}, 0: {0, 0, 0, 0}} {
		var got []int32
		for _, g := range Lend(Amounts{Updated: update, Unavailable: 1}, cells) {
			got = append(got, g.Granted.Updated)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of %d: %s", update, diff)
		}
	}
}

func TestLendBreak(t *testing.T) {
	tests := []struct {
		reason string
		global int32
		cells  []Cell
		want   []string // share/held reason, frozen marked by !
	}{
		{
			"one unit: the first cell works, the others are frozen", 1,
			[]Cell{cell("a", 1, 1, 0, 1), cell("b", 0, 0, 0, 0), cell("c", 0, 0, 0, 0)},
			[]string{"1/1 Working", "0/0 Frozen!", "0/0 Frozen!"},
		},
		{
			"finished: the share is lowered first, nothing is raised before that is confirmed", 1,
			[]Cell{cell("a", 1, 1, 4, 0), cell("b", 0, 0, 0, 0), cell("c", 0, 0, 4, 0)},
			[]string{"0/1 Finished!", "0/0 Waiting!", "0/0 Finished!"},
		},
		{
			"an older report confirms nothing", 1,
			[]Cell{late(cell("a", 0, 1, 4, 0)), cell("b", 0, 0, 0, 0), cell("c", 0, 0, 4, 0)},
			[]string{"0/1 Finished!", "0/0 Waiting!", "0/0 Finished!"},
		},
		{
			"confirmed, but a pod is still down: nothing is free yet", 1,
			[]Cell{cell("a", 0, 1, 4, 1), cell("b", 0, 0, 0, 0), cell("c", 0, 0, 4, 0)},
			[]string{"0/1 Finished!", "0/0 Waiting!", "0/0 Finished!"},
		},
		{
			"confirmed: handed on", 1,
			[]Cell{cell("a", 0, 1, 4, 0), cell("b", 0, 0, 0, 0), cell("c", 0, 0, 4, 0)},
			[]string{"0/0 Finished!", "1/1 Working", "0/0 Finished!"},
		},
		{
			"all finished: nothing moves", 1,
			[]Cell{cell("a", 0, 0, 4, 0), cell("b", 0, 0, 4, 0), cell("c", 1, 1, 4, 0)},
			[]string{"0/0 Finished!", "0/0 Finished!", "1/1 Finished"},
		},
		{
			"all finished: a limit that was raised is lent by replicas", 3,
			[]Cell{cell("a", 0, 0, 4, 0), cell("b", 1, 1, 4, 0)},
			[]string{"1/1 Finished", "2/2 Finished"},
		},
		{
			"all finished, and the last ones have it all: the share is lowered first", 6,
			[]Cell{cell("a", 0, 0, 4, 0), cell("b", 2, 2, 4, 0), cell("c", 4, 4, 4, 0)},
			[]string{"0/0 Waiting!", "2/2 Finished", "2/4 Finished"},
		},
		{
			"and it goes back by replicas when that is confirmed", 6,
			[]Cell{cell("a", 0, 0, 4, 0), cell("b", 2, 2, 4, 0), cell("c", 2, 4, 4, 0)},
			[]string{"2/2 Finished", "2/2 Finished", "2/2 Finished"},
		},
		{
			"while a pod is down nothing goes back", 6,
			[]Cell{cell("a", 0, 0, 4, 0), cell("b", 2, 2, 4, 1), cell("c", 4, 4, 4, 0)},
			[]string{"0/0 Finished!", "2/2 Finished", "4/4 Finished"},
		},
		{
			"nor while a cell is silent", 6,
			[]Cell{cell("a", 0, 0, 4, 0), mute(cell("b", 2, 2, 4, 0)), cell("c", 4, 4, 4, 0)},
			[]string{"0/0 Finished!", "2/2 Silent", "4/4 Finished"},
		},
		{
			"what is no whole number stays above or below", 4,
			[]Cell{cell("a", 1, 1, 4, 0), cell("b", 1, 1, 4, 0), cell("c", 2, 2, 4, 0)},
			[]string{"1/1 Finished", "1/1 Finished", "2/2 Finished"},
		},
		{
			"there is work: as much as can be used", 3,
			[]Cell{cell("a", 0, 0, 2, 0), cell("b", 1, 1, 4, 0)},
			[]string{"2/2 Working", "1/1 Finished"},
		},
		{
			"the working cell keeps its unit while the others have more to do", 1,
			[]Cell{cell("a", 1, 1, 3, 1), cell("b", 0, 0, 0, 0)},
			[]string{"1/1 Working", "0/0 Frozen!"},
		},
		{
			"finished cells keep what the working one cannot use", 6,
			[]Cell{cell("a", 2, 2, 4, 0), cell("b", 2, 2, 3, 1), cell("c", 2, 2, 4, 0)},
			[]string{"2/2 Finished", "2/2 Working", "2/2 Finished"},
		},
		{
			"and hand on what it can use", 6,
			[]Cell{cell("a", 2, 2, 4, 0), cell("b", 2, 2, 1, 2), cell("c", 2, 2, 4, 0)},
			[]string{"1/2 Finished", "2/2 Waiting", "2/2 Finished"},
		},
		{
			"a silent cell keeps what it has and gets no more", 3,
			[]Cell{mute(cell("a", 1, 1, 0, 0)), cell("b", 1, 1, 0, 1), cell("c", 0, 0, 4, 0)},
			[]string{"1/1 Silent", "2/2 Working", "0/0 Finished!"},
		},
		{
			"nobody has reported: by replicas", 6,
			[]Cell{mute(cell("a", 4, 4, 0, 0)), mute(cell("b", 2, 2, 0, 0)), mute(cell("c", 0, 0, 0, 0))},
			[]string{"2/4 Silent", "2/2 Silent", "0/0 Waiting!"},
		},
		{
			"the user lowers the limit: the sum falls as the cells confirm", 2,
			[]Cell{cell("a", 2, 2, 0, 2), cell("b", 2, 2, 0, 1)},
			[]string{"1/2 Working", "1/2 Working"},
		},
		{
			"more in use than held cannot be, and is not believed", 2,
			[]Cell{cell("a", 1, 1, 0, 9), cell("b", 1, 1, 0, -9)},
			[]string{"1/1 Working", "1/1 Working"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			global := Amounts{Updated: 4 * int32(len(tc.cells)), Unavailable: tc.global}
			var got []string
			for _, g := range Lend(global, tc.cells) {
				mark := ""
				if g.Waiting {
					mark = "!"
				}
				got = append(got, fmt.Sprintf("%d/%d %s%s", g.Granted.Unavailable, g.Reserved.Unavailable, g.Reason, mark))
			}
			// Which of two equal cells gives or takes the odd unit is decided by hash; the tables know the keys a, b, c.
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The partition matrix of spec/federation.md 3.3 and 6.4: the global amount is exact, however many cells there are.
func TestLendUpdateIsExact(t *testing.T) {
	for _, clusters := range []int32{1, 3, 7, 20} {
		for _, update := range []int32{0, 1, 10, 50, 67, 80, 99, 100} {
			cells := make([]Cell, clusters)
			for i := range cells {
				cells[i] = Cell{Key: fmt.Sprint("m", i), Replicas: 100 / clusters}
				if int32(i) < 100%clusters {
					cells[i].Replicas++
				}
			}
			sum := int32(0)
			for i, g := range Lend(Amounts{Updated: update, Unavailable: 20}, cells) {
				sum += g.Granted.Updated
				low := update * cells[i].Replicas / 100
				if g.Granted.Updated < low || g.Granted.Updated > low+1 {
					t.Errorf("%d clusters, %d to update: %d of %d in %s", clusters, update, g.Granted.Updated, cells[i].Replicas,
						g.Key)
				}
			}
			if sum != update {
				t.Errorf("%d clusters, %d to update: lent %d", clusters, update, sum)
			}
		}
	}
}

// A canary of one pod uses what its cell has; the other cells need not be written.
func TestLendCanaryMovesNothing(t *testing.T) {
	global := Amounts{Updated: 1, Unavailable: 20}
	cells := []Cell{{Key: "a", Replicas: 34}, {Key: "b", Replicas: 33}, {Key: "c", Replicas: 33}}
	grants := Lend(global, cells)
	for i, g := range grants {
		cells[i].Granted, cells[i].Reserved, cells[i].Sequence = g.Granted, g.Reserved, 1
		cells[i].Report = &Report{Sequence: 1, Total: cells[i].Replicas}
	}
	if diff := cmp.Diff(grants, Lend(global, cells), cmp.FilterPath(
		func(p cmp.Path) bool { return p.Last().String() == ".Reason" }, cmp.Ignore())); diff != "" {
		t.Errorf("the first reports move something (-before +after):\n%s", diff)
	}
}

func TestLendSurgeAlone(t *testing.T) {
	cells := []Cell{{Key: "a", Replicas: 4}, {Key: "b", Replicas: 4}}
	got := Lend(Amounts{Updated: 8, Surge: 1}, cells)
	if sum := got[0].Granted.Surge + got[1].Granted.Surge; sum != 1 {
		t.Errorf("lent %d of one", sum)
	}
	for _, g := range got {
		if g.Waiting != (g.Granted.Surge == 0) {
			t.Errorf("%s: Add %d, frozen %v", g.Key, g.Granted.Surge, g.Waiting)
		}
	}
}

func TestLendNothing(t *testing.T) {
	if got := Lend(Amounts{Updated: 3, Unavailable: 1}, nil); len(got) != 0 {
		t.Errorf("grants without cells: %v", got)
	}
	for _, g := range Lend(Amounts{Updated: -3, Unavailable: -1, Surge: -1},
		[]Cell{{Key: "a", Replicas: 3}, {Key: "b", Replicas: -1}}) {
		if g.Granted != (Amounts{}) || !g.Waiting {
			t.Errorf("%+v, want nothing", g)
		}
	}
}

func TestBeyond(t *testing.T) {
	tests := []struct {
		reason          string
		report          Report
		replicas, share int32
		back, kept      int32
	}{
		{"no more than the share", Report{InUse: Amounts{Updated: 2}, Total: 4, CanGoBack: true}, 4, 2, 0, 0},
		{"two more, and there is an old revision", Report{InUse: Amounts{Updated: 3}, Total: 4, CanGoBack: true}, 4, 1, 2, 0},
		{"two more, and there is none", Report{InUse: Amounts{Updated: 3}, Total: 4}, 4, 1, 0, 2},
		{"what scaling in removes does not go back", Report{InUse: Amounts{Updated: 4}, Total: 8, CanGoBack: true}, 4, 2, 0,
			0},
		{"an old pod that surges is one of those that are wanted",
			Report{InUse: Amounts{Updated: 3, Surge: 1}, Total: 5, CanGoBack: true}, 4, 2, 0, 0},
		{"nothing is wanted", Report{InUse: Amounts{Updated: 3}, Total: 3, CanGoBack: true}, 0, 0, 0, 0},
		{"a share above the replicas", Report{InUse: Amounts{Updated: 3}, Total: 3, CanGoBack: true}, 2, 3, 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if back, kept := tc.report.Beyond(tc.replicas, tc.share); back != tc.back || kept != tc.kept {
				t.Errorf("back %d, kept %d; want %d and %d", back, kept, tc.back, tc.kept)
			}
		})
	}
}
