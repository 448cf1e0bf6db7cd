package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// perMember is a workload of a kind that members have whole, with these limits.
func perMember(revision string, amounts func(int32) lending.Amounts) Facts {
	return Facts{
		Kind: kinds.Kind{Mode: kinds.PerMember},
		Workload: kinds.Workload{
			Key:      wire.Key{Group: "apps.example.com", Kind: "Sprinkler", Namespace: "ns", Name: "web"},
			Replicas: 1, Revision: revision, Subsets: []kinds.Subset{{Amounts: amounts}},
		},
	}
}

// asks is a report of a member that asks for n available pods, updated of them of the newest revision.
func asks(sequence int64, n, updated int32) capacity.Report {
	return capacity.Report{Sequence: sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
		Desired: n, Total: n, Ready: n, Available: n, Updated: updated, UpdatedReady: updated, UpdatedAvailable: updated,
	}}}
}

func mustPlan(t *testing.T, f Facts) topology.WorkloadPlacementSpec {
	t.Helper()
	d, rejection := Plan(f)
	if rejection != nil {
		t.Fatal(rejection)
	}
	return d.Spec
}

func cellOf(t *testing.T, spec *topology.WorkloadPlacementSpec, cluster string) topology.Cell {
	t.Helper()
	i := slices.IndexFunc(spec.Cells, func(c topology.Cell) bool { return c.Cluster == cluster })
	if i < 0 {
		t.Fatalf("%s has no cell in %+v", cluster, spec.Cells)
	}
	return spec.Cells[i]
}

func TestPerMemberCellsFollowReports(t *testing.T) {
	// A quarter of all pods may be unavailable, and two pods keep the old revision.
	f := perMember("one", func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n - 2, Unavailable: n / 4}
	})
	f.Members = members("east west! south-")
	first := mustPlan(t, f)
	if len(first.Cells) != 2 || first.Replicas != 0 || first.Placed != 0 {
		t.Fatalf("before any report: %+v", first)
	}
	for _, c := range first.Cells {
		if c.Replicas != 0 || c.Granted != (topology.Budget{}) || !c.Waiting || c.Reason.Code != CellPerMember {
			t.Errorf("without a report %s has %+v", c.Cluster, c)
		}
	}

	f.Last, f.Reports = &first, map[string]capacity.Report{"east": asks(first.Sequence, 12, 12)}
	second := mustPlan(t, f)
	want := topology.Budget{Updated: 10, Unavailable: 3}
	if got := cellOf(t, &second, "east"); got.Replicas != 12 || got.Granted != want || got.Waiting {
		t.Errorf("east, which asks for 12 pods: %+v", got)
	}
	if got := cellOf(t, &second, "west"); got.Replicas != 0 || !got.Waiting || got.Sequence != first.Sequence {
		t.Errorf("west, which has not reported: %+v", got)
	}
	if second.Replicas != 12 || second.Placed != 12 || second.Clusters != "east:12" {
		t.Errorf("%d of %d in %s", second.Placed, second.Replicas, second.Clusters)
	}

	// Another member joins and gets the object. It has no budget before it reports.
	f.Last, f.Members = &second, members("east west south")
	third := mustPlan(t, f)
	if got := cellOf(t, &third, "south"); got.Replicas != 0 || !got.Waiting || got.Sequence != third.Sequence {
		t.Errorf("south, which joined: %+v", got)
	}
	if cellOf(t, &third, "east").Sequence != second.Sequence {
		t.Error("the order of east changed because south joined")
	}
}

