package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// tick is the step of a simulated fleet.
const tick = 15 * time.Second

// site is a place in a simulated fleet with nodes for some pods. Nobody sees how many before a pod has tried.
type site struct {
	member, zone, subset string
	nodes                int32
	running              int32
	waiting              []time.Time // since when
	order                int32
	sequence             int64
	// oneByOne: the owner makes no pod while one waits. broken is how many that run are not Ready.
	oneByOne bool
	broken   int32
}

// is tells whether a cell is the site's.
func (s *site) is(c *topology.Cell) bool {
	return c.Cluster == s.member && c.Zone == s.zone && c.Subset+c.SpreadSubset == s.subset // at most one of them is set
}

// unmade is how many pods the owner does not make because one waits.
func (s *site) unmade() int32 { return max(s.order-s.running-int32(len(s.waiting)), 0) }

// ready is how many pods are Ready.
func (s *site) ready() int32 { return max(s.running-s.broken, 0) }

// fleet simulates members: what they are told they carry out a tick later, and what finds a node runs a tick later.
type fleet struct {
	t       *testing.T
	facts   Facts
	sites   []*site
	now     time.Time
	due     time.Time // when the hub looks again by itself, zero for never
	seen    string    // what members told when the hub looked last
	settled map[string]settling
	changes int // of the orders
	// lies is how many pods more than have nodes members report to have room for; negative: they report nothing.
	lies int32
	calm bool // nodes do not change any more: nothing that runs may be taken away
	// drained: members were drained.
	drained bool
}

// settling is what the ledger knows of a member's pods.
type settling struct {
	total, ready int32
	since        time.Time
}

// settle takes up a report as the ledger does.
func (f *fleet) settle(m *Member, report *capacity.Report) {
	var now settling
	for _, use := range report.Use {
		now.total, now.ready = now.total+use.Total, now.ready+use.Ready
	}
	had, known := f.settled[m.Name]
	if now.since = had.since; !known || now.total > had.total || now.ready < had.ready {
		now.since = f.now
	}
	f.settled[m.Name] = now
	m.Reserved.Settled = metav1.NewTime(now.since)
}

// newFleet reads "east:5 west/a:3 x@south:2": places with their nodes, with a zone, or with a subset.
func newFleet(t *testing.T, w kinds.Workload, text string) *fleet {
	f := &fleet{t: t, now: time.Unix(1_000_000, 0), lies: -1, settled: map[string]settling{}}
	f.facts = Facts{Workload: w, Reschedule: &topology.Reschedule{After: "1m"}, Reports: map[string]capacity.Report{}}
	for _, part := range strings.Fields(text) {
		place, n, _ := strings.Cut(part, ":")
		s := &site{}
		if subset, rest, ok := strings.Cut(place, "@"); ok {
			s.subset, place = subset, rest
		}
		s.member, s.zone, _ = strings.Cut(place, "/")
		if _, err := fmt.Sscanf(n, "%d", &s.nodes); err != nil {
			t.Fatal(err)
		}
		f.sites = append(f.sites, s)
		at := slices.IndexFunc(f.facts.Members, func(m Member) bool { return m.Name == s.member })
		if at < 0 {
			f.facts.Members = append(f.facts.Members, Member{Name: s.member, Selected: true, Ready: true, Weight: 1})
			at = len(f.facts.Members) - 1
		}
		if s.zone != "" {
			f.facts.Members[at].Zones = append(f.facts.Members[at].Zones, s.zone)
			f.facts.Spread.By = topology.SpreadByZone
		}
	}
	return f
}

// step lets a tick pass.
func (f *fleet) step() {
	f.now = f.now.Add(tick)
	for _, s := range f.sites {
		s.schedule(f.now)
	}
	f.tell()
	seen := fmt.Sprint(f.facts.Workload.Replicas, f.facts.Reports)
	if f.facts.Last == nil || len(f.facts.Last.Unplaced) > 0 {
		for i := range f.facts.Members {
			seen += fmt.Sprint(f.facts.Members[i].Capacity.Zones) // room wakes only who misses replicas
		}
	}
	for i := range f.facts.Members {
		seen += string(f.facts.Members[i].Taint)
	}
	if seen == f.seen && (f.due.IsZero() || f.now.Before(f.due)) {
		return
	}
	f.seen, f.due = seen, time.Time{}
	f.decide()
}

