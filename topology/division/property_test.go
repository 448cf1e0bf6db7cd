package division

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// The subsets left open grow and shrink one by one, from whatever was there.
func TestSubsetsOpenMoveOneByOne(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	subsets := parse("a=3", "b", "c", "d")
	n, current := int32(3), []int32{3, 0, 0, 0}
	for range 10_000 {
		step := random.Int32N(2)*2 - 1
		if n+step < 3 {
			continue
		}
		n += step
		shares, err := Subsets(n, subsets, current)
		if err != nil {
			t.Fatal(err)
		}
		changed := int32(0)
		next := make([]int32, len(shares))
		for i, s := range shares {
			next[i] = s.Replicas
			changed += max(s.Replicas-current[i], current[i]-s.Replicas)
		}
		if changed != 1 {
			t.Fatalf("N=%d: %v after %v", n, next, current)
		}
		current = next
	}
}

func TestDivideProperties(t *testing.T) {
	eachCase(t, 7, func(t *testing.T, random *rand.Rand) { checkDivide(t, random, randomInput(random)) })
}

// eachCase checks random cases, in parts that run in parallel: five million take minutes.
func eachCase(t *testing.T, stream uint64, check func(*testing.T, *rand.Rand)) {
	t.Helper()
	const parts = 4 // not the number of CPUs: the cases are the same everywhere
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(stream*parts+uint64(part), *seed))
			for i := range *cases / parts {
				check(t, random)
				if t.Failed() {
					t.Fatalf("case %d of part %d of seed %d", i, part, *seed)
				}
			}
		})
	}
}

func FuzzDivide(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		checkDivide(t, random, randomInput(random))
	})
}

// checkDivide holds the properties of the package comment against one input.
func checkDivide(t *testing.T, random *rand.Rand, in Input) {
	t.Helper()
	plan, err := Divide(in)
	if err != nil {
		t.Fatalf("Divide(%+v): %v", in, err)
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n%+v\n%s", fmt.Sprintf(format, args...), in, plan)
	}
	sum := int32(0)
	for _, u := range plan.Unplaced {
		sum += u.Replicas
	}
	for _, c := range plan.Cells {
		sum += c.Replicas
	}
	if sum != in.Replicas {
		fail("placed + unplaced = %d", sum)
	}
	want := map[string]SubsetShare{}
	for _, s := range plan.Subsets {
		want[s.Name] = s
	}
	cells := sortedCells(in)
	have, frozen := map[string]int32{}, map[string]int32{}
	for i, c := range cells {
		got := plan.Cells[i]
		have[c.Subset] += got.Replicas
		if c.Frozen {
			frozen[c.Subset] += c.Current
		}
		if got.Replicas < 0 || c.Max != nil && got.Replicas > *c.Max {
			fail("cell %s outside its bounds", c.Cluster)
		}
		if (c.Frozen || c.Taint == NoSchedule || c.Taint == NoExecute || leafWeight(&in.Spread, &c) == 0 && c.Min == 0 &&
			!hasMins(in)) && got.Replicas > c.Current {
			fail("cell %s got something new", c.Cluster)
		}
		if c.Capacity != nil && got.Replicas > c.Current+max(*c.Capacity, 0) {
			fail("cell %s got more than it has room for", c.Cluster)
		}
		if c.Growth != nil && got.Replicas > c.Current+max(*c.Growth, 0) {
			fail("cell %s got more than is tried there", c.Cluster)
		}
	}
	for i, c := range cells {
		lost := plan.Cells[i].Replicas < c.Current
		forced := c.Max != nil && *c.Max < c.Current
		if c.Frozen && c.Taint != NoExecute && lost && !forced && !hasMax(in, &c) && !hasMins(in) &&
			want[c.Subset].Replicas >= frozen[c.Subset] && !floorsHeld(cells, plan, c.Subset) {
			fail("frozen cell %s lost something, N did not force it", c.Cluster)
		}
	}
	for _, s := range plan.Subsets {
		if have[s.Name] != s.Placed {
			fail("subset %q: placed %d, cells have %d", s.Name, s.Placed, have[s.Name])
		}
	}
	checkLimits(in, cells, plan, fail)
	checkDivideSettled(t, random, in, plan, fail)
	checkDivideNext(t, in, plan, fail)
}

// floorsHeld tells whether all healthy cells of the subset are at their floors or below: then they have no more to
// give.
func floorsHeld(cells []Cell, plan Plan, subset string) bool {
	for i, c := range cells {
		if c.Subset == subset && !c.Frozen && plan.Cells[i].Replicas > c.Min {
			return false
		}
	}
	return true
}

func hasMins(in Input) bool {
	return slices.ContainsFunc(in.Spread.Bounds, func(b Bound) bool { return b.Min != nil })
}

func hasMaxes(in Input) bool {
	return slices.ContainsFunc(in.Spread.Bounds, func(b Bound) bool { return b.Max != nil })
}

