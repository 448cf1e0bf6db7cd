package decision

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// adaptive reads "a:east=0-2 b:west= c:south=1-": subsets with the member that each is in and its bounds. Without a
// member all match.
func adaptive(replicas int32, text string) kinds.Workload {
	w := subsets(replicas, "")
	for _, part := range strings.Fields(text) {
		place, numbers, _ := strings.Cut(part, "=")
		name, member, _ := strings.Cut(place, ":")
		s := kinds.Subset{Subset: division.Subset{Name: name}, Amounts: limits(1)}
		if member != "" {
			s.Term.MatchExpressions = inMembers(member)
		}
		if low, high, _ := strings.Cut(numbers, "-"); numbers != "" {
			if low != "" {
				s.Min = new(intstr.Parse(low))
			}
			if high != "" {
				s.Max = new(intstr.Parse(high))
			}
		}
		w.Subsets = append(w.Subsets, s)
	}
	w.Adaptive = &kinds.Adaptive{Critical: 30 * time.Second, Closed: 5 * time.Minute}
	return w
}

func inMembers(names ...string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: topology.LabelCluster, Operator: corev1.NodeSelectorOpIn, Values: names}}
}

// adaptiveFleet is a fleet whose subsets lie in members of their own.
func adaptiveFleet(t *testing.T, w kinds.Workload, text string) *fleet {
	f := newFleet(t, w, text)
	f.facts.Reschedule = &topology.Reschedule{After: "30s"} // what the decision asks of members
	return f
}

// scale changes the replicas and lets orders, pods and reports go their way.
func (f *fleet) scale(replicas int32) {
	f.t.Helper()
	f.facts.Workload.Replicas = replicas
	f.run(4 * tick)
}

// TestAdaptiveIsThePublishedExample is the example of OpenKruise, with members in place of nodes: b finds no node.
func TestAdaptiveIsThePublishedExample(t *testing.T) {
	f := adaptiveFleet(t, adaptive(3, "a:east=-2 b:south=-2 c:west"), "a@east:9 b@south:0 c@west:9")
	f.run(2 * tick)
	f.expect("a@east:2 b@south:0+1 c@west:0")
	f.run(3 * tick)
	f.expect("a@east:2 b@south:0 c@west:1")
	if got := f.facts.Last.RescheduleAfter; got != "30s" {
		t.Errorf("members report after %q", got)
	}
	west := f.facts.Last.Cells[len(f.facts.Last.Cells)-1]
	if west.Reason.Code != CellStandIn {
		t.Errorf("west: %+v", west.Reason)
	}
	f.scale(5)
	f.expect("a@east:2 b@south:0 c@west:3")
	f.scale(4)
	f.expect("a@east:2 b@south:0 c@west:2")

	f.calm = true
	f.run(6 * time.Minute) // b is open again, and nothing moves for it
	f.expect("a@east:2 b@south:0 c@west:2")
	f.calm = false
	f.facts.Workload.Replicas = 5
	f.run(2 * tick)
	f.expect("a@east:2 b@south:0+1 c@west:2") // b is tried
	f.scale(4)
	f.expect("a@east:2 b@south:0 c@west:2") // what found no node goes first
	f.scale(3)
	f.expect("a@east:2 b@south:0 c@west:1")
}

// TestAdaptiveKeepsAMinThatWaits: a minReplicas keeps a pod in a closed subset; it is the try.
func TestAdaptiveKeepsAMinThatWaits(t *testing.T) {
	f := adaptiveFleet(t, adaptive(3, "a:east=1-2 b:west"), "a@east:0 b@west:9")
	f.run(2 * time.Minute)
	f.expect("a@east:0+1 b@west:2")
	f.scale(4)
	f.expect("a@east:0+1 b@west:3")
	f.at("east").nodes = 9
	f.run(time.Minute)
	f.expect("a@east:1 b@west:3")
	f.run(10 * time.Minute)
	f.scale(5)
	f.expect("a@east:2 b@west:3")
	f.scale(4)
	f.expect("a@east:2 b@west:2")
	f.scale(1)
	f.expect("a@east:1 b@west:0")
}