func (f *fleet) decide() {
	f.t.Helper()
	f.facts.Now = f.now
	decision, refusal := Plan(f.facts)
	if refusal != nil {
		f.t.Fatalf("refused: %+v", refusal)
	}
	again := f.facts
	again.Last = &decision.Spec
	second, _ := Plan(again)
	for range settleRounds {
		if !f.drained || cmp.Equal(decision.Spec.Cells, second.Spec.Cells) {
			break
		}
		// A step of a drain, and what waits in the member, are decisions of their own. They come to an end.
		decision, again.Last = second, &second.Spec
		second, _ = Plan(again)
	}
	if !cmp.Equal(decision.Spec.Cells, second.Spec.Cells) {
		f.t.Fatalf("decided from its own result, it decides something else:\n%s",
			cmp.Diff(decision.Spec.Cells, second.Spec.Cells))
	}
	before := f.facts.Last
	f.facts.Last = &decision.Spec
	if decision.Again > 0 {
		f.due = f.now.Add(decision.Again)
	}
	for _, s := range f.sites {
		order := int32(0)
		for _, c := range decision.Spec.Cells {
			if s.is(&c) {
				order, s.sequence = c.Replicas, c.Sequence
			}
		}
		if order != s.order {
			f.changes++
		}
		if had := remembered(before, s); had != nil && f.facts.Workload.Adaptive == nil && f.facts.Division == nil &&
			f.lies < 0 && f.now.Before(triedAt(had).Add(f.after()+trialSlack)) && !f.proven(s) &&
			order > max(s.order, had.Replicas+1) {
			f.t.Fatalf("%s: %s/%s found nodes for %d, has %d, and is told %d:\n%s", f.now, s.member, s.zone, had.Replicas,
				s.order, order, f)
		}
		if f.calm && order < s.running {
			f.t.Fatalf("%s: %s/%s runs %d, and is told %d:\n%s", f.now, s.member, s.zone, s.running, order, f)
		}
		s.obey(order, f.now)
	}
}

// remembered is what a decision remembers of a site's nodes.
func remembered(spec *topology.WorkloadPlacementSpec, s *site) *topology.Unschedulable {
	if spec == nil {
		return nil
	}
	for _, c := range spec.Cells {
		if s.is(&c) {
			return c.Unschedulable
		}
	}
	return nil
}

// proven tells whether all that a member was told to have is Ready, or waits in a zone of it.
func (f *fleet) proven(s *site) bool {
	report := f.facts.Reports[s.member]
	return report.Use[f.counted(s)].Ready+report.Waiting(f.counted(s)) >= s.ordered(f.sites)
}

// counted is the subset that a site's pods are reported in: those of a CloneSet that a WorkloadSpread divides are
// counted together.
func (f *fleet) counted(s *site) string {
	if f.facts.Division != nil {
		return ""
	}
	return s.subset
}

// triedAt is when a member was told to have more than it had found nodes for.
func triedAt(u *topology.Unschedulable) time.Time {
	if u.TriedAt != nil {
		return u.TriedAt.Time
	}
	return u.FailedAt.Time // it kept what nobody took
}

// ordered is how many pods all zones of the site's member are told to have.
func (s *site) ordered(all []*site) (n int32) {
	for _, o := range all {
		if o.member == s.member && o.subset == s.subset {
			n += o.order
		}
	}
	return n
}

// obey makes the pods that are asked for, or takes some away, those without a node first.
func (s *site) obey(order int32, now time.Time) {
	s.order = order
	for s.running+int32(len(s.waiting)) < order && !(s.oneByOne && len(s.waiting) > 0) {
		s.waiting = append(s.waiting, now)
	}
	for s.running+int32(len(s.waiting)) > order {
		if n := len(s.waiting); n > 0 {
			s.waiting = s.waiting[:n-1]
			continue
		}
		s.running--
	}
}