// hasMax tells whether a bound with a max holds for the cell.
func hasMax(in Input, c *Cell) bool {
	return slices.ContainsFunc(in.Spread.Bounds, func(b Bound) bool { return b.Max != nil && b.holdsFor(c) })
}

// crossed tells whether there are limits that no group of a tree stands for.
func crossed(in Input) bool {
	d, err := newDivider(in)
	return err != nil || len(d.limits) > 0
}

// checkLimits: no sum is above the max of a region, zone or cluster, and none grows above the room of a pool.
func checkLimits(in Input, cells []Cell, plan Plan, fail func(string, ...any)) {
	limits, err := limitsOf(in, cells)
	if err != nil {
		fail("%v", err)
	}
	for _, l := range limits {
		sum := int64(0)
		for _, i := range l.cells {
			sum += int64(plan.Cells[i].Replicas)
		}
		if sum > l.high {
			fail("%d cells have %d, at most %d may be: %v", len(l.cells), sum, l.high, l.reason)
		}
	}
	if hasMins(in) || hasMaxes(in) {
		return
	}
	// Without bounds only a subset's number takes its replicas, and no more than it has to; a pool takes none.
	lost, had, bounded := map[string]int32{}, map[string]int32{}, map[string]bool{}
	for i, c := range cells {
		lost[c.Subset] += max(c.Current-plan.Cells[i].Replicas, 0)
		had[c.Subset] += c.Current
		bounded[c.Subset] = bounded[c.Subset] || c.Max != nil || c.Min > 0 || c.Taint == NoExecute
	}
	for _, s := range plan.Subsets {
		if most := max(had[s.Name]-s.Replicas, 0); lost[s.Name] > most && !bounded[s.Name] {
			fail("subset %s loses %d replicas, its number takes %d", s.Name, lost[s.Name], most)
		}
	}
}

// settled is the input with the plan for what is there now.
func settled(in Input, plan Plan) Input {
	cells := sortedCells(in)
	pools := slices.Clone(in.Pools)
	for i := range pools {
		p := &pools[i]
		p.Free = max(p.Free, 0)
		for j, c := range cells {
			if c.Cluster == p.Cluster && (p.Zone == "" || p.Zone == c.Zone) {
				p.Free += c.Current - plan.Cells[j].Replicas
			}
		}
	}
	for i := range cells {
		c := &cells[i]
		if c.Capacity != nil {
			c.Capacity = new(max(*c.Capacity, 0) + c.Current - plan.Cells[i].Replicas)
		}
		if c.Growth != nil {
			c.Growth = new(max(*c.Growth, 0) + c.Current - plan.Cells[i].Replicas)
		}
		c.Current = plan.Cells[i].Replicas
	}
	in.Cells, in.Pools = cells, pools
	return in
}

// checkDivideSettled: dividing the answer again, in any order of the cells, changes neither a number nor, where no
// limits cross the groups, a reason.
func checkDivideSettled(t *testing.T, random *rand.Rand, in Input, plan Plan, fail func(string, ...any)) {
	t.Helper()
	same := settled(in, plan)
	random.Shuffle(len(same.Cells), func(i, j int) {
		same.Cells[i], same.Cells[j] = same.Cells[j], same.Cells[i]
	})
	plan.Cells, plan.Unplaced = slices.Clone(plan.Cells), slices.Clone(plan.Unplaced)
	again, err := Divide(same)
	if err != nil {
		t.Fatal(err)
	}
	if crossed(in) {
		// A reason names one of several limits that meet in a cell, and the hub writes it with a changed number only.
		for i := range again.Cells {
			plan.Cells[i].Reason, again.Cells[i].Reason = Reason{}, Reason{}
		}
		for _, unplaced := range [][]Unplaced{plan.Unplaced, again.Unplaced} {
			for i := range unplaced {
				unplaced[i].Reason = Reason{}
			}
		}
	}
	if before, after := plan.String(), again.String(); before != after {
		fail("no fixed point, again:\n%s", after)
	}
}

// checkDivideNext: with one replica more, one cell has one more, if all subsets are open or there is one only, and no
// limits cross the groups. Several subsets promise this from the last answer on, and so does a skew, since its window
// moves with N; all others from whatever there was.
func checkDivideNext(t *testing.T, in Input, plan Plan, fail func(string, ...any)) {
	t.Helper()
	for _, s := range in.Subsets {
		if s.Replicas != nil || s.Min != nil || s.Max != nil {
			return // percentages
		}
	}
	if crossed(in) {
		return // sums over subsets
	}
	next := in
	if len(in.Subsets) > 1 || in.Spread.MaxSkew > 0 {
		next = settled(in, plan)
	}
	next.Replicas++
	grown, err := Divide(next)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Unplaced)+len(grown.Unplaced) > 0 {
		return
	}
	changed := int32(0)
	for i := range plan.Cells {
		changed += max(grown.Cells[i].Replicas-plan.Cells[i].Replicas, plan.Cells[i].Replicas-grown.Cells[i].Replicas)
	}
	if changed != 1 {
		fail("N+1 moves %d:\n%s", changed, grown)
	}
}

