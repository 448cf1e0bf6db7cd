package decision

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

var (
	worlds     = flag.Int("worlds", 40, "number of simulated worlds per property")
	firstWorld = flag.Int("first", 0, "seed of the first world of TestRescheduleComesToRest")
)

// roomWorld simulates a hub that gives the room of one member to workloads, and the news that travel between both. Its
// tick is a second. The clocks of both are apart.
type roomWorld struct {
	t      *testing.T
	random *rand.Rand
	clock  *clocktesting.FakePassiveClock
	ledger *ledger
	apart  time.Duration
	has    int64 // what the member has, in cores
	apps   []*roomApp

	told    topology.Zone // as the hub has it
	written surveyed      // as the agent wrote it last
	look    time.Time     // when the agent looks again
	patches []surveyed
}

// roomApp is a workload in a roomWorld.
type roomApp struct {
	name    string
	size    int64 // cores of a pod
	desired int32
	last    *topology.WorkloadPlacementSpec
	orders  []roomOrder // on their way
	order   int32
	pods    []*roomPod
	reports []roomReport    // on their way
	told    capacity.Report // as the hub has it
	sent    string
	slow    time.Duration // how long a pod may wait for its node beyond what is common
}

type roomPod struct {
	binds, ready, goes time.Time // when, zero for not yet
	bound              bool
}

type roomOrder struct {
	at       time.Time
	replicas int32
}

type roomReport struct {
	at   time.Time
	told capacity.Report
}

type surveyed struct {
	at, arrives time.Time
	requested   int64
}

func (w *roomWorld) within(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most) + 1))
}

func (w *roomWorld) now() time.Time { return w.clock.Now() }

// theirs is a time by the member's clock.
func (w *roomWorld) theirs(at time.Time) time.Time { return at.Add(w.apart) }

// step lets a second pass, in which news arrive, pods come and go, and the hub may decide.
func (w *roomWorld) step() {
	w.clock.SetTime(w.now().Add(time.Second))
	for _, a := range w.apps {
		w.carryOut(a)
	}
	if !w.now().Before(w.look) {
		w.survey()
	}
	for _, at := range w.random.Perm(len(w.apps) + 1) {
		if at == len(w.apps) {
			w.deliverSurveys()
			continue
		}
		a := w.apps[at]
		for len(a.reports) > 0 && !a.reports[0].at.After(w.now()) {
			a.told, a.reports = a.reports[0].told, a.reports[1:]
		}
		if w.random.IntN(4) == 0 {
			w.decide(a)
		}
	}
}

// carryOut makes the pods that the newest order asks for, and reports.
func (w *roomWorld) carryOut(a *roomApp) {
	now := w.now()
	for len(a.orders) > 0 && !a.orders[0].at.After(now) {
		a.order, a.orders = a.orders[0].replicas, a.orders[1:]
	}
	staying := func() (n int32) {
		for _, p := range a.pods {
			if p.goes.IsZero() {
				n++
			}
		}
		return n
	}
	for staying() < a.order {
		wait := w.within([]time.Duration{2 * time.Second, 15 * time.Second}[w.random.IntN(2)])
		if a.slow > 0 && w.random.IntN(3) == 0 {
			wait = w.within(a.slow)
		}
		a.pods = append(a.pods, &roomPod{binds: now.Add(wait)})
	}
	for staying() > a.order { // what has no node first
		at := slices.IndexFunc(a.pods, func(p *roomPod) bool { return p.goes.IsZero() && !p.bound })
		if at < 0 {
			at = slices.IndexFunc(a.pods, func(p *roomPod) bool { return p.goes.IsZero() })
		}
		a.pods[at].goes = now.Add(w.within(20 * time.Second))
	}
	a.pods = slices.DeleteFunc(a.pods, func(p *roomPod) bool {
		return !p.goes.IsZero() && (!p.bound || !p.goes.After(now))
	})
	var total, ready int32
	for _, p := range a.pods {
		if !p.bound && !p.binds.After(now) && w.requested()+a.size <= w.has {
			p.bound, p.ready = true, now.Add(w.within(3*time.Second))
		}
		if p.goes.IsZero() {
			total++
			if p.bound && !p.ready.After(now) {
				ready++
			}
		}
	}
	if text := fmt.Sprint(total, ready); text != a.sent {
		a.sent = text
		told := capacity.Report{Applied: true, At: w.theirs(now),
			Use: map[string]work.SubsetUse{"": {Total: total, Ready: ready}}}
		at := now.Add(w.within(2 * time.Second))
		if n := len(a.reports); n > 0 && at.Before(a.reports[n-1].at) {
			at = a.reports[n-1].at
		}
		a.reports = append(a.reports, roomReport{at, told})
	}
}

// requested is what the pods with a node hold.
func (w *roomWorld) requested() (cores int64) {
	for _, a := range w.apps {
		for _, p := range a.pods {
			if p.bound {
				cores += a.size
			}
		}
	}
	return cores
}