// schedule runs what finds a node, and stops what has lost its own.
func (s *site) schedule(now time.Time) {
	for ; s.running > s.nodes; s.running-- {
		s.waiting = append(s.waiting, now)
	}
	for ; s.running < s.nodes && len(s.waiting) > 0; s.running++ {
		s.waiting = s.waiting[1:]
	}
	s.broken = min(s.broken, s.running)
	s.obey(s.order, now)
}

// tell makes the reports of the members.
func (f *fleet) tell() {
	f.facts.Reports = map[string]capacity.Report{}
	for i := range f.facts.Members {
		m := &f.facts.Members[i]
		m.Capacity.Zones = nil
		report := capacity.Report{Applied: true, Use: map[string]work.SubsetUse{}}
		for _, s := range f.sites {
			if s.member != m.Name {
				continue
			}
			use := report.Use[f.counted(s)]
			n := s.running + int32(len(s.waiting))
			use.Subset = f.counted(s)
			use.Desired, use.Total, use.Updated = use.Desired+s.order, use.Total+n, use.Updated+n
			use.Ready, use.Available = use.Ready+s.ready(), use.Available+s.ready()
			report.Use[f.counted(s)], report.Sequence = use, max(report.Sequence, s.sequence)
			var stuck int32
			for _, since := range s.waiting {
				if f.now.Sub(since) >= f.after() {
					stuck++
				}
			}
			if stuck > 0 {
				stuck += s.unmade()
			}
			if stuck > 0 {
				report.Unschedulable = append(report.Unschedulable,
					work.UnschedulablePods{Subset: s.subset, Zone: s.zone, Pods: stuck})
			}
			if f.lies >= 0 {
				m.Capacity.Zones = append(m.Capacity.Zones, topology.Zone{Name: s.zone, Nodes: 1, Ready: 1,
					Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(s.nodes+f.lies)*100/95+1,
						resource.DecimalSI)},
					Requested: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(s.running), resource.DecimalSI)},
				})
			}
		}
		f.facts.Reports[m.Name] = report
		f.settle(m, &report)
	}
}

// after is how long a pod waits until it is told.
func (f *fleet) after() time.Duration {
	if f.facts.Reschedule == nil {
		return time.Minute
	}
	return newDraft(&f.facts).rescheduleAfter()
}

func (f *fleet) run(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.step()
	}
}

// String prints "east:4+1", pods that run and pods that wait, and what is not placed.
func (f *fleet) String() string {
	var parts []string
	for _, s := range f.sites {
		name := s.member
		if s.zone != "" {
			name += "/" + s.zone
		}
		if s.subset != "" {
			name = s.subset + "@" + name
		}
		text := fmt.Sprintf("%s:%d", name, s.running)
		if n := len(s.waiting); n > 0 {
			text += fmt.Sprintf("+%d", n)
		}
		if n := s.unmade(); n > 0 {
			text += fmt.Sprintf("(+%d)", n)
		}
		parts = append(parts, text)
	}
	for _, u := range f.facts.Last.Unplaced {
		parts = append(parts, fmt.Sprintf("%s:%d", u.Reason.Code, u.Replicas))
	}
	return strings.Join(parts, " ")
}

func (f *fleet) expect(want string) {
	f.t.Helper()
	if got := f.String(); got != want {
		f.t.Fatalf("%s, want %s", got, want)
	}
}

func (f *fleet) at(member string) *site {
	return f.sites[slices.IndexFunc(f.sites, func(s *site) bool { return s.member == member })]
}