// TestAdaptiveWithoutNumbers fills the first subset, and goes on to the next where it is full.
func TestAdaptiveWithoutNumbers(t *testing.T) {
	f := adaptiveFleet(t, adaptive(6, "a:east b:south c:west"), "a@east:9 b@south:1 c@west:9")
	f.run(time.Minute)
	f.expect("a@east:6 b@south:0 c@west:0")
	f.at("east").nodes = 2
	f.run(4 * tick)
	f.expect("a@east:2 b@south:1+3 c@west:0")
	f.run(time.Minute)
	f.expect("a@east:2 b@south:1 c@west:3")
}

// TestAdaptiveFirstTriesTheMembersOfASubset: what one member finds no node for goes to another one of the subset before
// it goes to another subset.
func TestAdaptiveFirstTriesTheMembersOfASubset(t *testing.T) {
	w := adaptive(6, "a b:west")
	w.Subsets[0].Term.MatchExpressions = inMembers("east", "south")
	f := adaptiveFleet(t, w, "a@east:1 a@south:4 b@west:9")
	f.run(2 * tick)
	f.expect("a@east:1+2 a@south:3 b@west:0")
	f.run(2 * tick)
	f.expect("a@east:1 a@south:4+1 b@west:0")
	f.run(time.Minute)
	f.expect("a@east:1 a@south:4 b@west:1")
}

// TestAdaptiveTakesWhatReturns: a subset that is open again gets all that is added, not one pod and then the rest.
func TestAdaptiveTakesWhatReturns(t *testing.T) {
	f := adaptiveFleet(t, adaptive(6, "a:east b:west"), "a@east:2 b@west:9")
	f.run(2 * time.Minute)
	f.expect("a@east:2 b@west:4")
	f.at("east").nodes = 20
	f.scale(8)
	f.expect("a@east:2 b@west:6") // it is still closed
	f.run(6 * time.Minute)
	f.scale(14)
	f.expect("a@east:8 b@west:6")
}

// TestAdaptiveGoesByRoom: what members report to have no room for goes to the next subset at once.
func TestAdaptiveGoesByRoom(t *testing.T) {
	w := adaptive(6, "a:east b:west")
	w.Requests = one("1")
	f := adaptiveFleet(t, w, "a@east:2 b@west:9")
	f.lies = 0
	f.tell()
	f.decide()
	f.run(2 * tick)
	f.expect("a@east:2 b@west:4")
	note := adaptiveNote(t, f)
	want := "by the strategy Adaptive subset a has 2 of its 6 replicas, and instead subset b has 4 more; what runs " +
		"stays where it is, " +
		"and what is added goes to the subsets in their order where there are nodes"
	if note != want {
		t.Errorf("%s\nwant %s", note, want)
	}
}

// TestAdaptiveNotWithFence: a pod that waits can find a node just when another one takes its place.
func TestAdaptiveNotWithFence(t *testing.T) {
	f := adaptiveFleet(t, adaptive(6, "a:east b:west"), "a@east:2 b@west:9")
	f.facts.Reschedule, f.facts.Failover.Mode = nil, topology.FailoverFence
	f.run(10 * time.Minute)
	f.expect("a@east:2+1 b@west:3")
	if note := adaptiveNote(t, f); note != "scheduleStrategy Adaptive is not carried out with failover.mode Fence; pods "+
		"that find no node wait" {
		t.Error(note)
	}
}

func adaptiveNote(t *testing.T, f *fleet) string {
	t.Helper()
	for _, n := range plan(t, f.facts).Notes {
		if strings.Contains(n.Message, "Adaptive") {
			return n.Message
		}
	}
	return ""
}

