package decision

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// spreadFleet is a fleet for a CloneSet that a WorkloadSpread with the strategy Adaptive divides.
func spreadFleet(t *testing.T, replicas int32, spread, text string) *fleet {
	t.Helper()
	f := newFleet(t, open(replicas), text)
	f.respread(spread)
	f.facts.Reschedule = &topology.Reschedule{After: "30s"} // what the decision asks of members
	return f
}

// respread gives the fleet another WorkloadSpread.
func (f *fleet) respread(text string) {
	f.t.Helper()
	f.facts.Division = spreadFacts(f.t, f.facts.Workload, text)
	f.facts.Division.Ref.Hash = text
	f.facts.Division.Adaptive = &kinds.Adaptive{Critical: 30 * time.Second, Closed: 300 * time.Second}
}

// TestAdaptiveSpreadIsThePublishedExample: a takes two and finds no node for them; after 300 s it is open again, and
// what runs stays.
func TestAdaptiveSpreadIsThePublishedExample(t *testing.T) {
	f := spreadFleet(t, 4, "a:east=2 b:west", "a@east:0 b@west:9")
	f.run(2 * tick)
	f.expect("a@east:0+2 b@west:2")
	f.run(3 * tick)
	f.expect("a@east:0 b@west:4")
	if got := f.facts.Last.RescheduleAfter; got != "30s" {
		t.Errorf("members report after %q", got)
	}
	west := f.facts.Last.Cells[len(f.facts.Last.Cells)-1]
	if west.SpreadSubset != "b" || west.Reason.Code != CellStandIn {
		t.Errorf("west: %+v", west)
	}
	want := "by the strategy Adaptive subset a has 0 of its 2 replicas, and instead subset b has 2 more; what runs " +
		"stays where it is, " +
		"and what is added goes to the subsets in their order where there are nodes"
	if note := adaptiveNote(t, f); note != want {
		t.Errorf("%s\nwant %s", note, want)
	}
	f.scale(5)
	f.expect("a@east:0 b@west:5") // a is closed
	f.calm = true
	f.at("east").nodes = 9
	f.run(6 * time.Minute)
	f.expect("a@east:0 b@west:5") // a is open again, and nothing moves for it
	f.scale(8)
	f.expect("a@east:2 b@west:6")
}

// TestAdaptiveSpreadWithinAMember: subsets of one member are counted together, and told apart where pods find no node.
func TestAdaptiveSpreadWithinAMember(t *testing.T) {
	f := spreadFleet(t, 6, "a:=4 b:", "a@east:1 b@east:9")
	f.run(2 * tick)
	f.expect("a@east:1+3 b@east:2")
	f.run(3 * tick)
	f.expect("a@east:1 b@east:5")
	f.calm = true
	f.run(20 * time.Minute)
	f.expect("a@east:1 b@east:5")
	f.calm = false
	f.scale(3) // the last subset goes first
	f.expect("a@east:1 b@east:2")
}

// TestAdaptiveSpreadFirstTriesTheMembersOfASubset: what one member finds no node for goes to another one of the subset
// before it goes to another subset.
func TestAdaptiveSpreadFirstTriesTheMembersOfASubset(t *testing.T) {
	f := spreadFleet(t, 6, "a:=6 b:west", "a@east:1 a@south:4 a@west:0 b@west:9")
	f.run(2 * time.Minute)
	f.expect("a@east:1 a@south:4 a@west:0 b@west:1")
	f.calm = true
	f.run(time.Hour)
	f.expect("a@east:1 a@south:4 a@west:0 b@west:1")
}

// TestAdaptiveSpreadThatChanges: another WorkloadSpread moves nothing that runs, and a subset of the same name stays
// closed.
func TestAdaptiveSpreadThatChanges(t *testing.T) {
	f := spreadFleet(t, 6, "a:east=4 b:west", "a@east:1 b@west:9")
	f.run(2 * time.Minute)
	f.expect("a@east:1 b@west:5")
	f.calm = true
	f.respread("a:east=5 b:west")
	f.run(time.Minute)
	f.expect("a@east:1 b@west:5")
	f.facts.Workload.Replicas = 8
	f.run(2 * tick)
	f.expect("a@east:1 b@west:7")
}

// TestAdaptiveSpreadWaits: without a time, and with Fence, pods wait in their subset, also where the policy
// reschedules.
func TestAdaptiveSpreadWaits(t *testing.T) {
	f := spreadFleet(t, 4, "a:east=2 b:west", "a@east:0 b@west:9")
	f.facts.Division.Adaptive = nil
	f.run(10 * time.Minute)
	f.expect("a@east:0+2 b@west:2")
	if got := f.facts.Last.RescheduleAfter; got != "" {
		t.Errorf("members report after %q", got)
	}
	f = spreadFleet(t, 4, "a:east=2 b:west", "a@east:0 b@west:9")
	f.facts.Failover.Mode = topology.FailoverFence
	f.run(10 * time.Minute)
	f.expect("a@east:0+2 b@west:2")
	if note := adaptiveNote(t, f); note != "scheduleStrategy Adaptive is not carried out with failover.mode Fence; pods "+
		"that find no node wait" {
		t.Error(note)
	}
}