func TestPodsWithoutANodeMove(t *testing.T) {
	f := newFleet(t, open(9), "east:1 south:9 west:4")
	f.run(45 * time.Second)
	f.expect("east:1+2 south:3 west:3")
	f.run(time.Minute)
	f.expect("east:1 south:4 west:4")
	east := f.facts.Last.Cells[0]
	if east.Reason.Code != CellUnschedulable || east.Unschedulable == nil || east.Unschedulable.Replicas != 1 ||
		east.Unschedulable.Tries != 1 {
		t.Errorf("east: %+v %+v", east.Reason, east.Unschedulable)
	}

	// The nodes come back: nothing moves for it. What is added tries with one, and then comes as it may.
	f.calm = true
	f.at("east").nodes = 9
	changes := f.changes
	f.run(10 * time.Minute)
	f.expect("east:1 south:4 west:4")
	if f.changes != changes {
		t.Error("something moved because nodes came back")
	}
	f.facts.Workload.Replicas = 10
	f.run(time.Minute)
	f.expect("east:2 south:4 west:4")
	f.facts.Workload.Replicas = 12
	f.run(time.Minute)
	f.expect("east:4 south:4 west:4")
	if east = f.facts.Last.Cells[0]; east.Unschedulable != nil {
		t.Errorf("east is still remembered: %+v", east.Unschedulable)
	}
}

// TestGrowthGoesElsewhereFirst: a member that found no node gets nothing before its time.
func TestGrowthGoesElsewhereFirst(t *testing.T) {
	f := newFleet(t, open(6), "east:1 west:20")
	f.run(105 * time.Second)
	f.expect("east:1 west:5")
	f.facts.Workload.Replicas = 8
	f.run(15 * time.Second)
	f.expect("east:1 west:5+2")
	f.run(15 * time.Second)
	f.expect("east:1 west:7")
}

// TestAMinTakesNothingThatRuns: a member with fewer nodes than its min is not tried again while all replicas run
// elsewhere, and is when some are missing.
func TestAMinTakesNothingThatRuns(t *testing.T) {
	f := newFleet(t, open(6), "east:1 west:20")
	f.facts.Spread.Places = []topology.SpreadPlace{{Cluster: "east", Min: new(intstr.FromInt32(3))}}
	f.run(5 * time.Minute)
	f.expect("east:1 west:5")
	f.calm = true
	changes := f.changes
	f.run(3 * time.Hour)
	f.expect("east:1 west:5")
	if f.changes != changes {
		t.Errorf("%d orders changed while all ran", f.changes-changes)
	}
	f.calm = false // once a replica more has shown that there are nodes, the min takes what it asks for
	f.at("east").nodes = 20
	f.facts.Workload.Replicas = 8
	f.run(2 * time.Hour)
	f.expect("east:3 west:5")
}

// TestNobodyTakesThem: pods wait where they are while nobody takes them, and nothing is written for it; what is added
// is unplaced where no room is known to be.
func TestNobodyTakesThem(t *testing.T) {
	f := newFleet(t, open(6), "east:1 west:2")
	f.run(3 * time.Minute)
	f.calm = true
	f.run(10 * time.Hour)
	changes := f.changes
	f.run(2 * time.Hour)
	// Each of the two tries the other one twice an hour, each time with one pod.
	if n := f.changes - changes; n > 2*2*2*2 {
		t.Errorf("%d changes in 2 hours: %s", n, f)
	}
	f.at("west").nodes = 5
	f.run(time.Hour)
	f.expect("east:1 west:5")
}

// TestRoomIsUsedAtOnce: what a member reports to have beyond what it had then is used without waiting for its time.
func TestRoomIsUsedAtOnce(t *testing.T) {
	w := open(8)
	w.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(1, resource.DecimalSI)}
	f := newFleet(t, w, "east:3 west:3")
	f.lies = 2
	f.run(2 * time.Minute)
	for range 3 {
		f.run(10 * time.Minute) // both have tried, and wait for longer
	}
	f.at("east").nodes = 8
	f.run(90 * time.Second)
	running := f.at("east").running + f.at("west").running
	if running != 8 {
		t.Errorf("%d of 8 run: %s", running, f)
	}
}

func TestPodsWithoutANodeMoveInZonesAndSubsets(t *testing.T) {
	f := newFleet(t, open(8), "east/a:4 east/b:1 west/c:9")
	f.run(3 * time.Minute)
	if f.at("west").running < 2 || f.String() != strings.ReplaceAll(f.String(), "+", "-") {
		t.Errorf("%s", f)
	}
	w := subsets(8, "x: y:")
	f = newFleet(t, w, "x@east:1 x@west:9 y@east:9 y@west:9")
	f.run(3 * time.Minute)
	var running int32
	for _, s := range f.sites {
		running += s.running
	}
	if running != 8 {
		t.Errorf("%s", f)
	}
}

