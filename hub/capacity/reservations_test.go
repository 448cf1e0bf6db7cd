package capacity

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// ledger has the reservations as of the time of a clock.
type ledger struct {
	*Reservations
	clock clock.PassiveClock
}

func newLedger(clk clock.PassiveClock) *ledger { return &ledger{NewReservations(), clk} }

func (l *ledger) Read(key wire.Key, reports map[string]Report) (map[string]Amounts, int64) {
	return l.Reservations.Read(l.clock.Now(), key, reports)
}

func (l *ledger) Write(key wire.Key, requests corev1.ResourceList, cells []topology.Cell, reports map[string]Report,
	at int64) bool {
	return l.Reservations.Write(l.clock.Now(), key, requests, cells, reports, at)
}

func keyed(name string) wire.Key {
	return wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: name}
}

func one(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func in(cluster, zone string, replicas int32) topology.Cell {
	return topology.Cell{Cluster: cluster, Zone: zone, Replicas: replicas}
}

// stand is a report of pods that are Ready in east.
func stand(total int32) map[string]Report {
	return map[string]Report{"east": {Applied: true, Use: map[string]work.SubsetUse{"": {Total: total, Ready: total}}}}
}

// A member's room does not count pods without a node: they are held against others until they are Ready, or for a
// while.
func TestLedgerWaitsForNodes(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	l := newLedger(clk)
	cells := []topology.Cell{in("east", "a", 4)}
	l.Write(keyed("web"), one("1"), cells, nil, -1)
	l.Write(keyed("web"), one("1"), cells, map[string]Report{"east": {Applied: true,
		Use: map[string]work.SubsetUse{"": {Total: 4, Ready: 1}}}}, -1)
	l.Seen("east", time.Time{})
	if got := cores(l, "other"); got != 3 {
		t.Errorf("%d cores are promised beside the one that is Ready, want 3", got)
	}
	clk.SetTime(clk.Now().Add(UnseenFor))
	if got := cores(l, "other"); got != 0 {
		t.Errorf("%d cores are promised to pods that have stood for %s, want 0", got, UnseenFor)
	}
}

// TestLedgerHoldsOwnNewestPods holds that the room of a workload's own pods is not given to the same workload again
// before the member's report counts them: what is not Ready is known to the decision by cell, what is Ready is not.
func TestLedgerHoldsOwnNewestPods(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(100, 0)))
	var reports map[string]Report
	is := func(what string, want int) {
		t.Helper()
		promised, _ := l.Read(keyed("web"), reports)
		if got := int(promised["east"].All[corev1.ResourceCPU] / 1000); got != want {
			t.Errorf("%s: %d cores are held, want %d", what, got, want)
		}
	}
	cells := []topology.Cell{in("east", "a", 4)}
	l.Write(keyed("web"), one("1"), cells, nil, -1)
	is("ordered", 0)
	reports = map[string]Report{"east": {Applied: true, Use: map[string]work.SubsetUse{"": {Total: 4, Ready: 3}}}}
	is("three of four are Ready, and not in the report on room", 3)
	promised, _ := l.Read(keyed("web"), reports)
	if got := promised["east"].Zones["a"][corev1.ResourceCPU]; got != 3000 {
		t.Errorf("in the zone %v thousandths are held, want 3000", got)
	}
	l.Seen("east", time.Time{})
	is("in the report on room", 0)
	reports = stand(6)
	is("more stand than were ordered: one more than was seen counts", 1)
}

// cores is what is promised in east to others than the workload, in whole cores.
func cores(l *ledger, name string) int {
	promised, _ := l.Read(keyed(name), nil)
	return int(promised["east"].All[corev1.ResourceCPU] / 1000)
}

func TestLedger(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	l := newLedger(clk)
	is := func(what string, want int) {
		t.Helper()
		if got := cores(l, "other"); got != want {
			t.Errorf("%s: %d cores are promised, want %d", what, got, want)
		}
	}
	cells := []topology.Cell{in("east", "a", 3), in("east", "b", 2), in("west", "", 1)}
	if !l.Write(keyed("web"), one("2"), cells, nil, 0) {
		t.Fatal("the first decision is refused")
	}
	is("ordered", 10)
	if got := cores(l, "web"); got != 0 {
		t.Errorf("%d cores are held against the workload that they are promised to", got)
	}
	promised, _ := l.Read(keyed("other"), nil)
	if zones := promised["east"].Zones; zones["a"][corev1.ResourceCPU] != 6000 || zones["b"][corev1.ResourceCPU] != 4000 {
		t.Errorf("by zone: %v", zones)
	}
	l.Write(keyed("web"), one("2"), cells, stand(4), -1)
	is("created, and not in the report on room", 10)
	l.Seen("east", time.Time{})
	is("in the report on room", 2)
	l.Write(keyed("web"), one("2"), cells, stand(5), -1)
	is("the last is created", 2)
	clk.SetTime(clk.Now().Add(UnseenFor - time.Second))
	is("a second too early", 2)
	clk.SetTime(clk.Now().Add(time.Second))
	is("the member has looked at its nodes again", 0)
	l.Write(keyed("web"), one("2"), cells, stand(1), -1)
	is("four vanish", 8)
	l.Write(keyed("web"), one("2"), cells[:2], stand(7), -1)
	l.Seen("east", time.Time{})
	is("more than ordered", 0)
	l.Write(keyed("web"), nil, nil, nil, -1)
	is("gone", 0)
	if len(l.entries) != 0 || len(l.members["east"].keys) != 0 {
		t.Error("it is remembered")
	}
	l.Write(keyed("web"), one("2"), cells, stand(4), -1)
	is("a hub that starts: what stands has been there", 2)
	l.Write(keyed("adopted"), one("2"), []topology.Cell{{Cluster: "east", Replicas: 3,
		Adoption: topology.AdoptionOf("3")}}, nil, -1)
	is("adopted, before a mark is on it", 2)
}