func TestPerMemberKeepsDeselectedMemberUntilItConfirms(t *testing.T) {
	f := perMember("one", func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Unavailable: 2} })
	f.Members = members("east west")
	first := mustPlan(t, f)
	f.Last, f.Reports = &first, map[string]capacity.Report{"east": asks(1, 4, 4), "west": asks(1, 4, 4)}
	second := mustPlan(t, f)
	if cellOf(t, &second, "west").Granted.Unavailable == 0 {
		t.Fatalf("west has no budget: %+v", second.Cells)
	}

	f.Last, f.Members = &second, members("east west-")
	third := mustPlan(t, f)
	west := cellOf(t, &third, "west")
	if west.Granted != (topology.Budget{}) || !west.Waiting || west.Reserved.Unavailable != 1 ||
		west.Reason.Code != CellDeselected {
		t.Errorf("west, which is not selected: %+v", west)
	}
	if third.Replicas != 4 {
		t.Errorf("%d pods count, want those of east", third.Replicas)
	}
	if east := cellOf(t, &third, "east"); east.Reserved.Unavailable > 1 {
		t.Errorf("east has %+v while west may still disrupt", east.Reserved)
	}

	f.Last = &third
	if again := mustPlan(t, f); len(again.Cells) != 2 {
		t.Error("west is removed before it confirmed that it has no budget")
	}
	told := f
	told.Reports = map[string]capacity.Report{"east": asks(1, 4, 4), "west": asks(west.Sequence, 4, 4)}
	if removed := mustPlan(t, told); len(removed.Cells) != 1 || cellOf(t, &removed, "east").Granted.Unavailable != 2 {
		t.Errorf("west confirmed: %+v", removed.Cells)
	}
	silent := f
	silent.Members = members("east west-")
	silent.Members[1].Silent = true
	if kept := mustPlan(t, silent); len(kept.Cells) != 2 {
		t.Error("a silent west is removed before its last order was written")
	}
	silent.Written = map[string]int64{"west": west.Sequence}
	if removed := mustPlan(t, silent); len(removed.Cells) != 1 {
		t.Error("a silent west stays though its lease expired after its last order")
	}
	gone := f
	gone.Members = members("east")
	if removed := mustPlan(t, gone); len(removed.Cells) != 1 {
		t.Error("a member that is gone keeps its cell")
	}
}

func TestPerMemberAdoptsWithoutAsking(t *testing.T) {
	f := perMember("one", limits(1))
	f.Members, f.Adopt = members("east"), true
	if got := mustPlan(t, f); cellOf(t, &got, "east").Adoption.Phase != topology.AdoptionDiscovered {
		t.Errorf("%+v", got.Cells)
	}
}

func TestPerMemberWithoutLimits(t *testing.T) {
	f := perMember("one", nil)
	f.Workload.Subsets, f.Members = nil, members("east west")
	got := mustPlan(t, f)
	if len(got.Cells) != 2 || len(got.Limits) != 0 || got.Cells[0].Waiting {
		t.Errorf("%+v", got)
	}
}

// nodesOf is one member of a perMemberWorld: how many nodes it has, and what runs there.
type nodesOf struct {
	nodes, updated, down int32
	// excluded nodes are not to be updated, whatever is granted.
	excluded int32
	order    topology.Cell
	cutOff   bool
}

// updatable is how many nodes have the newest revision or may get it.
func (n *nodesOf) updatable() int32 { return max(n.nodes-n.excluded, n.updated) }

// perMemberWorld simulates members that carry out orders late, lose the hub, and get and lose nodes.
type perMemberWorld struct {
	*rand.Rand
	f       Facts
	members map[string]*nodesOf
	global  func(int32) lending.Amounts
}

func newPerMemberWorld(seed uint64) *perMemberWorld {
	w := &perMemberWorld{Rand: rand.New(rand.NewPCG(seed, 1)), members: map[string]*nodesOf{}}
	w.f = perMember("r0", func(n int32) lending.Amounts { return w.global(n) })
	w.f.Reports, w.f.Written = map[string]capacity.Report{}, map[string]int64{}
	w.limit()
	for i := range 2 + w.IntN(4) {
		name := fmt.Sprintf("m%d", i)
		w.f.Members = append(w.f.Members, Member{Name: name, Selected: true, Ready: true})
		w.members[name] = &nodesOf{nodes: int32(w.IntN(8))}
	}
	return w
}