// TestWithoutReschedulePodsWait: nothing is remembered, and nothing moves.
func TestWithoutReschedulePodsWait(t *testing.T) {
	f := newFleet(t, open(6), "east:1 west:9")
	f.facts.Reschedule = nil
	f.run(10 * time.Minute)
	f.expect("east:1+2 west:3")
	if f.facts.Last.RescheduleAfter != "" {
		t.Error("members are asked all the same")
	}
}

// TestOwnersThatMakePodsOneByOne: all that a member finds no node for goes at once, also where its owner makes one pod
// after the other.
func TestOwnersThatMakePodsOneByOne(t *testing.T) {
	f := newFleet(t, open(12), "east:1 west:20")
	f.at("east").oneByOne = true
	f.run(30 * time.Second)
	f.expect("east:1+1(+4) west:6")
	f.run(105 * time.Second)
	f.expect("east:1 west:11")
	if u := f.facts.Last.Cells[0].Unschedulable; u == nil || u.Tries != 1 {
		t.Errorf("remembered: %+v", u)
	}
}

// TestNodesAreProvenThoughAPodIsBroken: nodes that come back are used, though a pod of the member is not Ready for
// another reason.
func TestNodesAreProvenThoughAPodIsBroken(t *testing.T) {
	f := newFleet(t, open(8), "east/a:2 east/b:0 west/c:3")
	f.run(10 * time.Minute)
	if got := f.at("east").running + f.at("west").running; got != 5 {
		t.Fatalf("%s", f)
	}
	f.at("east").broken = 1
	f.sites[1].nodes = 9
	f.run(45 * time.Minute)
	f.expect("east/a:2 east/b:3 west/c:3")
}

// TestABrokenPodTakesItsRoomOnce: a pod that has a node and does not get Ready is among what its member reports to be
// requested. It was counted once more against the room of its own workload, and pods waited though there were nodes
// (seeds 201 and 227 of TestRescheduleComesToRest).
func TestABrokenPodTakesItsRoomOnce(t *testing.T) {
	w := open(6)
	w.Requests = one("1")
	f := newFleet(t, w, "east:2 west:4")
	f.lies = 0
	f.run(time.Minute)
	f.expect("east:2 west:4")
	f.at("west").broken, f.at("west").nodes, f.at("east").nodes = 1, 5, 1
	f.run(time.Minute)
	f.expect("east:1+1 west:4")
	f.run(5 * time.Minute)
	f.expect("east:1 west:5")
}

// TestRoomThatComesAndGoes: room that is reported again and again, and has no node, leads to no more tries than the
// time between them allows.
func TestRoomThatComesAndGoes(t *testing.T) {
	w := open(8)
	w.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(1, resource.DecimalSI)}
	f := newFleet(t, w, "east:3 west:3")
	f.lies = 0
	swing := func(d time.Duration) {
		for end := f.now.Add(d); f.now.Before(end); {
			f.lies = 5 - f.lies
			f.run(2 * time.Minute)
		}
	}
	swing(5 * time.Hour)
	changes := f.changes
	swing(2 * time.Hour)
	if n := f.changes - changes; n > 2*2*2*2 {
		t.Errorf("%d changes in 2 hours: %s", n, f)
	}
}

// TestScaleInIsNoTry: pods without a node that go because there are fewer to be make no try, and what the member has
// nodes for is remembered all the same.
func TestScaleInIsNoTry(t *testing.T) {
	f := newFleet(t, open(9), "east:1 west:2")
	f.run(2 * time.Hour)
	most := int32(1)
	for _, c := range f.facts.Last.Cells {
		if c.Unschedulable != nil {
			most = max(most, c.Unschedulable.Tries)
		}
	}
	for n := int32(8); n > 3; n-- {
		f.facts.Workload.Replicas = n
		f.run(tick)
	}
	for _, c := range f.facts.Last.Cells {
		if c.Unschedulable != nil && c.Unschedulable.Tries > most {
			t.Errorf("%s was tried %d times, at most %d before", c.Cluster, c.Unschedulable.Tries, most)
		}
	}

	f = newFleet(t, open(6), "east:1 west:20")
	f.facts.Spread.Places = []topology.SpreadPlace{{Cluster: "west", Max: new(intstr.FromInt32(3))}}
	f.run(5 * time.Minute)
	f.expect("east:1+2 west:3")
	f.facts.Workload.Replicas = 4
	f.run(tick)
	f.expect("east:1 west:3")
	if u := f.facts.Last.Cells[0].Unschedulable; u == nil || u.Replicas != 1 || u.Tries != 1 {
		t.Errorf("remembered: %+v", u)
	}
	if code := f.facts.Last.Cells[0].Reason.Code; code == CellUnschedulable {
		t.Error("the cell says that others got its replicas")
	}
}