// TestAdaptiveSpreadWaitsWhereNobodyTakes: pods wait where they are, none is lost, and little is written for it.
func TestAdaptiveSpreadWaitsWhereNobodyTakes(t *testing.T) {
	f := spreadFleet(t, 9, "a:east=4 b:south=3 c:west", "a@east:2 b@south:1 c@west:2")
	f.run(10 * time.Hour)
	f.calm = true
	changes := f.changes
	f.run(2 * time.Hour)
	if n := f.runs(); n != 5 {
		t.Errorf("%d run: %s", n, f)
	}
	if n := f.changes - changes; n > 2*2*2*3 {
		t.Errorf("%d changes in 2 hours: %s", n, f)
	}
	f.at("south").nodes = 9
	f.run(90 * time.Minute)
	if n := f.runs(); n != 7 {
		t.Errorf("%d run: %s", n, f)
	}
}

// runs is how many pods have a node.
func (f *fleet) runs() (n int32) {
	for _, s := range f.sites {
		n += s.running
	}
	return n
}

// TestAdaptiveSpreadComesToRest: as TestAdaptiveComesToRest, over the subsets of a WorkloadSpread, which share members.
func TestAdaptiveSpreadComesToRest(t *testing.T) {
	seeds := max(*worlds/4, 1) // they are long
	if testing.Short() {
		seeds = min(seeds, 10)
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 8))
		var text, places []string
		parts := 1 + r.IntN(4)
		for i := range parts {
			limit := ""
			if i < parts-1 {
				limit = fmt.Sprintf("=%d", 1+r.IntN(8))
			}
			text = append(text, fmt.Sprintf("s%d:%s", i, limit))
		}
		members := 1 + r.IntN(3)
		for i := range parts {
			for m := range members {
				places = append(places, fmt.Sprintf("s%d@m%d:%d", i, m, r.IntN(8)))
			}
		}
		f := spreadFleet(t, int32(r.IntN(24)), strings.Join(text, " "), strings.Join(places, " "))
		for range 6 {
			f.run(10 * time.Minute)
			f.sites[r.IntN(len(f.sites))].nodes = int32(r.IntN(8))
			if r.IntN(3) == 0 {
				f.facts.Workload.Replicas = int32(r.IntN(24))
			}
		}
		f.run(time.Minute)
		f.calm = true
		name := fmt.Sprintf("seed %d, %s in %s for %d", seed, strings.Join(text, " "), strings.Join(places, " "),
			f.facts.Workload.Replicas)
		f.run(12 * time.Hour)
		if least, n := f.leastRunning(), f.runs(); n < least {
			t.Errorf("%s: %d of %d run in the end: %s", name, n, least, f)
		}
		changes := f.changes
		f.run(2 * time.Hour)
		most := 0
		if f.runs() < f.facts.Workload.Replicas {
			most = 2 * 2 * 2 * len(f.sites)
		}
		if n := f.changes - changes; n > most {
			t.Errorf("%s: %d changes in the last 2 hours, at most %d: %s", name, n, most, f)
		}
		if t.Failed() {
			return
		}
	}
}

// TestReadSpreadStrategy: as published, pods wait for ever where no time is given, and a subset is closed for 300 s.
func TestReadSpreadStrategy(t *testing.T) {
	w := open(4)
	for _, tt := range []struct {
		given apps.WorkloadSpreadScheduleStrategy
		want  *kinds.Adaptive
	}{
		{apps.WorkloadSpreadScheduleStrategy{}, nil},
		{apps.WorkloadSpreadScheduleStrategy{Type: "Fixed",
			Adaptive: &apps.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(9))}}, nil},
		{apps.WorkloadSpreadScheduleStrategy{Type: "Adaptive"}, nil},
		{apps.WorkloadSpreadScheduleStrategy{Type: "Adaptive", Adaptive: &apps.AdaptiveWorkloadSpreadStrategy{}}, nil},
		{apps.WorkloadSpreadScheduleStrategy{Type: "Adaptive",
			Adaptive: &apps.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(0))}}, nil},
		{apps.WorkloadSpreadScheduleStrategy{Type: "Adaptive",
			Adaptive: &apps.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(9)),
				DisableSimulationSchedule: true}},
			&kinds.Adaptive{Critical: 9 * time.Second, Closed: 5 * time.Minute}},
	} {
		ws := workloadSpread("ws", "x:=3 y:")
		ws.Spec.ScheduleStrategy = tt.given
		facts, remarks, refusal := divisionOf(&w, &apps.CloneSet{}, []apps.WorkloadSpread{ws})
		if refusal != nil || len(remarks)+len(facts.Remarks) > 0 {
			t.Fatal(refusal, remarks, facts.Remarks)
		}
		if got := facts.Adaptive; (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.given, got, tt.want)
		}
	}
}