// randomInput makes inputs of every kind of subset, with cells that may be new, full, frozen, bounded or weightless.
func randomInput(random *rand.Rand) Input {
	size := []int32{4, 30, 100_000}[random.IntN(3)]
	in := Input{Replicas: random.Int32N(size), Salt: fmt.Sprint(random.IntN(100))}
	kind := random.IntN(4)
	number := func() *intstr.IntOrString {
		if random.IntN(2) == 0 {
			return new(intstr.FromString(fmt.Sprintf("%d%%", random.IntN(101))))
		}
		return new(intstr.FromInt32(random.Int32N(size)))
	}
	for i := range 1 + random.IntN(4) {
		s := Subset{Name: fmt.Sprint("s", i)}
		switch {
		case kind == 0 && random.IntN(2) == 0:
			s.Replicas = number()
		case kind == 1:
			switch random.IntN(4) { // 2 and 3: open
			case 0:
				s.Min = number()
			case 1:
				s.Max = number()
			}
		}
		in.Subsets = append(in.Subsets, s)
		for j := range random.IntN(5) {
			c := Cell{Subset: s.Name, Cluster: fmt.Sprint("c", j), Weight: random.Int32N(4), Frozen: random.IntN(6) == 0}
			if random.IntN(2) == 0 {
				c.Current = random.Int32N(size)
			}
			if random.IntN(4) == 0 {
				c.Min = random.Int32N(size)
			}
			if random.IntN(4) == 0 {
				c.Max = new(c.Min + random.Int32N(size))
			}
			if random.IntN(4) == 0 {
				c.Capacity = new(random.Int32N(size) - 1)
			}
			if random.IntN(6) == 0 {
				c.Growth = new(random.Int32N(3))
			}
			in.Cells = append(in.Cells, c)
		}
	}
	if random.IntN(2) == 0 {
		randomSpread(random, &in, size)
	}
	random.Shuffle(len(in.Cells), func(i, j int) { in.Cells[i], in.Cells[j] = in.Cells[j], in.Cells[i] })
	return in
}

// randomSpread puts the cells into zones and regions, with taints, and spreads over those with bounds and pools.
func randomSpread(random *rand.Rand, in *Input, size int32) {
	in.Spread.By = []By{"", ByCluster, ByZone, ByRegion}[random.IntN(4)]
	in.Spread.Type = []Type{"", "", Available, Compact}[random.IntN(4)]
	if random.IntN(4) == 0 {
		in.Spread.MaxSkew = 1 + random.Int32N(3)
	}
	zonal := random.IntN(2) == 0
	for i := range in.Cells {
		c := &in.Cells[i]
		if zonal {
			c.Zone = fmt.Sprint("z", random.IntN(3))
			c.Cluster = fmt.Sprint("c", random.IntN(3))
		}
		c.Region = "r" + c.Cluster[1:]
		if random.IntN(8) == 0 {
			c.Taint = []Effect{PreferNoSchedule, NoSchedule, NoExecute}[random.IntN(3)]
		}
	}
	slices.SortFunc(in.Cells, func(a, b Cell) int {
		return strings.Compare(a.Subset+a.Cluster+a.Zone, b.Subset+b.Cluster+b.Zone)
	})
	in.Cells = slices.CompactFunc(in.Cells, func(a, b Cell) bool {
		return a.Subset == b.Subset && a.Cluster == b.Cluster && a.Zone == b.Zone
	})
	if random.IntN(2) == 0 {
		for i := range 3 {
			if random.IntN(2) == 0 {
				in.Pools = append(in.Pools, Pool{Cluster: fmt.Sprint("c", i), Free: random.Int32N(size) - 1})
			}
		}
	}
	if random.IntN(2) == 0 {
		return
	}
	seen := map[Bound]bool{}
	for range random.IntN(4) {
		b := Bound{}
		switch random.IntN(4) {
		case 0:
			b.Region = fmt.Sprint("r", random.IntN(3))
		case 1:
			b.Zone = fmt.Sprint("z", random.IntN(3))
		case 2:
			b.Cluster = fmt.Sprint("c", random.IntN(3))
		case 3:
			b.Cluster, b.Zone = fmt.Sprint("c", random.IntN(3)), fmt.Sprint("z", random.IntN(3))
		}
		if seen[b] {
			continue
		}
		seen[b] = true
		low := random.Int32N(size)
		if random.IntN(2) == 0 {
			b.Max = new(intstr.FromInt32(low + random.Int32N(size)))
		}
		if random.IntN(3) == 0 {
			b.Min = new(intstr.FromInt32(low))
		}
		if random.IntN(3) == 0 {
			b.Weight = new(random.Int32N(4))
		}
		in.Spread.Bounds = append(in.Spread.Bounds, b)
	}
}