// TestALowerAfterHoldsAtOnce: what is remembered goes by the policy as it is now.
func TestALowerAfterHoldsAtOnce(t *testing.T) {
	f := newFleet(t, open(6), "east:1 west:20")
	f.facts.Reschedule.After = "2h"
	f.run(2*time.Hour + time.Minute)
	f.expect("east:1 west:5")
	u := f.facts.Last.Cells[0].Unschedulable
	if got := u.RetryAfter.Sub(f.now); got < time.Hour {
		t.Fatalf("tried again in %s", got)
	}
	f.facts.Reschedule.After = "1m"
	f.run(2 * time.Minute)
	f.facts.Workload.Replicas = 7
	f.run(tick)
	if u = f.facts.Last.Cells[0].Unschedulable; u.RetryAfter.After(f.now) {
		t.Errorf("tried again in %s", u.RetryAfter.Sub(f.now))
	}
}

// TestAMemberMadeAnewInheritsNothing: a member that was left and comes again under its name is another one.
func TestAMemberMadeAnewInheritsNothing(t *testing.T) {
	f := newFleet(t, open(6), "east:1 west:20")
	f.run(2 * time.Minute)
	f.expect("east:1 west:5")
	f.facts.Members[0].Selected = false
	f.decide()
	f.facts.Members[0].Selected = true
	f.decide()
	for _, c := range f.facts.Last.Cells {
		if c.Unschedulable != nil {
			t.Errorf("%s: remembered %+v", c.Cluster, c.Unschedulable)
		}
	}
}

// TestAMemberThatReportsNonsense: what is Ready does not go, though its member says that it has no node.
func TestAMemberThatReportsNonsense(t *testing.T) {
	f := newFleet(t, open(6), "east:9 west:9")
	f.run(2 * time.Minute)
	f.expect("east:3 west:3")
	f.tell()
	east := f.facts.Reports["east"]
	east.Unschedulable = []work.UnschedulablePods{{Pods: 1000}}
	f.facts.Reports["east"] = east
	f.decide()
	f.expect("east:3 west:3")
}

// TestAHubWhoseClockWasWrong: what was remembered by a clock days ahead does not keep replicas unplaced for days.
func TestAHubWhoseClockWasWrong(t *testing.T) {
	f := newFleet(t, open(8), "east:1 west:3")
	f.facts.Spread.Places = []topology.SpreadPlace{{Cluster: "west", Max: new(intstr.FromInt32(3))}}
	f.run(5 * time.Minute)
	last := f.facts.Last
	for i := range last.Cells {
		if c := &last.Cells[i]; c.Cluster == "east" {
			c.Replicas = 1
			c.Unschedulable = &topology.Unschedulable{
				Replicas: 1, Tries: 1, FailedAt: new(metav1.NewTime(f.now.Add(100 * time.Hour))),
				RetryAfter: metav1.NewTime(f.now.Add(100*time.Hour + time.Minute)),
			}
			f.at("east").obey(1, f.now)
		}
	}
	last.Unplaced = []topology.Unplaced{{Replicas: 4}}
	f.at("east").nodes = 9
	f.run(5 * time.Minute)
	f.expect("east:5 west:3")
}

