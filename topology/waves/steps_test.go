package waves

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func inSteps(steps ...topology.RolloutStep) Facts {
	f := facts()
	f.Rollout = &topology.Rollout{Strategy: topology.RolloutProportional, Steps: steps}
	return f
}

// at returns steps at these partitions.
func at(partitions ...string) (steps []topology.RolloutStep) {
	for _, p := range partitions {
		steps = append(steps, topology.RolloutStep{Partition: intstr.Parse(p)})
	}
	return steps
}

// finds lets each check find this.
func finds(text string) func(*Facts) {
	return func(f *Facts) { f.Check = func(topology.WaveCheck) string { return text } }
}

func TestKeeps(t *testing.T) {
	for _, tc := range []struct {
		partition string
		all, want int64
	}{
		{"0", 30, 0}, {"3", 30, 3}, {"40", 30, 30}, {"50%", 5, 3}, {"90%", 10, 9}, {"99%", 3, 2}, {"100%", 3, 3},
		{"0%", 3, 0}, {"50%", 0, 0}, {"x", 3, 0},
	} {
		if got := keeps(new(intstr.Parse(tc.partition)), tc.all); got != tc.want {
			t.Errorf("partition %s of %d pods keeps %d, want %d", tc.partition, tc.all, got, tc.want)
		}
	}
}

func TestStoriesOfSteps(t *testing.T) {
	promote := func(f *Facts) { f.Word = ApproveWord("two", 7, f.Last) }
	type step struct {
		why    string
		change func(*Facts)
		after  time.Duration
		limit  string // of pods that may be updated, "none" for no bound
		waits  string // a part of it
	}
	stories := map[string]struct {
		steps []topology.RolloutStep
		story []step
	}{
		"each step waits until it is promoted": {at("90%", "10"), []step{
			{"it begins", nil, 0, "3",
				"step 1 of 2 (partition 90%), since 2026-03-01T15:00:00Z, waits until its 3 pods are updated"},
			{"promoted too soon", promote, time.Minute, "3", "waits until its 3 pods"},
			{"wherever they are", updated(0, 0, 3), time.Minute, "20", "step 2 of 2 (partition 10)"},
			{"what was said of a step is said of no other", updated(10, 0, 10), time.Hour, "20",
				"waits until it is promoted: flotilla rollout promote"},
			{"promoted", promote, time.Minute, "none", ""},
		}},
		"a step goes on when its checks hold": {
			[]topology.RolloutStep{{Partition: intstr.FromInt32(20),
				Checks: []topology.WaveCheck{{Name: "errors", Expression: "x", Patience: "30s"}}}},
			[]step{
				{"it begins", finds("too many"), 0, "10", "10 pods"},
				{"its pods are there", updated(10, 0, 0), time.Minute, "10", `check "errors" does not hold`},
				{"the check holds", finds(""), time.Second, "none", ""},
			}},
		"a step with a check may need a person as well": {
			[]topology.RolloutStep{{Partition: intstr.FromInt32(20), Soak: "1m", Approval: topology.ApprovalRequired}}, []step{
				{"its pods are there", updated(10, 0, 0), 0, "10", "soaks"},
				{"it has soaked", nil, time.Minute, "10", "waits until it is promoted"},
			}},
		"the larger partition counts": {at("20"), []step{
			{"the user's is larger", func(f *Facts) { f.Allowed[""] = 4 }, 0, "10",
				"the partition lets no more pods be updated"},
			{"and lowered", func(f *Facts) { f.Allowed[""] = 30 }, time.Minute, "10", "waits until its 10 pods"},
		}},
		"scaling in takes no updated pod back": {at("20"), []step{
			{"", all(updated(10, 0, 0), func(f *Facts) { f.Places[0].Reserved = 10 }), 0, "10", "promoted"},
			{"21 are left", func(f *Facts) { f.Places[1].Replicas, f.Places[2].Replicas = 6, 5 }, time.Minute, "10", "promoted"},
		}},
		"a lost member is not waited for": {at("15"), []step{
			{"", func(f *Facts) { f.Places[2].Lost = true }, 0, "15", "waits until its 15 pods"},
			{"the others have their part", updated(0, 10, 0), time.Minute, "15", "promoted"},
		}},
		"a step that is listed twice is one": {at("20", "20"), []step{
			{"", nil, 0, "10", "step 1 of 1"},
		}},
		"a step of no pods is over at once": {at("100%", "20"), []step{
			{"", nil, 0, "10", "step 2 of 2"},
		}},
		"without steps the rest is updated": {at("20"), []step{
			{"", nil, 0, "10", "step 1 of 1"},
			{"the policy has none any more", func(f *Facts) { f.Rollout = &topology.Rollout{} }, time.Minute, "none", ""},
		}},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			f := inSteps(story.steps...)
			for i, s := range story.story {
				f.Now = f.Now.Add(s.after)
				for j := range f.Places {
					f.Places[j].News = f.Now
				}
				if s.change != nil {
					s.change(&f)
				}
				d := Decide(f)
				f.Begins, f.Last = false, d.Progress
				limit := "none"
				if n, ok := d.Limits[""]; ok {
					limit = fmt.Sprint(n)
				}
				if limit != s.limit || !strings.Contains(d.Waits, s.waits) || d.Ceilings != nil {
					t.Errorf("step %d (%s): limit %s, %q; want %s, %q", i, s.why, limit, d.Waits, s.limit, s.waits)
				}
				if diff := cmp.Diff(d, Decide(f)); diff != "" {
					t.Errorf("step %d (%s): a decision from its own result differs: %s", i, s.why, diff)
				}
			}
		})
	}
}

// TestStepsEnd holds over random steps and reports that no step ends before it is promoted, and that the update ends.
func TestStepsEnd(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		var steps []topology.RolloutStep
		for partition := 100; partition > 0; partition -= 1 + r.IntN(60) {
			steps = append(steps, topology.RolloutStep{Partition: intstr.Parse(fmt.Sprint(partition) + "%")})
		}
		f := inSteps(steps...)
		f.Now = start
		for round := 0; ; round++ {
			f.Now = f.Now.Add(time.Second)
			if f.Last != nil && r.IntN(3) == 0 {
				f.Word = ApproveWord("two", 7, f.Last)
			}
			d := Decide(f)
			from := f.Last
			f.Begins, f.Last = false, d.Progress
			if d.Limits == nil {
				break
			}
			if round > 5000 {
				t.Fatalf("seed %d: it does not end: %s", seed, d.Waits)
			}
			if from != nil && from.Number < d.Progress.Number && from.Settled == nil && f.Word == "" {
				t.Fatalf("seed %d: step %d is over without a person", seed, from.Number)
			}
			var granted int32
			for i := range f.Places {
				granted += f.Places[i].Reserved
			}
			p := &f.Places[r.IntN(3)]
			if granted < d.Limits[""] && p.Reserved < p.Replicas {
				p.Reserved++
			}
			if p = &f.Places[r.IntN(3)]; p.Updated < p.Reserved {
				p.Updated++
			}
		}
		if f.Last.Number <= f.Last.Of {
			t.Fatalf("seed %d: it ended at step %d of %d", seed, f.Last.Number, f.Last.Of)
		}
	}
}
