package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// TestOtherNumbersHold plays workloads whose subsets get other numbers, come and go, and whose members are drained and,
// at any moment, not drained any more, while pods start and go slowly, replicas are scaled, templates change, or
// members are not heard of. What was held once stays so: as many replicas are available as the limits of all subsets
// allow, and there are no more pods than replicas and all surges; a decision from its own result changes nothing; and
// in the end every subset has its number.
func TestOtherNumbersHold(t *testing.T) {
	for seed := range uint64(2 * *worlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playNumbers(t, seed, false) })
	}
}

// TestDrainsTakenBackHold plays the same for workloads without subsets: there is one limit, over all members.
func TestDrainsTakenBackHold(t *testing.T) {
	for seed := range uint64(2 * *worlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playNumbers(t, seed, true) })
	}
}

// numbersWorld is a fleet whose subsets get other numbers.
type numbersWorld struct {
	fleetWorld
	open         bool
	replicas     int32
	breaks, adds int32
	revision     int
	names        []string
	numbers      map[string]int32 // of all subsets but the first one
	joined       []string
	drained      string
	silent       string
	rolled       bool
	// by how much the replicas became fewer, until as many as they are are available: that takes any pods, at once
	lowered       int32
	most          int32 // how many pods there may be
	rolls, leaves bool  // templates change; members are not heard of
}

func playNumbers(t *testing.T, seed uint64, open bool) {
	r := rand.New(rand.NewPCG(seed, 37))
	w := &numbersWorld{
		fleetWorld: fleetWorld{r: r, pods: map[place]*worldPods{}, follows: map[string][]topology.Cell{},
			rolls: map[string]string{}, mayGoOn: true},
		open: open, replicas: 1 + r.Int32N(16), breaks: r.Int32N(3), adds: r.Int32N(3), revision: 1,
		names: []string{"a", "b", "c"}[:2+r.IntN(2)], numbers: map[string]int32{},
		joined: []string{"east", "north", "south", "west"}[:2+r.IntN(3)],
		rolls:  seed%3 == 1, leaves: seed%3 == 2,
	}
	if w.breaks+w.adds == 0 {
		w.breaks = 1
	}
	var before, were int32 // pods that were available and not told to go, and that there were
	settled, rest := false, false
	for round := 0; ; round++ {
		if round == 3000 {
			t.Fatalf("it does not come to rest: %s, %v", showMoves(w.f.Last), w.f.Reports)
		}
		calm := round > 200
		switch {
		case calm:
			w.silent = ""
		case settled && r.IntN(8) == 0:
			w.happen(rest)
		}
		w.look()
		d := plan(t, w.f)
		w.decided(t, &d, w.replicas)
		least, most := w.bounds(&d.Spec)
		var available, total int32
		available, total, rest = w.live(&d.Spec)
		if available >= w.replicas {
			w.lowered = 0
		}
		if least -= w.lowered; total > most {
			most = max(most, w.most) // what became less takes effect as members follow
		}
		w.most = most
		if available < least && before >= least {
			t.Fatalf("round %d: %d of %d are available, want %d: %s, %v", round, available, w.replicas, least,
				showMoves(&d.Spec), w.f.Reports)
		}
		// what a member that is not heard of has above its orders nobody counts
		if total > most && total > were && !w.leaves {
			t.Fatalf("round %d: there are %d pods for %d replicas, and at most %d may be: %s, %v", round, total, w.replicas,
				most, showMoves(&d.Spec), w.f.Reports)
		}
		before, were = w.ordered(&d.Spec), total
		settled = settled || available == w.replicas
		if calm && rest {
			w.numbered(t, &d.Spec)
			return
		}
	}
}

