package division

import (
	"fmt"
	"math/rand/v2"
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
	random := rand.New(rand.NewPCG(7, 8))
	for range *cases {
		checkDivide(t, random, randomInput(random))
		if t.Failed() {
			return
		}
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
		if (c.Frozen || c.Weight == 0 && c.Min == 0) && got.Replicas > c.Current {
			fail("cell %s got something new", c.Cluster)
		}
		if c.Capacity != nil && got.Replicas > c.Current+max(*c.Capacity, 0) {
			fail("cell %s got more than it has room for", c.Cluster)
		}
	}
	for i, c := range cells {
		lost := plan.Cells[i].Replicas < c.Current
		forced := c.Max != nil && *c.Max < c.Current
		if c.Frozen && lost && !forced && want[c.Subset].Replicas >= frozen[c.Subset] && !floorsHeld(cells, plan, c.Subset) {
			fail("frozen cell %s lost something, N did not force it", c.Cluster)
		}
	}
	for _, s := range plan.Subsets {
		if have[s.Name] != s.Placed {
			fail("subset %q: placed %d, cells have %d", s.Name, s.Placed, have[s.Name])
		}
	}
	checkDivideSettled(t, random, in, plan, fail)
	checkDivideNext(t, in, plan, fail)
}

// floorsHeld tells whether all healthy cells of the subset are at their floors or below: then they have no more to give.
func floorsHeld(cells []Cell, plan Plan, subset string) bool {
	for i, c := range cells {
		if c.Subset == subset && !c.Frozen && plan.Cells[i].Replicas > c.Min {
			return false
		}
	}
	return true
}

// checkDivideSettled: dividing the answer again, in any order of the cells, changes neither a number nor a reason.
func checkDivideSettled(t *testing.T, random *rand.Rand, in Input, plan Plan, fail func(string, ...any)) {
	t.Helper()
	settled := in
	settled.Cells = sortedCells(in)
	for i := range settled.Cells {
		c := &settled.Cells[i]
		if c.Capacity != nil {
			c.Capacity = new(max(*c.Capacity, 0) + c.Current - plan.Cells[i].Replicas)
		}
		c.Current = plan.Cells[i].Replicas
	}
	random.Shuffle(len(settled.Cells), func(i, j int) {
		settled.Cells[i], settled.Cells[j] = settled.Cells[j], settled.Cells[i]
	})
	again, err := Divide(settled)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := plan.String(), again.String(); before != after {
		fail("no fixed point, again:\n%s", after)
	}
}

// checkDivideNext: with one replica more, one cell has one more, if all subsets are open or there is one only.
func checkDivideNext(t *testing.T, in Input, plan Plan, fail func(string, ...any)) {
	t.Helper()
	for _, s := range in.Subsets {
		if s.Replicas != nil || s.Min != nil || s.Max != nil {
			return
		}
	}
	current := make([]int32, len(in.Subsets))
	for i, s := range plan.Subsets {
		current[i] = s.Placed
	}
	next := in
	next.Replicas++
	if len(in.Subsets) > 1 {
		// Stage 1 promises this from its own last answer on.
		next.Cells = sortedCells(in)
		for i := range next.Cells {
			c := &next.Cells[i]
			if c.Capacity != nil {
				c.Capacity = new(max(*c.Capacity, 0) + c.Current - plan.Cells[i].Replicas)
			}
			c.Current = plan.Cells[i].Replicas
		}
	}
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
			in.Cells = append(in.Cells, c)
		}
	}
	random.Shuffle(len(in.Cells), func(i, j int) { in.Cells[i], in.Cells[j] = in.Cells[j], in.Cells[i] })
	return in
}
