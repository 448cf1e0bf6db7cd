package decision

import (
	"math/rand/v2"
	"slices"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// restarting is a member whose pods restart in place.
type restarting struct {
	pods, left int32
	// down are the pods that restart. earlier are those that began before the lease ran out.
	down, earlier int32
	// granted and sequence are those of the order that the member follows.
	granted  int32
	sequence int64
	// cut: nothing passes between the member and the hub. expired: it starts no restart.
	cut, expired bool
}

func (m *restarting) begin() {
	if !m.expired && m.left > 0 && m.down+m.earlier < m.granted {
		m.left, m.down = m.left-1, m.down+1
	}
}

func (m *restarting) report() capacity.Report {
	down := m.down + m.earlier
	return capacity.Report{Sequence: m.sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
		Desired: m.pods, Total: m.pods, Available: m.pods - down, Updated: m.pods, ToRestart: m.left + down,
	}}}
}

// restartWorld is one workload over three members.
type restartWorld struct {
	t       *testing.T
	facts   Facts
	members map[string]*restarting
}

func (w *restartWorld) decide() {
	spec := mustPlan(w.t, w.facts)
	w.facts.Last = &spec
	w.facts.MaxReported = max(w.facts.MaxReported, spec.Sequence)
	for i := range spec.Cells {
		w.facts.Written[spec.Cells[i].Cluster] = spec.Cells[i].Sequence // the Works are written, whoever reads them
	}
}

func (w *restartWorld) follow(name string) {
	m := w.members[name]
	i := slices.IndexFunc(w.facts.Last.Cells, func(c topology.Cell) bool { return c.Cluster == name })
	if !m.cut && i >= 0 {
		m.granted, m.sequence = w.facts.Last.Cells[i].Granted.Unavailable, w.facts.Last.Cells[i].Sequence
	}
}

func (w *restartWorld) tell(name string) {
	if m := w.members[name]; !m.cut {
		w.facts.Reports[name] = m.report()
	}
}

func (w *restartWorld) silent(name string, silent bool) {
	for i := range w.facts.Members {
		if w.facts.Members[i].Name == name {
			w.facts.Members[i].Silent = silent
		}
	}
}

// heal ends a cut: the hub takes the member's silence back before it answers, and the member follows what was written by
// then before it goes on.
func (w *restartWorld) heal(name string) {
	m := w.members[name]
	m.cut = false
	w.silent(name, false)
	w.decide()
	w.follow(name)
	m.expired = false
}

// step does one random thing.
func (w *restartWorld) step(random *rand.Rand, name string) {
	m := w.members[name]
	switch random.IntN(10) {
	case 0, 1:
		m.begin()
	case 2:
		m.down = max(m.down-1, 0)
	case 3:
		m.earlier = max(m.earlier-1, 0)
	case 4:
		w.follow(name)
	case 5:
		w.tell(name)
	case 6, 7:
		w.decide()
	case 8:
		m.cut = m.cut || random.IntN(4) == 0
		if m.cut && random.IntN(2) == 0 {
			m.expired, m.down, m.earlier = true, 0, m.earlier+m.down
		}
		if m.expired && random.IntN(2) == 0 {
			w.silent(name, true) // the hub waits longer than the member
		}
	case 9:
		if m.cut && random.IntN(3) == 0 {
			w.heal(name)
		}
	}
}

// TestRestartIsWork: whatever the order of restarts, orders, reports and cuts, no more pods restart at a time than the
// workload allows over all members; and in the end all pods have restarted.
func TestRestartIsWork(t *testing.T) {
	names := []string{"east", "south", "west"}
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 29))
		limit := random.Int32N(3) + 1
		w := &restartWorld{t: t, members: map[string]*restarting{}}
		w.facts = perMember("", func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Unavailable: limit} })
		w.facts.Members, w.facts.Reports = members("east south west"), map[string]capacity.Report{}
		w.facts.Written = map[string]int64{}
		for _, name := range names {
			pods := random.Int32N(5)
			w.members[name] = &restarting{pods: pods, left: pods}
		}
		w.decide()
		for step := range 300 {
			w.step(random, names[random.IntN(3)])
			if got := w.down(); got > limit {
				t.Fatalf("seed %d, step %d: %d pods restart of %d: %+v", seed, step, got, limit, w.facts.Last.Cells)
			}
		}
		w.finish(seed, limit)
	}
}

func (w *restartWorld) down() (down int32) {
	for _, m := range w.members {
		down += m.down
	}
	return down
}

// finish ends all cuts, and lets members restart what is left.
func (w *restartWorld) finish(seed uint64, limit int32) {
	for name := range w.members {
		w.heal(name)
	}
	left := int32(1)
	for range 300 {
		left = 0
		for name, m := range w.members {
			w.follow(name)
			m.begin()
			w.tell(name)
			left += m.left
		}
		if got := w.down(); got > limit {
			w.t.Fatalf("seed %d, at the end: %d pods restart of %d", seed, got, limit)
		}
		w.decide()
		for name, m := range w.members {
			m.down, m.earlier = 0, 0
			w.tell(name)
		}
		w.decide()
		if left == 0 {
			return
		}
	}
	w.t.Fatalf("seed %d: %d pods never restart: %+v", seed, left, w.facts.Last.Cells)
}
