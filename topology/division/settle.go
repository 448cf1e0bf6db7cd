package division

import (
	"cmp"
	"slices"
)

// plan divides what is to be divided, from what is there.
func (d *divider) plan() (Plan, error) {
	plan, err := d.divide()
	if err == nil && len(d.in.Subsets) > 1 && len(plan.Unplaced) > 0 {
		// Where an odd replica of the open subsets went to one that cannot place it, the next division would see that and
		// offer it to another. Doing so at once saves a write that changes the plan without a change of the input.
		for i := range plan.Subsets {
			d.current[i] = int64(plan.Subsets[i].Placed)
		}
		plan, err = d.divide()
	}
	return plan, err
}

// A plan is divided again at most lookAhead times for a better one, and in all at most settleRounds times. Where limits
// cross that cannot all be met, plans can come closer one replica at a time: then it goes on for as long as settleWork
// allows. That also bounds how far is looked ahead, but for leastAhead times. What a division costs is taken as its
// cells times the square of its limits, those of the tree as one; as many of these as settleWork take some tenths of a
// second.
const (
	lookAhead    = 16
	leastAhead   = 2
	settleRounds = 256
	settleWork   = 1 << 20
)

// patience returns how many times a plan is divided again for a better one, and how many times in all.
func (d *divider) patience() (ahead, rounds int) {
	limits := 1 + len(d.all)
	affordable := settleWork / (max(len(d.cells), 1) * limits * limits)
	return min(max(affordable, leastAhead), lookAhead), max(affordable, settleRounds)
}

// settled returns the plan that stays, given the first one from what is there: a limit that crosses others can leave
// room, or a min, that the next division would see, and a write that changes the plan without a change of the input is
// saved. It is the first of the plans, each divided from the one before, that none of the next ones betters. What is
// there already comes before all of them, so that nothing moves, however the limits make the plans go round, unless it
// is worth it.
func (d *divider) settled(next Plan) (Plan, error) {
	best := d.present(next)
	last := best
	farthest, most := d.patience()
	for rounds, ahead := 0, 0; ; rounds, ahead = rounds+1, ahead+1 {
		found := !d.serves(best, next)
		if found {
			best, ahead = next, 0
		}
		if sameCells(last, next) || ahead == farthest || rounds == most {
			return best, nil
		}
		d.settle(next)
		last = next
		var err error
		if next, err = d.plan(); err != nil {
			return Plan{}, err
		}
		if found { // the numbers of the subsets are those that stay, too; the plan that was found says why
			cells := best.Cells
			best = d.present(next)
			best.Cells = cells
		}
	}
}

// present is what is there as a plan, with the numbers of the subsets of the next one.
func (d *divider) present(next Plan) Plan {
	subsets := slices.Clone(next.Subsets)
	for i := range d.parts {
		p := &d.parts[i]
		p.shares, p.rest, p.skewed = make([]int64, len(p.cells)), p.n, false
		for j := range p.cells {
			p.shares[j] = int64(p.cells[j].Current)
			p.rest -= p.shares[j]
		}
	}
	return d.planOf(subsets)
}

// serves tells whether a plan holds for the numbers of the subsets of the next one, keeps all limits, and is not worse.
func (d *divider) serves(plan, next Plan) bool {
	for i := range plan.Subsets {
		if plan.Subsets[i].Placed > next.Subsets[i].Replicas {
			return false
		}
	}
	v, ok := d.merit(plan)
	other, _ := d.merit(next)
	return ok && v.compare(other) <= 0
}

// merit is what a plan is judged by, less is better, the first first.
type merit struct {
	unplaced int64
	leaving  int64 // what is in cells that are to be left
	short    int64 // how much mins lack
}

func (m merit) compare(other merit) int {
	return cmp.Or(
		cmp.Compare(m.unplaced, other.unplaced),
		cmp.Compare(m.leaving, other.leaving),
		cmp.Compare(m.short, other.short),
	)
}

// merit judges a plan; not ok is one that breaks a max.
func (d *divider) merit(plan Plan) (m merit, ok bool) {
	m.unplaced = int64(d.in.Replicas)
	for i := range d.cells {
		c, share := &d.cells[i], plan.Cells[i].Replicas
		if c.Max != nil && share > *c.Max {
			return m, false
		}
		m.unplaced -= int64(share)
		if c.Taint == NoExecute {
			m.leaving += int64(share)
		}
		m.short += int64(max(c.Min-share, 0))
	}
	for i := range d.all {
		l := &d.all[i]
		var sum int64
		for _, cell := range l.cells {
			sum += int64(plan.Cells[cell].Replicas)
		}
		if sum > l.high {
			return m, false
		}
		m.short += max(l.low-sum, 0)
	}
	return m, true
}

// settle takes the plan for what is there now.
func (d *divider) settle(plan Plan) {
	for i := range d.cells {
		c := &d.cells[i]
		for _, more := range [...]**int32{&c.Capacity, &c.Growth} {
			if *more != nil {
				*more = new(max(**more, 0) + c.Current - plan.Cells[i].Replicas)
			}
		}
		c.Current = plan.Cells[i].Replicas
	}
	for i := range d.parts {
		p := &d.parts[i]
		d.current[i] = int64(plan.Subsets[i].Placed)
		for j := range p.base {
			e, c := &p.base[j], &p.cells[j]
			e.Current = int64(c.Current)
			if c.Frozen || c.Taint == NoSchedule || c.Taint == NoExecute {
				e.Max = min(e.Max, e.Current)
				e.Min = min(e.Min, e.Max)
			}
		}
	}
}

func sameCells(a, b Plan) bool {
	return slices.EqualFunc(a.Cells, b.Cells, func(a, b Share) bool { return a.Replicas == b.Replicas })
}
