package waves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// inBatches is a job over nodes of east, south and west, of which a batch has 10 %, with a soak of 10 minutes.
func inBatches(east, south, west int32) Facts {
	f := Facts{Workload: "repair", Sequence: 7, Allowed: map[string]int32{"": east + south + west}, Begins: true,
		Now: time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC), Rollout: &topology.Rollout{},
		Batches: &Batches{Size: func(n int32) int32 { return (n + 9) / 10 }, Soak: "10m"}}
	for i, n := range []int32{east, south, west} {
		f.Places = append(f.Places, Place{Cluster: []string{"east", "south", "west"}[i], Replicas: n})
	}
	return f
}

// touches has these numbers of nodes touched and proven, as granted.
func touches(numbers ...int32) func(*Facts) {
	return func(f *Facts) {
		for i, n := range numbers {
			f.Places[i].Reserved, f.Places[i].Updated = n, n
		}
	}
}

func TestScenariosOfBatches(t *testing.T) {
	nodesAre := func(numbers ...int32) func(*Facts) {
		return func(f *Facts) {
			f.Allowed[""] = 0
			for i, n := range numbers {
				f.Places[i].Replicas = n
				f.Allowed[""] += n
			}
		}
	}
	all := func(changes ...func(*Facts)) func(*Facts) {
		return func(f *Facts) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	halted := func(why string) func(*Facts) { return func(f *Facts) { f.Halted = why } }
	type step struct {
		why    string
		change func(*Facts)
		after  time.Duration
		limit  string // of nodes that may be touched, "none" for no bound
		waits  string // a part of it
	}
	for name, scenario := range map[string]struct {
		facts Facts
		steps []step
	}{
		"a batch begins when the one before has soaked, and the last one soaks too": {inBatches(2, 2, 0), []step{
			{"it begins", nil, 0, "1", "batch 1 of 4, since 2026-03-01T15:00:00Z, waits until its pods have ended"},
			{"the first node", touches(1), time.Minute, "1", "soaks until 2026-03-01T15:11:00Z"},
			{"the soak is over", nil, 10 * time.Minute, "2", "batch 2 of 4"},
			{"the second", touches(1, 1), time.Minute, "2", "batch 2 of 4, since 2026-03-01T15:11:00Z, soaks"},
			{"the third", nil, 10 * time.Minute, "3", "batch 3"},
			{"the third is touched", touches(2, 1), 0, "3", "batch 3 of 4"},
			{"the fourth", nil, 10 * time.Minute, "4", "batch 4 of 4"},
			{"all are touched", touches(2, 2), 0, "4", "batch 4 of 4, since 2026-03-01T15:32:00Z, soaks"},
			{"the last has soaked", nil, 10 * time.Minute, "none", ""},
			{"it stays over", nil, time.Hour, "none", ""},
			{"a node that comes later makes another batch", nodesAre(3, 2, 0), time.Minute, "5", "batch 5 of 5"},
		}},
		"a batch keeps its size as nodes come and go": {inBatches(20, 20, 20), []step{
			{"it begins", nil, 0, "6", "batch 1 of 10"},
			{"two are touched", touches(2, 2, 2), 0, "6", "soaks"},
			{"many come", nodesAre(20, 20, 160), time.Minute, "6", "batch 1 of 11"},
			{"the next one is as large as the number of nodes makes it", nil, 10 * time.Minute, "26", "batch 2 of 11"},
			{"touched nodes go", all(nodesAre(20, 18, 160), touches(2, 0, 2)), time.Minute, "24", "batch 2"},
			{"others that were not go", nodesAre(20, 18, 150), time.Minute, "14", "batch 2"},
		}},
		"a halt holds the batch, whose soak begins anew": {inBatches(20, 20, 20), []step{
			{"it begins", nil, 0, "6", "batch 1"},
			{"it soaks", touches(2, 2, 2), 0, "6", "soaks until 2026-03-01T15:10:00Z"},
			{"a member halts", halted("member east halted"), 9 * time.Minute, "6", "waits: member east halted"},
			{"time passes", nil, time.Hour, "6", "waits: member east halted"},
			{"it is resumed", halted(""), 0, "6", "soaks until 2026-03-01T16:19:00Z"},
		}},
		"checks that hold no more begin the soak anew": {inBatches(20, 20, 20), []step{
			{"it begins", nil, 0, "6", "batch 1"},
			{"it soaks", touches(2, 2, 2), 0, "6", "soaks"},
			{"a check of east", func(f *Facts) { f.Places[0].Updated = 0 }, time.Minute, "6", "its checks hold"},
			{"it holds", touches(2, 2, 2), time.Minute, "6", "soaks until 2026-03-01T15:12:00Z"},
		}},
		"a lost member proves nothing, and its nodes are not touched": {inBatches(2, 8, 0), []step{
			{"south is lost", func(f *Facts) { f.Places[1].Lost = true }, 0, "1", "its pods have ended"},
			{"east goes on", touches(1), time.Minute, "1", "soaks"},
			{"to its last node", nil, 10 * time.Minute, "2", "batch 2"},
			{"all of east is touched", touches(2), time.Minute, "2", "soaks"},
			{"nothing is left that could be touched", nil, 10 * time.Minute, "2", "members that are not heard of"},
			{"south is back", func(f *Facts) { f.Places[1].Lost = false }, time.Minute, "3", "batch 3"},
		}},
		"approved": {inBatches(20, 0, 0), []step{
			{"it begins", nil, 0, "2", "batch 1"},
			{"it soaks", touches(2), 0, "2", "soaks"},
			{"approved", func(f *Facts) { f.Word = ApproveWord(f.Revision, f.Sequence, f.Last) }, 0, "4", "batch 2"},
		}},
		"all nodes are touched already": {inBatches(1, 0, 0), []step{
			{"adopted", func(f *Facts) {
				f.Places[0].Reserved = 1
			}, 0, "none", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := scenario.facts
			for _, s := range scenario.steps {
				f.Now = f.Now.Add(s.after)
				if s.change != nil {
					s.change(&f)
				}
				for i := range f.Places {
					f.Places[i].News = f.Now
				}
				d := Decide(f)
				limit := "none"
				if d.Limits != nil {
					limit = fmt.Sprint(d.Limits[""])
				}
				if limit != s.limit || !strings.Contains(d.Waits, s.waits) || s.waits == "" && d.Waits != "" {
					t.Fatalf("%s: limit %s, %q; want %s, %q", s.why, limit, d.Waits, s.limit, s.waits)
				}
				f.Last, f.Begins = d.Progress, false
			}
		})
	}
}

// TestLastPlacesComeAfterAllOthers: their share is what the others cannot use.
func TestLastPlacesComeAfterAllOthers(t *testing.T) {
	f := inBatches(10, 10, 0)
	f.Places[1].Last = true
	w := walk{Facts: f}
	if got := fmt.Sprint(w.shares(4)); got != "[4 0 0]" {
		t.Error(got)
	}
	w.Places[0].Reserved = 10
	if got := fmt.Sprint(w.shares(14)); got != "[10 4 0]" {
		t.Error(got)
	}
}