// limit draws other limits: percentages, rounded as some kind would, and numbers.
func (w *perMemberWorld) limit() {
	percent, partition, surge := int32(w.IntN(60)), int32(w.IntN(4)), int32(w.IntN(3))
	w.global = func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n - partition, Unavailable: (n*percent + 99) / 100, Surge: surge}
	}
}

// step lets one thing happen.
func (w *perMemberWorld) step() {
	at := w.IntN(len(w.f.Members))
	m := &w.f.Members[at]
	n := w.members[m.Name]
	switch w.IntN(11) {
	case 10:
		n.excluded = int32(w.IntN(4))
	case 0:
		n.nodes = int32(w.IntN(8))
		n.updated, n.down = min(n.updated, n.nodes), min(n.down, n.nodes)
	case 1:
		n.cutOff = !n.cutOff
		m.Ready, m.Silent = !n.cutOff, n.cutOff && w.IntN(2) == 0
	case 2:
		m.Selected = !m.Selected || w.IntN(3) > 0
	case 3:
		w.limit()
	case 4:
		w.f.Workload.Revision = fmt.Sprintf("r%d", w.IntN(3))
	case 5, 6:
		w.carryOut(m.Name)
	default:
		w.report(m.Name)
	}
}

// carryOut lets a member read its newest order, and use some of what that permits.
func (w *perMemberWorld) carryOut(name string) {
	n := w.members[name]
	if n.cutOff || w.f.Last == nil {
		return
	}
	for _, c := range w.f.Last.Cells {
		if c.Cluster == name {
			n.order = c
		}
	}
	n.down = int32(w.IntN(int(n.order.Granted.Unavailable) + 1))
	n.updated = max(n.updated, min(int32(w.IntN(int(n.order.Granted.Updated)+1)), n.nodes-n.excluded))
	n.down = min(n.down, n.nodes)
}

func (w *perMemberWorld) report(name string) {
	n := w.members[name]
	if n.cutOff || n.order.Sequence == 0 {
		return
	}
	r := asks(n.order.Sequence, n.nodes, n.updated)
	use := r.Use[""]
	use.Available, use.NotUpdatable = n.nodes-n.down, n.nodes-n.updatable()
	r.Use[""] = use
	w.f.Reports[name] = r
	w.f.MaxReported = max(w.f.MaxReported, n.order.Sequence)
}

func reserved(spec *topology.WorkloadPlacementSpec) (sum lending.Amounts) {
	if spec == nil {
		return sum
	}
	for i := range spec.Cells {
		h := spec.Cells[i].Reserved
		sum.Updated, sum.Unavailable, sum.Surge = sum.Updated+h.Updated, sum.Unavailable+h.Unavailable, sum.Surge+h.Surge
	}
	return sum
}

// check compares a decision with the one before.
func (w *perMemberWorld) check(t *testing.T, next *topology.WorkloadPlacementSpec) {
	t.Helper()
	last := w.f.Last
	before, after := reserved(last), reserved(next)
	global := w.global(next.Replicas)
	if last == nil || last.Revision != next.Revision {
		before.Updated = 0
	}
	if after.Updated > max(global.Updated, before.Updated, 0) ||
		after.Unavailable > max(global.Unavailable, before.Unavailable) || after.Surge > max(global.Surge, before.Surge) {
		t.Fatalf("reserved %+v of %+v, before that %+v", after, global, before)
	}
	var sum int32
	for i := range w.f.Members {
		m := &w.f.Members[i]
		at := slices.IndexFunc(next.Cells, func(c topology.Cell) bool { return c.Cluster == m.Name })
		if m.Selected && at < 0 {
			t.Fatalf("%s is selected and has no cell", m.Name)
		}
		if at < 0 {
			continue
		}
		c := next.Cells[at]
		sum += c.Replicas
		report, told := w.f.Reports[m.Name]
		switch {
		case !m.Selected && (c.Replicas != 0 || c.Granted != topology.Budget{}):
			t.Fatalf("%s is not selected and has %+v", m.Name, c)
		case m.Selected && told && c.Replicas != report.Use[""].Desired:
			t.Fatalf("%s asks for %d pods, its cell has %d", m.Name, report.Use[""].Desired, c.Replicas)
		case m.Selected && !told && c.Granted != topology.Budget{}:
			t.Fatalf("%s has not reported, and has %+v", m.Name, c.Granted)
		}
		w.checkKept(t, m, &c)
	}
	if sum != next.Replicas || sum != next.Placed {
		t.Fatalf("the cells have %d pods, the placement %d of %d", sum, next.Placed, next.Replicas)
	}
}