// TestLedgerOfWhatGoesAndComesAgain: pods that are reported from before, and go, are none of those that come.
func TestLedgerOfWhatGoesAndComesAgain(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(100, 0)))
	is := func(what string, want int) {
		t.Helper()
		if got := cores(l, "other"); got != want {
			t.Errorf("%s: %d cores are promised, want %d", what, got, want)
		}
	}
	write := func(n int32) { l.Write(keyed("web"), one("1"), []topology.Cell{in("east", "", n)}, stand(4), -1) }
	write(4)
	is("a hub that starts", 0)
	write(0)
	is("they are to go", 0)
	write(6)
	is("they come again, and the report tells of those that go", 6)
	write(0)
	l.Write(keyed("web"), nil, nil, nil, -1)
	if len(l.entries) != 0 || len(l.members["east"].keys) != 0 {
		t.Error("it is remembered")
	}
}

// TestLedgerRefusesWhatIsOutdated holds that of two decisions made at once the second is made again.
func TestLedgerRefusesWhatIsOutdated(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(100, 0)))
	_, first := l.Read(keyed("one"), nil)
	_, second := l.Read(keyed("two"), nil)
	cells := []topology.Cell{in("east", "", 3)}
	if !l.Write(keyed("one"), one("1"), cells, nil, first) {
		t.Error("the first is refused")
	}
	if l.Write(keyed("two"), one("1"), cells, nil, second) {
		t.Error("the second did not know of the first")
	}
	if !l.Write(keyed("two"), one("1"), []topology.Cell{in("west", "", 3)}, nil, second) {
		t.Error("what others were promised elsewhere does not matter")
	}
	_, second = l.Read(keyed("two"), nil)
	if !l.Write(keyed("two"), one("1"), cells, nil, second) || cores(l, "none") != 6 {
		t.Error("the second try is refused")
	}
	if !l.Write(keyed("one"), one("1"), cells, stand(3), first) {
		t.Error("what asks for no more needs to know nothing")
	}
}

// TestLedgerSums compares the sums with what adding everything up gives, over random events, and holds that in the end
// only what is not created is promised, whatever the order was.
func TestLedgerSums(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		clk := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
		l := newLedger(clk)
		ordered, created := map[string]int32{}, map[string]int32{}
		write := func(name string) {
			l.Write(keyed(name), one("3"), []topology.Cell{in("east", "a", ordered[name])}, stand(created[name]), -1)
		}
		for range 400 {
			name := fmt.Sprint("web-", random.IntN(6))
			switch random.IntN(6) {
			case 0:
				ordered[name] = random.Int32N(20)
			case 1, 2:
				created[name] = random.Int32N(ordered[name] + 2)
			case 3:
				clk.SetTime(clk.Now().Add(time.Duration(random.IntN(30)) * time.Second))
			case 4:
				l.Seen("east", time.Time{})
			case 5:
				ordered[name], created[name] = 0, 0
			}
			write(name)
			var want float64
			promised, _ := l.Read(keyed("other"), nil)
			for _, e := range l.entries {
				if p := e.in["east"]; p != nil {
					want += float64(p.unseen()) * 3000
				}
			}
			if got := promised["east"]; got.All[corev1.ResourceCPU] != want || got.Zones["a"][corev1.ResourceCPU] != want {
				t.Fatalf("seed %d: promised %+v, want %v", seed, got, want)
			}
		}
		clk.SetTime(clk.Now().Add(UnseenFor))
		var missing int32
		for name := range ordered {
			missing += max(ordered[name]-created[name], 0)
		}
		if got := cores(l, "other"); got != int(missing)*3 {
			t.Errorf("seed %d: %d cores are promised at rest, want %d", seed, got, missing*3)
		}
	}
}

// TestLedgerTellsSinceWhenPodsStand: a pod that comes, or ceases to be Ready, begins the time anew; one that gets Ready
// does not.
func TestLedgerTellsSinceWhenPodsStand(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	l, key := newLedger(clk), keyed("web")
	if promised, _ := l.Read(key, nil); !promised["east"].Settled.Time.IsZero() {
		t.Errorf("nothing was promised: %+v", promised)
	}
	l.Write(key, one("1"), []topology.Cell{in("east", "", 3)}, nil, -1)
	for _, tt := range []struct {
		total, ready int32
		anew         bool
	}{{2, 0, true}, {2, 0, false}, {2, 2, false}, {2, 1, true}, {2, 2, false}, {3, 2, true}, {3, 2, false}} {
		clk.SetTime(clk.Now().Add(time.Second))
		promised, _ := l.Read(key, map[string]Report{"east": {Applied: true,
			Use: map[string]work.SubsetUse{"": {Total: tt.total, Ready: tt.ready}}}})
		if got := promised["east"].Settled.Time.Equal(clk.Now()); got != tt.anew {
			t.Errorf("%+v: since %s, now %s", tt, promised["east"].Settled, clk.Now())
		}
	}
}