// TestWhatIsTriedIsNoRoom: that one pod is tried in a member tells nothing of the room of the others. With the type
// Available, and no member that says its room, that one pod was the least known room, and the others were divided by
// it: a pod waited beside nodes.
func TestWhatIsTriedIsNoRoom(t *testing.T) {
	f := newFleet(t, open(12), "east:0 south:20 west:20")
	f.facts.Spread.Type = topology.SpreadAvailable
	f.run(3 * time.Minute)
	f.expect("east:0 south:6 west:6")
	for _, seed := range []int{836, 905} { // of TestRescheduleComesToRest
		comesToRest(t, seed)
	}
}

// TestRescheduleComesToRest: fleets whose nodes nobody knows beforehand, which change for an hour and then no more.
// Whatever was running then goes on running; in the end no pod waits where another member has a node for it, all is at
// rest if there are nodes for all, and else members are tried ever more rarely.
func TestRescheduleComesToRest(t *testing.T) {
	seeds := *worlds
	if testing.Short() {
		seeds = min(seeds, 10)
	}
	for seed := *firstWorld; seed < *firstWorld+seeds; seed++ {
		comesToRest(t, seed)
	}
}

// comesToRest holds it of one fleet.
func comesToRest(t *testing.T, seed int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(seed), 5))
	members, zones := 2+r.IntN(4), 1
	if r.IntN(3) == 0 {
		zones = 1 + r.IntN(3)
	}
	var text []string
	for m := range members {
		for z := range zones {
			zone := ""
			if zones > 1 {
				zone = fmt.Sprintf("/%c", 'a'+z)
			}
			text = append(text, fmt.Sprintf("m%d%s:%d", m, zone, r.IntN(8)))
		}
	}
	w := open(int32(r.IntN(24)))
	f := newFleet(t, w, strings.Join(text, " "))
	if r.IntN(2) == 0 {
		f.facts.Workload.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(1, resource.DecimalSI)}
		f.lies = int32(r.IntN(6))
	}
	f.facts.Spread.Type = []topology.SpreadType{"", topology.SpreadAvailable, topology.SpreadCompact}[r.IntN(3)]
	for _, s := range f.sites {
		s.oneByOne = r.IntN(4) == 0
	}
	drains := zones == 1 && r.IntN(3) == 0
	for range 6 {
		if drains {
			f.drained = true
			m := &f.facts.Members[r.IntN(members)]
			m.Taint = []division.Effect{"", division.NoExecute, division.NoSchedule}[r.IntN(3)]
		}
		if r.IntN(3) == 0 {
			f.facts.Reschedule = &topology.Reschedule{After: []string{"15s", "1m", "10m"}[r.IntN(3)]}
		}
		for _, s := range f.sites {
			s.broken = int32(max(r.IntN(12)-9, 0))
		}
		f.run(10 * time.Minute)
		f.sites[r.IntN(len(f.sites))].nodes = int32(r.IntN(8))
		if r.IntN(3) == 0 {
			f.facts.Workload.Replicas = int32(r.IntN(24))
		}
	}
	for i := range f.facts.Members {
		f.facts.Members[i].Taint = ""
	}
	if drains {
		f.run(10 * time.Minute)
	}
	f.run(time.Minute)
	f.calm = true
	name := fmt.Sprintf("seed %d, %s for %d", seed, strings.Join(text, " "), f.facts.Workload.Replicas)
	f.run(12 * time.Hour)
	var nodes, running, waiting int32
	for _, s := range f.sites {
		nodes, running, waiting = nodes+s.nodes, running+s.running, waiting+int32(len(s.waiting))
	}
	if want := min(nodes, f.facts.Workload.Replicas); running < want {
		t.Errorf("%s: %d of %d run in the end: %s", name, running, want, f)
	}
	changes := f.changes
	f.run(2 * time.Hour)
	most := 0
	if running < f.facts.Workload.Replicas {
		most = 2 * 2 * 2 * len(f.sites) // every half an hour one goes and one comes, to each and from each
	}
	if n := f.changes - changes; n > most {
		t.Errorf("%s: %d changes in the last 2 hours, at most %d: %s", name, n, most, f)
	}
	if f.changes > 40*len(f.sites)+14*most {
		t.Errorf("%s: %d changes in all", name, f.changes)
	}
}