// survey is the agent's look at its nodes, as in member-agent/link.
func (w *roomWorld) survey() {
	now := w.now()
	w.look = now.Add(30*time.Second + w.within(3*time.Second))
	requested := w.requested()
	if moved := max(requested-w.written.requested, w.written.requested-requested); moved*20 < w.has {
		return
	}
	w.written = surveyed{at: now, arrives: now.Add(w.within(10 * time.Second)), requested: requested}
	w.patches = append(w.patches, w.written)
}

func (w *roomWorld) deliverSurveys() {
	for len(w.patches) > 0 && !w.patches[0].arrives.After(w.now()) {
		w.tell(w.patches[0].requested)
		w.ledger.Seen("east", w.theirs(w.patches[0].at))
		w.patches = w.patches[1:]
	}
}

func (w *roomWorld) tell(requested int64) {
	w.told = topology.Zone{Name: "a", Nodes: 1, Ready: 1,
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(w.has, resource.DecimalSI)},
		Requested:   corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(requested, resource.DecimalSI)},
	}
}

// decide is the hub's reconcile of a workload.
func (w *roomWorld) decide(a *roomApp) {
	w.t.Helper()
	key := keyed(a.name)
	reports := map[string]capacity.Report{"east": a.told}
	promised, read := w.ledger.Read(key, reports)
	if w.random.IntN(4) == 0 {
		w.deliverSurveys() // between what was promised and what the member has
	}
	f := Facts{Workload: open(a.desired), Last: a.last, Reports: reports, Now: w.now()}
	f.Workload.Key, f.Workload.Requests = key, one(fmt.Sprint(a.size))
	f.Members = []Member{{Name: "east", Selected: true, Ready: true, Weight: 1, Zones: []string{"a"},
		Capacity: capacity.Capacity{Zones: []topology.Zone{w.told}, Reserved: promised["east"]}}}
	decision, refusal := Plan(f)
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	if !w.ledger.Write(key, f.Workload.Requests, decision.Spec.Cells, reports, read) {
		w.t.Fatal("nobody wrote in between, and the decision is outdated")
	}
	if decision.Spec.Placed != placedOf(a.last) {
		at := w.now().Add(w.within(3 * time.Second))
		if n := len(a.orders); n > 0 && at.Before(a.orders[n-1].at) {
			at = a.orders[n-1].at
		}
		a.orders = append(a.orders, roomOrder{at, decision.Spec.Placed})
	}
	a.last = &decision.Spec
}

func placedOf(spec *topology.WorkloadPlacementSpec) int32 {
	if spec == nil {
		return 0
	}
	return spec.Placed
}

// given is what the hub gave by its last decisions: what a workload gives up is soon gone.
func (w *roomWorld) given() (cores int64) {
	for _, a := range w.apps {
		cores += int64(placedOf(a.last)) * a.size
	}
	return cores
}

func (w *roomWorld) String() string {
	text := fmt.Sprintf("%d cores, %d told to be requested, %d requested", w.has, w.told.Requested.Cpu().Value(),
		w.requested())
	for _, a := range w.apps {
		text += fmt.Sprintf("; %s of %d: %d wanted, %d placed, %d ordered, %d pods (%s), told %v, reserved %+v",
			a.name, a.size, a.desired, placedOf(a.last), a.order, len(a.pods), a.sent, a.told.Use, w.reserved(a))
	}
	return text
}

func newRoomWorld(t *testing.T, seed uint64, apps int) *roomWorld {
	random := rand.New(rand.NewPCG(seed, 11))
	w := &roomWorld{t: t, random: random, clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)),
		has: 20 + random.Int64N(200)}
	w.apart = time.Duration(random.IntN(600)-300) * time.Second
	w.ledger, w.look = newLedger(w.clock), w.now().Add(w.within(33*time.Second))
	w.tell(0)
	for i := range apps {
		w.apps = append(w.apps, &roomApp{name: fmt.Sprint("web-", i), size: 1 + random.Int64N(4)})
	}
	return w
}

// TestRoomIsGivenOnce lets workloads share a member, and holds that together they never get more than it has, whatever
// order reports on pods and on room come in; and that in the end they have what there is.
func TestRoomIsGivenOnce(t *testing.T) {
	for seed := range uint64(*worlds) {
		w := newRoomWorld(t, seed, 1+int(seed%4))
		if len(w.apps) == 1 {
			w.apps[0].slow = 5 * time.Minute // its own pods may wait for long; those of others are given up after a while
		}
		want := func() {
			a := w.apps[w.random.IntN(len(w.apps))]
			if w.random.IntN(4) == 0 {
				a.desired = 0
			} else {
				a.desired = w.random.Int32N(int32(w.has) + 10)
			}
		}
		for _, a := range w.apps {
			a.desired = w.random.Int32N(int32(w.has))
		}
		for second := range 900 {
			if w.random.IntN(60) == 0 && second < 600 {
				want()
			}
			w.step()
			if w.given() > w.has {
				t.Fatalf("seed %d, second %d: %d cores are given: %s", seed, second, w.given(), w)
			}
		}
		var wanted int64
		for _, a := range w.apps {
			wanted += int64(a.desired) * a.size
		}
		// What moved by less than 5 % is not told, 5 % are left, and a pod is up to 4 cores.
		if least := min(wanted, w.has-w.has/20-w.has/20-5); w.given() < least {
			t.Errorf("seed %d: %d cores are given at rest, at least %d can be: %s", seed, w.given(), least, w)
		}
	}
}