// happen lets somebody change something.
func (w *numbersWorld) happen(rest bool) {
	switch w.r.IntN(7) {
	case 0, 1:
		if w.drained == "" { // a subset that gets another number while it is drained gives up more at once
			w.renumber()
		}
	case 2:
		if w.drained != "" || w.open {
			break
		}
		if at := w.r.IntN(len(w.names)); len(w.names) > 1 && w.r.IntN(2) == 0 {
			w.names = slices.Delete(slices.Clone(w.names), at, at+1)
		} else if w.names = append(slices.Clone(w.names), []string{"a", "b", "c", "d"}[w.r.IntN(4)]); len(w.names) > 0 {
			slices.Sort(w.names)
			w.names = slices.Compact(w.names)
		}
		clear(w.numbers)
	case 3:
		if w.drained != "" {
			w.drained = ""
		} else if rest || w.open {
			w.drained = w.joined[w.r.IntN(len(w.joined))]
		}
	case 4:
		w.drained = ""
	case 5:
		if w.rolls {
			w.revision++
			for _, p := range w.pods {
				p.oldUp, p.oldDown, p.newUp, p.newDown = p.oldUp+p.newUp, p.oldDown+p.newDown, 0, 0
			}
		}
		if w.leaves {
			w.silent = append([]string{""}, w.joined...)[w.r.IntN(1+len(w.joined))]
		}
	case 6:
		if w.drained == "" && !w.rolls { // pods that a scale adds are missing to a rollout that its members have permission for
			was := w.replicas
			w.replicas = max(w.replicas+w.r.Int32N(5)-2, 1)
			w.lowered += max(was-w.replicas, 0)
			w.renumber()
		}
	}
}

// ordered is how many available pods there are within orders: the others are told to go.
func (w *numbersWorld) ordered(spec *topology.WorkloadPlacementSpec) (n int32) {
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if p := w.pods[place{c.Subset, c.Cluster}]; p != nil {
			n += min(p.newUp+p.oldUp, c.Replicas)
		}
	}
	return n
}

// renumber gives the subsets other numbers; the first one has the rest.
func (w *numbersWorld) renumber() {
	clear(w.numbers)
	left := w.replicas
	for _, name := range w.names[1:] {
		w.numbers[name] = w.r.Int32N(left + 1)
		left -= w.numbers[name]
	}
}

// look gathers the facts.
func (w *numbersWorld) look() {
	text := ""
	for _, name := range w.names {
		text += " " + name
		if n, ok := w.numbers[name]; ok {
			text += fmt.Sprintf("=%d", n)
		}
	}
	if w.f.Workload = subsets(w.replicas, text); w.open {
		w.f.Workload = open(w.replicas)
	}
	w.f.Workload.Revision = fmt.Sprint(w.revision)
	for i := range w.f.Workload.Subsets {
		w.f.Workload.Subsets[i].Amounts = func(n int32) lending.Amounts {
			return lending.Amounts{Updated: n, Unavailable: w.breaks, Surge: w.adds}
		}
	}
	w.f.Members = members(strings.Join(w.joined, " "))
	heard := w.f.Reports
	w.f.Reports = w.told()
	for i := range w.f.Members {
		m := &w.f.Members[i]
		if m.Name == w.drained {
			m.Taint = division.NoExecute
		}
		if m.Name == w.silent {
			m.Ready = false
			w.f.Reports[m.Name] = heard[m.Name]
		}
	}
}

// bounds are how many replicas are to be available, and how many pods there may be. Each subset has its limits, also
// one that is left. Pods that start in place of others are no reason for a rollout to wait.
func (w *numbersWorld) bounds(spec *topology.WorkloadPlacementSpec) (least, most int32) {
	kinds := int32(len(w.limits(spec)))
	least, most = w.replicas, w.replicas+kinds*max(w.adds, 1)
	if w.adds == 0 {
		least = max(w.replicas-kinds*w.breaks, 1)
	}
	for _, p := range w.pods {
		w.rolled = w.rolled || p.oldUp+p.oldDown > 0 // started before it was lent Update, and is updated then
	}
	if w.revision > 1 || w.rolled || w.leaves { // what a silent member may update others do not, and do so when it is back
		least, most = min(least, max(w.replicas-2*kinds*w.breaks, 0)), most+kinds*w.adds
	}
	return least, most
}

// numbered checks that every subset has its number.
func (w *numbersWorld) numbered(t *testing.T, spec *topology.WorkloadPlacementSpec) {
	t.Helper()
	have := map[string]int32{}
	for _, c := range spec.Cells {
		have[c.Subset] += c.Replicas
	}
	for name, n := range w.numbers {
		if have[name] != n && !w.open {
			t.Fatalf("subset %s has %d, not %d: %s", name, have[name], n, showMoves(spec))
		}
	}
}