// checkKept holds that a cell gives up what it may still use only by a report, or when its lease has expired.
func (w *perMemberWorld) checkKept(t *testing.T, m *Member, c *topology.Cell) {
	t.Helper()
	if w.f.Last == nil {
		return
	}
	for i := range w.f.Last.Cells {
		had := &w.f.Last.Cells[i]
		confirmed := w.f.Reports[m.Name].Sequence >= had.Sequence || m.Silent && w.f.Written[m.Name] >= had.Sequence
		fell := c.Reserved.Unavailable < had.Reserved.Unavailable || c.Reserved.Surge < had.Reserved.Surge
		if had.Cluster == m.Name && !confirmed && fell {
			t.Fatalf("%s confirmed nothing and went from %+v to %+v", m.Name, had.Reserved, c.Reserved)
		}
	}
}

func TestPerMemberProperties(t *testing.T) {
	for seed := range uint64(*worlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newPerMemberWorld(seed)
			for range 60 {
				if !slices.ContainsFunc(w.f.Members, func(m Member) bool { return m.Selected }) {
					w.f.Members[0].Selected = true
				}
				next := mustPlan(t, w.f)
				w.check(t, &next)
				shuffled := w.f
				shuffled.Members = slices.Clone(w.f.Members)
				w.Shuffle(len(shuffled.Members), func(i, j int) {
					shuffled.Members[i], shuffled.Members[j] = shuffled.Members[j], shuffled.Members[i]
				})
				if diff := cmp.Diff(next, mustPlan(t, shuffled)); diff != "" {
					t.Fatalf("the order of members matters:\n%s", diff)
				}
				w.f.Last = &next
				for _, c := range next.Cells {
					w.f.Written[c.Cluster] = c.Sequence
				}
				w.step()
			}
			w.settle(t)
		})
	}
}

// settle lets all members answer until nothing changes, and checks that everything that may be updated is granted.
func (w *perMemberWorld) settle(t *testing.T) {
	t.Helper()
	for i := range w.f.Members {
		m := &w.f.Members[i]
		m.Selected, m.Ready, m.Silent = true, true, false
		w.members[m.Name].cutOff = false
	}
	for range 100 {
		next := mustPlan(t, w.f)
		w.check(t, &next)
		if w.f.Last != nil && w.f.Last.Sequence == next.Sequence && w.settled(&next) {
			return
		}
		w.f.Last = &next
		for _, c := range next.Cells {
			n := w.members[c.Cluster]
			n.order, n.down = c, 0
			n.updated = max(n.updated, min(c.Granted.Updated, n.updatable()))
			w.report(c.Cluster)
		}
	}
	t.Fatalf("no rest: %+v", w.f.Last.Cells)
}

func (w *perMemberWorld) settled(spec *topology.WorkloadPlacementSpec) bool {
	var granted int32
	for i := range spec.Cells {
		granted += spec.Cells[i].Granted.Updated
	}
	nodes, updatable := w.nodes()
	return granted >= min(max(w.global(spec.Replicas).Updated, 0), updatable) && spec.Replicas == nodes
}

func (w *perMemberWorld) nodes() (sum, updatable int32) {
	for _, n := range w.members {
		sum, updatable = sum+n.nodes, updatable+n.updatable()
	}
	return sum, updatable
}