// TestAdaptiveWaitsWhereNobodyTakes: pods wait where they are, none is lost, and little is written for it.
func TestAdaptiveWaitsWhereNobodyTakes(t *testing.T) {
	f := adaptiveFleet(t, adaptive(9, "a:east=-4 b:south=-3 c:west"), "a@east:2 b@south:1 c@west:2")
	f.run(10 * time.Hour)
	f.calm = true
	changes := f.changes
	f.run(2 * time.Hour)
	var running, waiting int32
	for _, s := range f.sites {
		running, waiting = running+s.running, waiting+int32(len(s.waiting))
	}
	if running != 5 {
		t.Errorf("%d run: %s", running, f)
	}
	if n := f.changes - changes; n > 2*2*2*3 {
		t.Errorf("%d changes in 2 hours: %s", n, f)
	}
	f.at("south").nodes = 9
	f.run(90 * time.Minute)
	if running = 0; running < 7 {
		for _, s := range f.sites {
			running += s.running
		}
	}
	if running != 7 {
		t.Errorf("%d run: %s", running, f)
	}
}

// TestAdaptiveComesToRest: as TestRescheduleComesToRest, over subsets with bounds.
func TestAdaptiveComesToRest(t *testing.T) {
	seeds := max(*worlds/4, 1) // they are long
	if testing.Short() {
		seeds = min(seeds, 10)
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		var text, places []string
		parts := 1 + r.IntN(4)
		for i := range parts {
			low, high := "", ""
			if r.IntN(3) == 0 {
				low = fmt.Sprint(r.IntN(4))
			}
			if i < parts-1 && r.IntN(2) == 0 {
				high = fmt.Sprint(3 + r.IntN(6))
			}
			numbers := ""
			if low+high != "" {
				numbers = "=" + low + "-" + high
			}
			text = append(text, fmt.Sprintf("s%d%s", i, numbers))
		}
		members := 1 + r.IntN(3)
		for i := range parts {
			for m := range members {
				places = append(places, fmt.Sprintf("s%d@m%d:%d", i, m, r.IntN(8)))
			}
		}
		w := adaptive(int32(r.IntN(24)), strings.Join(text, " "))
		w.Adaptive.Closed = []time.Duration{time.Second, time.Minute, 5 * time.Minute}[r.IntN(3)]
		f := adaptiveFleet(t, w, strings.Join(places, " "))
		for _, s := range f.sites {
			s.oneByOne = r.IntN(4) == 0
		}
		for range 6 {
			for _, s := range f.sites {
				s.broken = int32(max(r.IntN(12)-9, 0))
			}
			f.run(10 * time.Minute)
			f.sites[r.IntN(len(f.sites))].nodes = int32(r.IntN(8))
			if r.IntN(3) == 0 {
				f.facts.Workload.Replicas = int32(r.IntN(24))
			}
		}
		for _, s := range f.sites {
			s.broken = 0
		}
		f.run(time.Minute)
		f.calm = true
		name := fmt.Sprintf("seed %d, %s in %s for %d", seed, strings.Join(text, " "), strings.Join(places, " "),
			f.facts.Workload.Replicas)
		f.run(12 * time.Hour)
		least := f.leastRunning()
		var running int32
		for _, s := range f.sites {
			running += s.running
		}
		if running < least {
			t.Errorf("%s: %d of %d run in the end: %s", name, running, least, f)
		}
		changes := f.changes
		f.run(2 * time.Hour)
		most := 0
		if running < f.facts.Workload.Replicas {
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

// leastRunning is how many replicas have nodes within the bounds, without those that wait in a subset because its min
// asks for them.
func (f *fleet) leastRunning() int32 {
	left, waste, sum := f.facts.Workload.Replicas, int32(0), int32(0)
	parts := f.facts.Workload.Subsets
	if f.facts.Division != nil {
		parts = f.facts.Division.Parts
	}
	for i := range parts {
		s := &parts[i]
		var nodes, low int32
		for _, site := range f.sites {
			if site.subset == s.Name {
				nodes += site.nodes
			}
		}
		high := nodes
		if s.Max != nil {
			high = min(high, s.Max.IntVal)
		}
		if s.Min != nil {
			low = min(s.Min.IntVal, left)
			left -= low
		}
		waste, sum = waste+max(low-high, 0), sum+high
	}
	return min(f.facts.Workload.Replicas-waste, sum)
}
