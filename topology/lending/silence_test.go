package lending

import "testing"

// TestSilence: a member of three that are in the middle of a rollout is lost, and comes back.
func TestSilence(t *testing.T) {
	working := func(sequence int64, updated, down int32) *Report {
		return &Report{Sequence: sequence, InUse: Amounts{Updated: updated, Unavailable: down}, Updated: updated, Total: 4,
			CanGoBack: true}
	}
	global := Amounts{Updated: 12, Unavailable: 1}
	cells := []Cell{
		{Key: "east", Replicas: 4, Granted: Amounts{4, 1, 0}, Reserved: Amounts{4, 1, 0}, Sequence: 3,
			Report: working(3, 1, 1)},
		{Key: "south", Replicas: 4, Granted: Amounts{4, 0, 0}, Reserved: Amounts{4, 0, 0}, Sequence: 2,
			Report: working(2, 0, 0)},
		{Key: "west", Replicas: 4, Granted: Amounts{4, 0, 0}, Reserved: Amounts{4, 0, 0}, Sequence: 2,
			Report: working(2, 4, 0)},
	}
	check := func(what string, want ...Amounts) {
		t.Helper()
		for i, g := range Lend(global, cells) {
			if g.Granted != want[2*i] || g.Reserved != want[2*i+1] {
				t.Errorf("%s: %s has share %+v and held %+v, want %+v and %+v", what, g.Key, g.Granted, g.Reserved, want[2*i],
					want[2*i+1])
			}
			cells[i].Granted, cells[i].Reserved = g.Granted, g.Reserved
		}
	}
	all, none := Amounts{4, 1, 0}, Amounts{4, 0, 0}
	check("all are heard", all, all, none, none, none, none)
	cells[0].Lost, cells[0].Sequence = true, 4
	check("east is lost: its share falls, and it still holds it", none, all, none, none, none, none)
	check("again, while the lower order is not written", none, all, none, none, none, none)
	cells[0].Told = true
	check("it is written, and what is in use stays", none, all, none, none, none, none)
	cells[0].Report.InUse.Unavailable = 0
	check("nothing was in use when it was heard last", none, none, all, all, none, none)
	cells[0].Lost, cells[0].Told, cells[0].Report = false, false, working(3, 2, 1)
	check("it is back, with a pod down on an order that is gone: nobody has more for that", none, none, all, all, none,
		none)
	if reason := Lend(global, cells)[0].Reason.Code; reason != Waiting && reason != Frozen {
		t.Errorf("east is %s", reason)
	}
}

// TestSilenceAtRest: nothing is written because a member is silent where nobody has anything to update.
func TestSilenceAtRest(t *testing.T) {
	done := func() *Report { return &Report{Sequence: 1, InUse: Amounts{Updated: 4}, Updated: 4, Total: 4} }
	cells := []Cell{
		{Key: "east", Replicas: 4, Granted: Amounts{4, 1, 1}, Reserved: Amounts{4, 1, 1}, Sequence: 1, Report: done(),
			Lost: true, Told: true},
		{Key: "west", Replicas: 4, Granted: Amounts{4, 0, 0}, Reserved: Amounts{4, 0, 0}, Sequence: 1, Report: done()},
	}
	for i, g := range Lend(Amounts{8, 1, 1}, cells) {
		if g.Granted != cells[i].Granted || g.Reserved != cells[i].Reserved {
			t.Errorf("%s: %+v, was %+v and %+v", g.Key, g, cells[i].Granted, cells[i].Reserved)
		}
	}
}

// TestSilentCanary: a lost member gets no part of a new canary.
func TestSilentCanary(t *testing.T) {
	for _, lost := range []string{"east", "south", "west"} {
		var cells []Cell
		for _, key := range []string{"east", "south", "west"} {
			c := Cell{Key: key, Replicas: 4, Granted: Amounts{0, 1, 0}, Reserved: Amounts{0, 1, 0}, Sequence: 1,
				Lost: key == lost, Told: key == lost}
			cells = append(cells, c)
		}
		updates := int32(0)
		for _, g := range Lend(Amounts{1, 3, 0}, cells) {
			updates += g.Granted.Updated
			if g.Key == lost && g.Granted.Updated > 0 {
				t.Errorf("%s is lost, and gets the canary", lost)
			}
		}
		if updates != 1 {
			t.Errorf("without %s, %d pods may be updated, want 1", lost, updates)
		}
	}
}
