package decision

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// spreadStage is a decision of one CloneSet after another.
type spreadStage struct {
	reason   string
	replicas int32
	members  string
	spread   string
	want     string
}

func TestCase13SubsetsRemovedFromAHubsSpread(t *testing.T) {
	for name, stages := range map[string][]spreadStage{
		"a member that matches no other subset keeps its replicas": {
			{"two subsets", 5, "east west", "x:east=2 y:west=", "x@east:2 y@west:3"},
			{"x is removed", 5, "east west", "y:west=", "x@east:2 y@west:3"},
			{"at rest", 5, "east west", "y:west=", "x@east:2 y@west:3"},
			{"scaled out", 6, "east west", "y:west=", "x@east:2 y@west:4"},
			{"scaled in by one", 5, "east west", "y:west=", "x@east:1 y@west:4"},
			{"scaled in by two more", 3, "east west", "y:west=", "x@east:0 y@west:3"},
			{"scaled out again", 5, "east west", "y:west=", "y@west:5"},
		},
		"a subset that comes back has its replicas": {
			{"two subsets", 5, "east west", "x:east=2 y:west=", "x@east:2 y@west:3"},
			{"x is removed", 5, "east west", "y:west=", "x@east:2 y@west:3"},
			{"x is added again", 5, "east west", "x:east=2 y:west=", "x@east:2 y@west:3"},
			{"it is a subset as before", 4, "east west", "x:east=2 y:west=", "x@east:2 y@west:2"},
		},
		"a renamed subset takes them where it matches": {
			{"two subsets", 5, "east west", "x:east=2 y:west=", "x@east:2 y@west:3"},
			{"x is z", 5, "east west", "z:east=2 y:west=", "z@east:2 y@west:3"},
		},
		"a subset without room does not take them": {
			{"three subsets", 6, "east west", "x:east=2 y:east=1 z:west=", "x@east:2 y@east:1 z@west:3"},
			{"x is removed", 6, "east west", "y:east=1 z:west=", "x@east:2 y@east:1 z@west:3"},
			{"scaled in", 5, "east west", "y:east=1 z:west=", "x@east:1 y@east:1 z@west:3"},
		},
		"above the sum of the caps": {
			{"two subsets", 5, "east west", "x:east=2 y:west=3", "x@east:2 y@west:3"},
			{"x is removed, and y has room for one", 5, "east west", "y:west=4", "x@east:2 y@west:3"},
		},
		"removed and scaled in at once": {
			{"two subsets", 6, "east west", "x:east=3 y:west=", "x@east:3 y@west:3"},
			{"both", 4, "east west", "y:west=", "x@east:1 y@west:3"},
		},
		"a member that is not Ready keeps them": {
			{"two subsets", 5, "east west", "x:east=2 y:west=", "x@east:2 y@west:3"},
			{"x is removed", 5, "east! west", "y:west=", "x@east:2 y@west:3"},
			{"scaled in", 4, "east! west", "y:west=", "x@east:2 y@west:2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last *topology.WorkloadPlacementSpec
			for _, s := range stages {
				f := Facts{Workload: open(s.replicas), Members: members(s.members), Last: last}
				f.Division = spreadFacts(t, f.Workload, s.spread)
				if last != nil {
					f.Reports = reports(last, 0)
				}
				d := plan(t, f)
				if got := showSpread(d.Spec.Cells); got != s.want {
					t.Errorf("%s: %q, want %q", s.reason, got, s.want)
				}
				checkDecision(t, 0, &f, &d.Spec)
				last = &d.Spec
			}
		})
	}
}