// TestPromisedRoomIsNotGivenTwice holds what a decision does with promises to others.
func TestPromisedRoomIsNotGivenTwice(t *testing.T) {
	room := func(amounts map[corev1.ResourceName]float64,
		zones map[string]map[corev1.ResourceName]float64) capacity.Amounts {
		return capacity.Amounts{All: amounts, Zones: zones}
	}
	pod := func(n float64) map[corev1.ResourceName]float64 {
		return map[corev1.ResourceName]float64{corev1.ResourcePods: n * 1000}
	}
	zones := []topology.Zone{pods("a", "100", "85"), pods("b", "100", "90")} // 10 and 5 fit
	for _, tc := range []struct {
		name     string
		names    []string
		reserved capacity.Amounts
		want     int32
	}{
		{"nothing", nil, capacity.Amounts{}, 15},
		{"in some zone", nil, room(pod(4), nil), 11},
		{"in zone a", nil, room(pod(4), map[string]map[corev1.ResourceName]float64{"a": pod(4)}), 11},
		{"more than zone a has", nil, room(pod(12), map[string]map[corev1.ResourceName]float64{"a": pod(12)}), 3},
		{"zone a is asked for", []string{"a"}, room(pod(4), map[string]map[corev1.ResourceName]float64{"a": pod(4)}), 6},
		{"zone b is asked for", []string{"b"}, room(pod(4), map[string]map[corev1.ResourceName]float64{"a": pod(4)}), 5},
		{"more than there is", nil, room(pod(40), nil), 0},
		{"of something else", nil, room(map[corev1.ResourceName]float64{corev1.ResourceCPU: 1e9}, nil), 15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &capacity.Capacity{Zones: zones, Reserved: tc.reserved}
			if got := m.Room(tc.names, kinds.PodRequests(&corev1.PodTemplateSpec{})); got == nil || *got != tc.want {
				t.Errorf("room %v, want %d", got, tc.want)
			}
		})
	}
	all := members("east west")
	all[0].Capacity.Zones, all[1].Capacity.Zones = []topology.Zone{pods("a", "100", "85")},
		[]topology.Zone{pods("a", "100", "85")}
	f := Facts{Workload: sized(open(10), ""), Members: all}
	f.Members[0].Reserved = room(pod(8), nil)
	if d := plan(t, f); d.Spec.Clusters != "east:2 west:8" {
		t.Errorf("with 2 places left in east: %s", d.Spec.Clusters)
	}
	last := plan(t, f).Spec
	f.Last, f.Members[0].Reserved = &last, room(pod(50), nil)
	if d := plan(t, f); d.Spec.Clusters != "east:2 west:8" || d.Spec.Sequence != last.Sequence {
		t.Errorf("promises to others move what is placed: %s", d.Spec.Clusters)
	}
}

// TestManyAtOnceShareTheRoom lets workloads be decided at once, as the workers of a hub do, and holds that together
// they get no more than there is.
func TestManyAtOnceShareTheRoom(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(100, 0)))
	const workloads = 40
	var group sync.WaitGroup
	placed := make([]int32, workloads)
	for i := range workloads {
		group.Go(func() {
			key := keyed(fmt.Sprint("web-", i))
			for {
				promised, at := l.Read(key, nil)
				all := members("east west")
				for j := range all {
					all[j].Capacity.Zones, all[j].Reserved = []topology.Zone{pods("a", "100", "45")}, promised[all[j].Name] // 50 fit
				}
				f := Facts{Workload: sized(open(4), ""), Members: all}
				d, refusal := Plan(f)
				if refusal != nil {
					t.Error(refusal)
					return
				}
				if l.Write(key, f.Workload.Requests, d.Spec.Cells, nil, at) {
					placed[i] = d.Spec.Placed
					return
				}
			}
		})
	}
	group.Wait()
	var sum int32
	for _, n := range placed {
		sum += n
	}
	if sum != 100 {
		t.Errorf("%d replicas were placed, and 100 fit", sum)
	}
}

// ledger has the reservations as of the time of a clock.
type ledger struct {
	*capacity.Reservations
	clock clock.PassiveClock
}

func newLedger(clk clock.PassiveClock) *ledger { return &ledger{capacity.NewReservations(), clk} }

func (l *ledger) Read(key wire.Key, reports map[string]capacity.Report) (map[string]capacity.Amounts, int64) {
	return l.Reservations.Read(l.clock.Now(), key, reports)
}

func (l *ledger) Write(key wire.Key, requests corev1.ResourceList, cells []topology.Cell,
	reports map[string]capacity.Report, at int64) bool {
	return l.Reservations.Write(l.clock.Now(), key, requests, cells, reports, at)
}

func keyed(name string) wire.Key {
	return wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: name}
}

func (w *roomWorld) reserved(a *roomApp) capacity.Amounts {
	amounts, _ := w.ledger.Read(keyed("other "+a.name), nil)
	return amounts["east"]
}

func one(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}
