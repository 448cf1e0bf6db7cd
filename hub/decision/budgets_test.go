package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// protected is a member with the pods of one budget.
type protected struct {
	pods, failed, evicted int32
	// wanted are evictions that were refused.
	wanted int32
	// granted and sequence are those of the order that the member follows.
	granted  int32
	sequence int64
}

// allowed returns how many more pods may be evicted.
func (p *protected) allowed() int32 { return max(p.granted-p.failed-p.evicted, 0) }

func (p *protected) evict() {
	if p.allowed() > 0 {
		p.evicted++
		return
	}
	p.wanted = min(p.wanted+1, p.pods-p.failed-p.evicted)
}

func (p *protected) report() capacity.Report {
	return capacity.Report{Sequence: p.sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
		Desired: p.pods, Total: p.pods, Available: p.pods - p.failed - p.evicted, Updated: p.pods - p.wanted,
	}}}
}

// budgetWorld is one budget over three members.
type budgetWorld struct {
	t       *testing.T
	facts   Facts
	limit   int32
	members map[string]*protected
}

func newBudgetWorld(t *testing.T, limit int32, pods ...int32) *budgetWorld {
	w := &budgetWorld{t: t, limit: limit, members: map[string]*protected{}}
	w.facts = perMember("", func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Unavailable: limit} })
	w.facts.Workload.CountsFailures = true
	w.facts.Members = members("east south west")
	w.facts.Reports = map[string]capacity.Report{}
	for i, name := range []string{"east", "south", "west"} {
		w.members[name] = &protected{pods: pods[i]}
	}
	return w
}

func (w *budgetWorld) decide() {
	spec := mustPlan(w.t, w.facts)
	w.facts.Last = &spec
	w.facts.MaxReported = max(w.facts.MaxReported, spec.Sequence)
}

// follow lets a member read its newest order.
func (w *budgetWorld) follow(name string) {
	if w.facts.Last == nil {
		return
	}
	i := slices.IndexFunc(w.facts.Last.Cells, func(c topology.Cell) bool { return c.Cluster == name })
	m, c := w.members[name], &w.facts.Last.Cells[i]
	m.granted, m.sequence = c.Granted.Unavailable, c.Sequence
}

func (w *budgetWorld) report(name string) { w.facts.Reports[name] = w.members[name].report() }

// settle lets all members answer until nothing changes.
func (w *budgetWorld) settle() {
	for range 20 {
		for name := range w.members {
			w.follow(name)
			w.report(name)
		}
		before := w.facts.Last
		if w.decide(); before != nil && before.Sequence == w.facts.Last.Sequence {
			return
		}
	}
	w.t.Fatalf("no rest: %+v", w.facts.Last.Cells)
}

func (w *budgetWorld) evicted() (sum int32) {
	for _, m := range w.members {
		sum += m.evicted
	}
	return sum
}

// TestBudgetGoesWherePodsAreToGo: the one permission moves to the member where an eviction was refused, and when that
// pod is replaced, to the next one.
func TestBudgetGoesWherePodsAreToGo(t *testing.T) {
	w := newBudgetWorld(t, 1, 4, 4, 4)
	w.settle()
	for _, name := range []string{"west", "east", "south", "west"} {
		m := w.members[name]
		m.evict()
		w.settle()
		if m.allowed() == 0 && m.evicted == 0 {
			t.Fatalf("%s has no permission: %+v", name, w.facts.Last.Cells)
		}
		if m.wanted > 0 {
			m.wanted = 0
			m.evict()
		}
		w.settle()
		if got := w.evicted(); got != 1 {
			t.Fatalf("%d pods are evicted", got)
		}
		m.evicted = 0 // its pod is replaced
		w.settle()
	}
}

// TestFailedPodsUseTheBudget: a pod that fails by itself leaves nothing for the other members.
func TestFailedPodsUseTheBudget(t *testing.T) {
	w := newBudgetWorld(t, 2, 4, 4, 4)
	w.settle()
	w.members["east"].failed = 2
	w.members["west"].wanted = 1
	w.settle()
	for name, m := range w.members {
		if m.allowed() > 0 {
			t.Errorf("%s may evict %d pods, and 2 of 2 are down: %+v", name, m.allowed(), w.facts.Last.Cells)
		}
	}
	w.members["east"].failed = 1
	w.settle()
	if got := w.members["west"].allowed(); got != 1 {
		t.Errorf("west may evict %d pods, want 1: %+v", got, w.facts.Last.Cells)
	}
}

// TestBudgetsInRandomWorlds: whatever the order of evictions, failures, orders and reports, no more pods are evicted at
// a time than the budget allows; once all has settled, what is granted and what has failed is not more than that; and
// an eviction that is asked for again is allowed in the end.
func TestBudgetsInRandomWorlds(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 28))
		w := newBudgetWorld(t, random.Int32N(4)+1, random.Int32N(6), random.Int32N(6)+1, random.Int32N(9))
		names := []string{"east", "south", "west"}
		w.decide()
		for step := range 200 {
			name := names[random.IntN(3)]
			m := w.members[name]
			switch random.IntN(7) {
			case 0:
				m.evict()
			case 1:
				if m.evicted > 0 {
					m.evicted--
				}
			case 2:
				if m.failed+m.evicted < m.pods && random.IntN(3) == 0 {
					m.failed++
				}
			case 3:
				m.failed, m.wanted = 0, 0
			case 4:
				w.follow(name)
			case 5:
				w.report(name)
			case 6:
				w.decide()
			}
			if got := w.evicted(); got > w.limit {
				t.Fatalf("seed %d, step %d: %d pods are evicted of %d: %+v", seed, step, got, w.limit, w.facts.Last.Cells)
			}
		}
		w.settle()
		var down, allowed int32
		for _, m := range w.members {
			down += m.failed + m.evicted
			allowed += m.allowed()
		}
		if allowed > max(w.limit-down, 0) {
			t.Fatalf("seed %d: %d evictions are allowed, and %d pods of %d are down: %+v", seed, allowed, down, w.limit,
				w.facts.Last.Cells)
		}
		if err := w.drain(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// drain evicts every pod of each member in turn, one at a time, and replaces it.
func (w *budgetWorld) drain() error {
	for _, m := range w.members {
		m.failed, m.evicted, m.wanted = 0, 0, 0
	}
	w.settle()
	for name, m := range w.members {
		for pod := range m.pods {
			for m.evicted == 0 {
				if m.wanted = 0; m.allowed() > 0 {
					m.evict()
					break
				}
				m.evict() // refused
				if w.settle(); m.allowed() == 0 {
					return fmt.Errorf("pod %d of %s can never go: %+v", pod, name, w.facts.Last.Cells)
				}
			}
			w.settle()
			m.evicted = 0
			w.settle()
		}
	}
	return nil
}
