package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// toldOf reads "a/east:4 b/east:2/3": available pods of a subset in a member, of how many, of members that have carried
// out the last decision. They are of the revision of now.
func toldOf(last *topology.WorkloadPlacementSpec, text string) map[string]capacity.Report {
	out := map[string]capacity.Report{}
	if last != nil {
		for _, c := range last.Cells {
			out[c.Cluster] = capacity.Report{Sequence: c.Sequence, Applied: true, Use: map[string]work.SubsetUse{}}
		}
	}
	for _, part := range strings.Fields(text) {
		name, rest, _ := strings.Cut(part, ":")
		subset, cluster, _ := strings.Cut(name, "/")
		var available, total int32
		if n, _ := fmt.Sscanf(rest, "%d/%d", &available, &total); n < 2 {
			total = available
		}
		out[cluster].Use[subset] = work.SubsetUse{Subset: subset, Desired: total, Total: total, Ready: available,
			Available: available,
			Updated:   total, UpdatedReady: available, UpdatedAvailable: available}
	}
	return out
}

// TestRemovedSubsets tells how a workload is left by the subsets that it has no more.
func TestRemovedSubsets(t *testing.T) {
	limited := func(replicas int32, text string, unavailable, surge int32) kinds.Workload {
		w := subsets(replicas, text)
		for i := range w.Subsets {
			w.Subsets[i].Amounts = func(n int32) lending.Amounts {
				return lending.Amounts{Updated: n, Unavailable: unavailable, Surge: surge}
			}
		}
		return w
	}
	type stage struct {
		reason, subsets, members, reports, want string
	}
	for name, story := range map[string]struct {
		unavailable, surge int32
		stages             []stage
	}{
		"with a surge": {0, 1, []stage{
			{"placed", "a b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"b is removed: one starts first", "a", "east/a west/b", "a/east:3 b/west:3",
				"a/east:4 b/west:3-3(SubsetRemoved) Moving:2"},
			{"it is available: one goes", "a", "east/a west/b", "a/east:4 b/west:3",
				"a/east:4 b/west:2-2(SubsetRemoved) Moving:2"},
			{"that is gone: the next starts", "a", "east/a west/b", "a/east:4 b/west:2",
				"a/east:5 b/west:2-2(SubsetRemoved) Moving:1"},
			{"the other one is no better", "a", "east/a west/b", "a/east:4/5 b/west:2",
				"a/east:5 b/west:2-2(SubsetRemoved) Moving:1"},
			{"and so on", "a", "east/a west/b", "a/east:5 b/west:1", "a/east:6 b/west:1-1(SubsetRemoved)"},
			{"nothing is left", "a", "east/a west/b", "a/east:6 b/west:1", "a/east:6 b/west:0"},
			{"and told so: the cell goes", "a", "east/a west/b", "a/east:6 b/west:0", "a/east:6"},
		}},
		"without one": {2, 0, []stage{
			{"placed", "a b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"b is removed: two go first", "a", "east/a west/b", "a/east:3 b/west:3",
				"a/east:3 b/west:1-1(SubsetRemoved) Moving:3"},
			{"they are gone: others start", "a", "east/a west/b", "a/east:3 b/west:1",
				"a/east:5 b/west:1-1(SubsetRemoved) Moving:1"},
			{"they are available", "a", "east/a west/b", "a/east:5 b/west:1", "a/east:5 b/west:0 Moving:1"},
			{"it is gone", "a", "east/a west/b", "a/east:5 b/west:0", "a/east:6"},
		}},
		"it comes back": {0, 1, []stage{
			{"placed", "a b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"b is removed", "a", "east/a west/b", "a/east:3 b/west:3", "a/east:4 b/west:3-3(SubsetRemoved) Moving:2"},
			{"and taken back", "a b", "east/a west/b", "a/east:3/4 b/west:3", "a/east:3 b/west:3"},
		}},
		"scaled to zero": {0, 1, []stage{
			{"placed", "a b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"nothing is to run", "a=0", "east/a west/b", "a/east:3 b/west:3", "a/east:0 b/west:0"},
		}},
		"nobody has a place for it": {0, 1, []stage{
			{"placed", "a=3 b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"its member is gone, with nothing else", "c:c", "east/a west/b", "a/east:3 b/west:3", "refused"},
		}},
		"its member is lost": {0, 1, []stage{
			{"placed", "a b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"nobody knows what runs there", "a", "east/a west*/b", "a/east:3 b/west:3", "a/east:6 b/west:3-3(Lost)"},
			{"it is back", "a", "east/a west/b", "a/east:6 b/west:3", "a/east:6 b/west:0"},
		}},
		"numbers change, with a surge": {0, 1, []stage{
			{"placed", "a=3 b=3", "east/a west/b", "", "a/east:3 b/west:3"},
			{"b gets more: one starts first", "a=1 b=5", "east/a west/b", "a/east:3 b/west:3",
				"a/east:3-2(Shrinking) b/west:4 Moving:1"},
			{"it starts", "a=1 b=5", "east/a west/b", "a/east:3 b/west:3/4", "a/east:3-2(Shrinking) b/west:4 Moving:1"},
			{"it is available: one goes", "a=1 b=5", "east/a west/b", "a/east:3 b/west:4",
				"a/east:2-1(Shrinking) b/west:4 Moving:1"},
			{"that is gone: the next starts", "a=1 b=5", "east/a west/b", "a/east:2 b/west:4", "a/east:2-1(Shrinking) b/west:5"},
			{"all are available", "a=1 b=5", "east/a west/b", "a/east:2 b/west:5", "a/east:1 b/west:5"},
			{"and stay", "a=1 b=5", "east/a west/b", "a/east:1 b/west:5", "a/east:1 b/west:5"},
		}},
		"numbers change, without one": {1, 0, []stage{
			{"placed", "a=3 b=3", "east/a west/b", "", "a/east:3 b/west:3"},
			{"one goes first", "a=1 b=5", "east/a west/b", "a/east:3 b/west:3", "a/east:2-1(Shrinking) b/west:3 Moving:2"},
			{"it is gone: one starts", "a=1 b=5", "east/a west/b", "a/east:2 b/west:3",
				"a/east:2-1(Shrinking) b/west:4 Moving:1"},
			{"it is available: the next one goes", "a=1 b=5", "east/a west/b", "a/east:2 b/west:4",
				"a/east:1 b/west:4 Moving:1"},
			{"it is on its way", "a=1 b=5", "east/a west/b", "a/east:1/2 b/west:4", "a/east:1 b/west:4 Moving:1"},
			{"it is gone", "a=1 b=5", "east/a west/b", "a/east:1 b/west:4", "a/east:1 b/west:5"},
		}},
		"one more subset": {0, 1, []stage{
			{"placed", "a b", "east/a west/b", "", "a/east:3 b/west:3"},
			{"it gets a third: two start first, one in place of each", "a b c", "east/a north/c west/b", "a/east:3 b/west:3",
				"a/east:3-1(Shrinking) b/west:3-1(Shrinking) c/north:2"},
			{"one is available: one goes", "a b c", "east/a north/c west/b", "a/east:3 b/west:3 c/north:1/2",
				"a/east:3-1(Shrinking) b/west:2 c/north:2"},
			{"all are available", "a b c", "east/a north/c west/b", "a/east:3 b/west:2 c/north:2",
				"a/east:2 b/west:2 c/north:2"},
		}},
		"numbers change while what goes is broken": {0, 1, []stage{
			{"placed", "a=3 b=3", "east/a west/b", "", "a/east:3 b/west:3"},
			{"it goes at once", "a=1 b=5", "east/a west/b", "a/east:1/3 b/west:3", "a/east:1 b/west:5"},
		}},
		"numbers are taken back": {0, 1, []stage{
			{"placed", "a=3 b=3", "east/a west/b", "", "a/east:3 b/west:3"},
			{"b gets more", "a=1 b=5", "east/a west/b", "a/east:3 b/west:3", "a/east:3-2(Shrinking) b/west:4 Moving:1"},
			{"and no more", "a=3 b=3", "east/a west/b", "a/east:3 b/west:3/4", "a/east:3 b/west:3"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{}
			for _, stage := range story.stages {
				f.Workload = limited(6, zoned(stage.subsets), story.unavailable, story.surge)
				if strings.Contains(stage.subsets, "=0") {
					f.Workload.Replicas = 0
				}
				f.Members = members(strings.ReplaceAll(stage.members, "*", ""))
				for i := range f.Members {
					if strings.Contains(stage.members, f.Members[i].Name+"*") {
						f.Members[i].Ready, f.Members[i].Lost = false, true
					}
				}
				f.Reports = toldOf(f.Last, stage.reports)
				d, refusal := Plan(f)
				if refusal != nil {
					if stage.want != "refused" {
						t.Fatalf("%s: refused: %+v", stage.reason, refusal)
					}
					return
				}
				if got := showMoves(&d.Spec); got != stage.want {
					t.Fatalf("%s:\ngot  %s\nwant %s", stage.reason, got, stage.want)
				}
				for _, c := range d.Spec.Cells {
					if removed := c.Replaced > 0 && c.Reason.Code == CellSubsetRemoved; removed &&
						(!c.Waiting || c.Granted.Updated != c.Replicas || c.Granted.Unavailable+c.Granted.Surge > 0) {
						t.Errorf("%s: what leaves is to stay as it is, and is lent %+v, frozen %t", stage.reason, c.Granted, c.Waiting)
					}
				}
				f.Last = &d.Spec
				if again := plan(t, f); !cmp.Equal(again.Spec, d.Spec) {
					t.Fatalf("%s: a decision from its own result changes:\n%s", stage.reason, cmp.Diff(d.Spec, again.Spec))
				}
			}
		})
	}
}

// zoned gives subsets the zone of their name: "a" is "a:a", "a=3" is "a:a=3".
func zoned(text string) string {
	var parts []string
	for _, part := range strings.Fields(text) {
		if !strings.Contains(part, ":") {
			name, number, given := strings.Cut(part, "=")
			part = name + ":" + name
			if given {
				part += "=" + number
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// TestRemovedSubsetsAreTold says what is left, where, and what to do where nobody takes it.
func TestRemovedSubsetsAreTold(t *testing.T) {
	f := Facts{Workload: subsets(6, "a:a b:b"), Members: members("east/a west/b")}
	d := plan(t, f)
	f.Last, f.Reports = &d.Spec, toldOf(&d.Spec, "a/east:3 b/west:3")
	f.Workload = subsets(6, "a:a")
	d = plan(t, f)
	const want = "2 pods of subset b, which was removed, run on in west; they go as others are available in the subsets " +
		"that are left"
	if !slices.ContainsFunc(d.Notes, func(n Note) bool { return n.Message == want && n.Reason == Placed && !n.Stalled }) {
		t.Errorf("notes are %+v, want %q", d.Notes, want)
	}
}

// fleetWorld is a fleet of members that carry out orders late and in small steps.
type fleetWorld struct {
	r *rand.Rand
	f Facts
	// pods of a subset in a member: of the newest template and of older ones; available, and not.
	pods map[place]*worldPods
	// follows is the order that a member carries out.
	follows map[string][]topology.Cell
	rolls   map[string]string // the revision of that
	// mayGoOn: a decision from its own result may change once more, and no further.
	mayGoOn bool
}

type worldPods struct{ newUp, newDown, oldUp, oldDown int32 }

func (p *worldPods) total() int32 { return p.newUp + p.newDown + p.oldUp + p.oldDown }

// obey lets a member do a little of what its order says.
func (w *fleetWorld) obey(cluster string) {
	for i := range w.follows[cluster] {
		c := &w.follows[cluster][i]
		p := w.pods[place{c.Subset, cluster}]
		if p == nil {
			p = &worldPods{}
			w.pods[place{c.Subset, cluster}] = p
		}
		for range w.r.IntN(3) {
			w.step(c, p, w.rolls[cluster] == w.f.Workload.Revision)
		}
	}
}

func (w *fleetWorld) step(c *topology.Cell, p *worldPods, newest bool) {
	take := func(from ...*int32) {
		for _, n := range from {
			if *n > 0 {
				*n--
				return
			}
		}
	}
	updated := p.newUp + p.newDown
	todo := newest && updated < min(c.Granted.Updated, c.Replicas)
	switch {
	case p.newDown > 0 && w.r.IntN(3) == 0:
		p.newUp, p.newDown = p.newUp+1, p.newDown-1
	case p.oldDown > 0 && w.r.IntN(3) == 0:
		p.oldUp, p.oldDown = p.oldUp+1, p.oldDown-1
	case p.total() < c.Replicas && todo:
		p.newDown++
	case p.total() < c.Replicas && newest && updated >= c.Granted.Updated, p.total() < c.Replicas && !newest:
		p.oldDown++
	case p.total() > c.Replicas && p.newDown+p.oldDown > 0:
		take(&p.oldDown, &p.newDown)
	case p.total() > c.Replicas && updated > c.Granted.Updated:
		take(&p.newUp)
	case p.total() > c.Replicas && (p.newUp+p.oldUp > c.Replicas || c.Granted.Surge == 0 || !todo):
		take(&p.oldUp, &p.newUp)
	case c.Waiting || !todo:
	// one is replaced by a new one
	case p.total() <= c.Replicas && c.Replicas-p.newUp-p.oldUp < c.Granted.Unavailable && p.oldUp > 0:
		p.oldUp, p.newDown = p.oldUp-1, p.newDown+1
	case p.total() < c.Replicas+c.Granted.Surge && p.oldUp > 0: // one is added first
		p.newDown++
	}
}

// told are the reports of members that are heard.
func (w *fleetWorld) told() map[string]capacity.Report {
	out := map[string]capacity.Report{}
	for cluster, cells := range w.follows {
		report := capacity.Report{Applied: true, Use: map[string]work.SubsetUse{}}
		for i := range cells {
			c := &cells[i]
			report.Sequence = c.Sequence
			p := w.pods[place{c.Subset, cluster}]
			if p == nil {
				p = &worldPods{}
			}
			use := work.SubsetUse{Subset: c.Subset, Desired: c.Replicas, Total: p.total(), Available: p.newUp + p.oldUp,
				Ready: p.newUp + p.oldUp}
			if w.rolls[cluster] == w.f.Workload.Revision {
				use.Updated, use.UpdatedReady, use.UpdatedAvailable = p.newUp+p.newDown, p.newUp, p.newUp
			}
			use.CanGoBack = use.Updated < use.Total
			report.Use[c.Subset] = use
		}
		out[cluster] = report
	}
	return out
}

// TestUnitedDeploymentsHold plays fleets in which subsets are removed, members join and are drained, and templates
// change, all at once, while members follow late. The invariants hold at every moment: every
// replica is accounted for (I1); what members hold of a limit together is never more than the limit (I2 b); never are
// fewer pods available than the limits of all subsets allow, nor the last one taken (I2 a); there are never more pods
// than replicas and all surges (I2 c); a decision from its own result changes nothing, so that a restart of the hub
// changes no pod (I3); and in the end nothing is left of what was removed.
func TestUnitedDeploymentsHold(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playSubsets(t, seed) })
	}
}

func playSubsets(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 31))
	w := &fleetWorld{r: r, pods: map[place]*worldPods{}, follows: map[string][]topology.Cell{}, rolls: map[string]string{}}
	names := []string{"a", "b", "c"}[:2+r.IntN(2)]
	breaks, adds := r.Int32N(3), r.Int32N(3)
	if breaks+adds == 0 {
		breaks = 1
	}
	replicas := 1 + r.Int32N(16)
	revision := 1
	joined, drained := []string{"east", "west"}, map[string]bool{}
	var least, most int32         // pods that are available, and that there are
	settled, rest := false, false // only what was available once can be lost
	for round := 0; ; round++ {
		calm := round > 150
		if round == 2500 {
			t.Fatalf("it does not come to rest: %s, %v", showMoves(w.f.Last), w.told())
		}
		if !calm && settled {
			switch r.IntN(30) {
			case 0:
				if at := r.IntN(len(names)); len(names) > 1 {
					names = slices.Delete(slices.Clone(names), at, at+1)
				}
			case 1:
				if len(joined) < 4 {
					joined = append(joined, []string{"north", "south"}[len(joined)-2])
				}
			case 2:
				if m := joined[r.IntN(len(joined))]; rest && len(drained)+1 < len(joined) { // not two at once
					drained[m] = true
				}
			case 3:
				if rest { // TestOtherNumbersHold takes them back in the middle
					clear(drained)
				}
			case 4:
				if seed%2 == 0 {
					break
				}
				revision++
				for _, p := range w.pods {
					p.oldUp, p.oldDown, p.newUp, p.newDown = p.oldUp+p.newUp, p.oldDown+p.newDown, 0, 0
				}
			}
		}
		w.f.Workload = subsets(replicas, strings.Join(names, " "))
		w.f.Workload.Revision = fmt.Sprint(revision)
		for i := range w.f.Workload.Subsets {
			w.f.Workload.Subsets[i].Amounts = func(n int32) lending.Amounts {
				return lending.Amounts{Updated: n, Unavailable: breaks, Surge: adds}
			}
		}
		slices.Sort(joined)
		w.f.Members = members(strings.Join(joined, " "))
		for i := range w.f.Members {
			if drained[w.f.Members[i].Name] {
				w.f.Members[i].Taint = division.NoExecute
			}
		}
		w.f.Reports = w.told()
		d := plan(t, w.f)
		w.decided(t, &d, replicas)
		kinds := int32(0)
		for range w.limits(&d.Spec) {
			kinds++
		}
		// Each subset has its limits, also one that is left. Pods that start in place of others are no reason for a rollout
		// to wait.
		least, most = replicas, replicas+kinds*max(adds, 1)
		if adds == 0 {
			least = max(replicas-kinds*breaks, 1)
		}
		if revision > 1 {
			least, most = min(least, max(replicas-2*kinds*breaks, 0)), most+kinds*adds
		}
		var available, total int32
		available, total, rest = w.live(&d.Spec)
		if settled && available < least {
			t.Fatalf("round %d: %d of %d are available, want %d: %s, %v", round, available, replicas, least, showMoves(&d.Spec),
				w.told())
		}
		if total > most {
			t.Fatalf("round %d: there are %d pods for %d replicas, and at most %d may be: %s, %v", round, total, replicas, most,
				showMoves(&d.Spec), w.told())
		}
		settled = settled || available == replicas
		if calm && rest {
			return
		}
	}
}

// limits are those of a decision, by subset.
func (w *fleetWorld) limits(spec *topology.WorkloadPlacementSpec) map[string]topology.Budget {
	out := map[string]topology.Budget{}
	for _, l := range spec.Limits {
		out[l.Subset] = l.Budget
	}
	return out
}

// decided checks a decision, and takes it up.
func (w *fleetWorld) decided(t *testing.T, d *Decision, replicas int32) {
	t.Helper()
	sum, held := d.Spec.Placed, map[string]topology.Budget{}
	for _, u := range d.Spec.Unplaced {
		sum += u.Replicas
	}
	if sum != replicas {
		t.Fatalf("%d of %d are accounted for: %s", sum, replicas, showMoves(&d.Spec))
	}
	for _, c := range d.Spec.Cells {
		h := held[c.Subset]
		held[c.Subset] = topology.Budget{Unavailable: h.Unavailable + c.Reserved.Unavailable,
			Surge: h.Surge + c.Reserved.Surge}
	}
	for subset, limit := range w.limits(&d.Spec) {
		if h := held[subset]; h.Unavailable > limit.Unavailable || h.Surge > limit.Surge {
			t.Fatalf("members hold %+v of subset %s together, of %+v: %+v", h, subset, limit, d.Spec.Cells)
		}
	}
	w.f.Last = &d.Spec
	if again := plan(t, w.f); !cmp.Equal(again.Spec, d.Spec) {
		if !w.mayGoOn {
			t.Fatalf("a decision from its own result changes:\n%s", cmp.Diff(d.Spec, again.Spec))
		}
		*d, w.f.Last = again, &again.Spec
		if again := plan(t, w.f); !cmp.Equal(again.Spec, d.Spec) {
			t.Fatalf("a decision from the result of its own result changes:\n%s", cmp.Diff(d.Spec, again.Spec))
		}
	}
}

// live lets members take up orders, at times, and carry them out.
func (w *fleetWorld) live(spec *topology.WorkloadPlacementSpec) (available, total int32, rest bool) {
	orders := map[string][]topology.Cell{}
	for _, c := range spec.Cells {
		orders[c.Cluster] = append(orders[c.Cluster], c)
	}
	rest = len(spec.Unplaced) == 0
	for _, m := range w.f.Members {
		if w.r.IntN(2) == 0 && m.Ready {
			w.take(m.Name, orders[m.Name], spec.Revision)
		}
		w.obey(m.Name)
	}
	for at, p := range w.pods {
		available, total = available+p.newUp+p.oldUp, total+p.total()
		rest = rest && (p.total() == 0 || slices.ContainsFunc(spec.Cells, func(c topology.Cell) bool {
			return c.Subset == at.subset && c.Cluster == at.cluster && c.Replaced == 0 && c.Reason.Code != CellSubsetRemoved &&
				p.newUp == c.Replicas && p.total() == c.Replicas
		}))
	}
	return available, total, rest
}

// take makes a member follow an order. Of a subset that it is told nothing of it has no pods any more.
func (w *fleetWorld) take(cluster string, cells []topology.Cell, revision string) {
	w.follows[cluster], w.rolls[cluster] = cells, revision
	for at := range w.pods {
		if at.cluster == cluster && !slices.ContainsFunc(cells, func(c topology.Cell) bool { return c.Subset == at.subset }) {
			delete(w.pods, at)
		}
	}
}