// TestCase13ALeftMemberGivesUpRemovedSubsets: a member that is drained, or that the policy no longer selects, keeps
// nothing.
func TestCase13ALeftMemberGivesUpRemovedSubsets(t *testing.T) {
	for name, leave := range map[string]func(*Member){
		"drained":      func(m *Member) { m.Taint = division.NoExecute },
		"not selected": func(m *Member) { m.Selected = false },
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{Workload: open(5), Members: members("east west")}
			decide := func(subsets string) string {
				f.Division = spreadFacts(t, f.Workload, subsets)
				spec := plan(t, f).Spec
				f.Last, f.Reports = &spec, reports(&spec, 0)
				return showSpread(spec.Cells)
			}
			decide("x:east=2 y:west=")
			if got, want := decide("y:west="), "x@east:2 y@west:3"; got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			leave(&f.Members[0])
			for range 10 {
				decide("y:west=")
			}
			if got := byCluster(f.Last); got["east"] != 0 || got["west"] != 5 {
				t.Errorf("%s is left of the member", showSpread(f.Last.Cells))
			}
		})
	}
}

func byCluster(spec *topology.WorkloadPlacementSpec) map[string]int32 {
	sum := map[string]int32{}
	for _, c := range spec.Cells {
		sum[c.Cluster] += c.Replicas
	}
	return sum
}

// TestCase13RemovedSubsetsMoveNothing: whichever subset is removed from a spread at rest, no member gets fewer
// replicas, and none gets fewer when the workload is scaled out. Replicas that are in no subset go before any other
// at scale-in.
func TestCase13RemovedSubsetsMoveNothing(t *testing.T) {
	clusters := []string{"east", "west", "south"}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 13))
		var parts []string
		for i := range 2 + r.IntN(3) {
			part := string(rune('p'+i)) + ":" + append(clusters, "")[r.IntN(4)] + "="
			if r.IntN(3) > 0 {
				part += fmt.Sprint(r.IntN(4))
			}
			parts = append(parts, part)
		}
		f := Facts{Workload: open(r.Int32N(12)), Members: members("east west south")}
		adaptive := r.IntN(2) == 0
		var log []string
		decide := func(what string) *topology.WorkloadPlacementSpec {
			f.Division = spreadFacts(t, f.Workload, strings.Join(parts, " "))
			if adaptive && strings.HasSuffix(parts[len(parts)-1], "=") {
				f.Division.Adaptive = &kinds.Adaptive{Critical: 30 * time.Second, Closed: 300 * time.Second}
			}
			f.Now = f.Now.Add(time.Hour)
			spec := plan(t, f).Spec
			log = append(log, fmt.Sprintf("%s: %d replicas, %v: %s",
				what, f.Workload.Replicas, parts, showSpread(spec.Cells)))
			checkDecision(t, seed, &f, &spec)
			f.Last, f.Reports = &spec, reports(&spec, 0)
			return &spec
		}
		keeps := func(before, after map[string]int32) {
			t.Helper()
			for cluster, n := range before {
				if after[cluster] < n {
					t.Fatalf("seed %d: %s had %d replicas, and has %d\n%s",
						seed, cluster, n, after[cluster], strings.Join(log, "\n"))
				}
			}
		}
		before := byCluster(decide("at first"))
		at := r.IntN(len(parts))
		parts = append(parts[:at:at], parts[at+1:]...)
		after := byCluster(decide("removed"))
		keeps(before, after)
		if again := byCluster(decide("at rest")); !maps.Equal(after, again) {
			t.Fatalf("seed %d: no rest\n%s", seed, strings.Join(log, "\n"))
		}
		f.Workload.Replicas += r.Int32N(3)
		keeps(after, byCluster(decide("scaled out")))
		had, by := f.Last, min(r.Int32N(4), f.Workload.Replicas)
		f.Workload.Replicas -= by
		spec := decide("scaled in")
		if was, is := removedIn(&f, had), removedIn(&f, spec); is != max(0, was-by) {
			t.Fatalf("seed %d: %d replicas of removed subsets are left of %d\n%s",
				seed, is, was, strings.Join(log, "\n"))
		}
	}
}

func removedIn(f *Facts, spec *topology.WorkloadPlacementSpec) (n int32) {
	for i := range spec.Cells {
		if c := &spec.Cells[i]; inRemovedSubset(newDraft(f), c) {
			n += c.Replicas
		}
	}
	return n
}
