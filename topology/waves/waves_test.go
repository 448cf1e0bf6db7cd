package waves

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

var start = time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)

func named(name string, clusters ...string) topology.Wave {
	return topology.Wave{Name: name, Clusters: topology.WaveClusters{Names: clusters}}
}

// three are the places of the tests: 10 pods in each of three clusters.
func three() []Place {
	return []Place{
		{Cluster: "east", Replicas: 10, Zones: []string{"a"}, Labels: map[string]string{"stage": "test"}},
		{Cluster: "south", Replicas: 10, Zones: []string{"a", "b"}},
		{Cluster: "west", Replicas: 10, Zones: []string{"b"}},
	}
}

func facts(list ...topology.Wave) Facts {
	return Facts{
		Rollout: &topology.Rollout{Strategy: topology.RolloutWaves, Waves: list}, Revision: "two", Sequence: 7, Begins: true,
		Leaves: "one",
		Places: three(), Allowed: map[string]int32{"": 30}, Workload: "web",
		Check: func(topology.WaveCheck) string { return "" }, Now: start,
	}
}

// step tells what happens before the next decision.
type step struct {
	why     string
	change  func(*Facts)
	after   time.Duration // since the last step
	number  int32
	ceiling string // the ceilings, "none" for none
	waits   string // a part of it
	again   time.Duration
}

func updated(east, south, west int32) func(*Facts) {
	return func(f *Facts) { f.Places[0].Updated, f.Places[1].Updated, f.Places[2].Updated = east, south, west }
}

func TestStories(t *testing.T) {
	canary := named("canary", "east")
	canary.Size, canary.Soak = new(intstr.FromString("15%")), "10m"
	checked := named("one", "east")
	checked.Soak, checked.Checks = "1m", []topology.WaveCheck{{Name: "errors", Expression: "x", Patience: "30s"}}
	approved := named("one", "east")
	approved.Approval = topology.ApprovalRequired
	hasty := named("one", "east")
	hasty.Timeout = "5m"
	unmet := func(f *Facts) { f.Check = func(topology.WaveCheck) string { return "too many" } }
	met := func(f *Facts) { f.Check = func(topology.WaveCheck) string { return "" } }
	say := func(word func(string, int64, *topology.WaveProgress) string) func(*Facts) {
		return func(f *Facts) { f.Word = word("two", 7, f.Last) }
	}
	stories := map[string]story{
		"a canary soaks, its cluster follows, then the rest": {[]topology.Wave{canary, named("east", "east")}, []step{
			{"it begins with two pods", nil, 0, 1, "[2 0 0]",
				"wave 1 of 2 (canary), since 2026-03-01T15:00:00Z, waits until its 2 pods are updated and available", 0},
			{"one is there", updated(1, 0, 0), time.Minute, 1, "[2 0 0]", "waits until", 0},
			{"both", updated(2, 0, 0), time.Minute, 1, "[2 0 0]", "soaks until 2026-03-01T15:12:00Z", 5 * time.Minute},
			{"one fails: the soak is void", updated(1, 0, 0), time.Minute, 1, "[2 0 0]", "waits until", 0},
			{"it is back", updated(2, 0, 0), time.Minute, 1, "[2 0 0]", "soaks until 2026-03-01T15:14:00Z", 5 * time.Minute},
			{"nearly", nil, 9 * time.Minute, 1, "[2 0 0]", "soaks", time.Minute},
			{"over", nil, time.Minute, 2, "[10 0 0]", "wave 2 of 2 (east), since 2026-03-01T15:14:00Z", 0},
			{"it scales up: no earlier wave", func(f *Facts) { f.Places[0].Replicas = 40; f.Allowed[""] = 60 }, time.Minute, 2,
				"[40 0 0]", "", 0},
			{"all of the cluster", updated(40, 0, 0), time.Minute, 3, "none", "", 0},
			{"a member joins when they are over", func(f *Facts) {
				f.Places = append(f.Places,
					Place{Cluster: "north", Replicas: 5})
			}, time.Minute, 3, "none", "", 0},
			{"a new template begins at wave one", func(f *Facts) { f.Begins, f.Revision = true, "three"; updated(0, 0, 0)(f) },
				time.Minute, 1, "[6 0 0 0]", "", 0},
		}},
		"a check": {[]topology.Wave{checked}, []step{
			{"", nil, 0, 1, "[10 0 0]", "waits until its 10 pods", 0},
			{"does not hold for a moment", func(f *Facts) { updated(10, 0, 0)(f); unmet(f) }, 0, 1, "[10 0 0]",
				`check "errors" does not hold: too many`, 10 * time.Second},
			{"still", nil, 30 * time.Second, 1, "[10 0 0]", "does not hold", 10 * time.Second},
			{"holds again", met, 10 * time.Second, 1, "[10 0 0]", "soaks until 2026-03-01T15:01:00Z", 10 * time.Second},
			{"does not hold at the end of the soak", unmet, 20 * time.Second, 1, "[10 0 0]", "does not hold", 10 * time.Second},
			{"for too long", nil, 31 * time.Second, 1, "[10 0 0]", "failed at 2026-03-01T15:01:31Z: check", 0},
			{"it has failed, whatever it says now", met, time.Hour, 1, "[10 0 0]", "failed at", 0},
			{"a person has it tried again", say(RetryWord), 0, 1, "[10 0 0]", "soaks until 2026-03-01T16:02:31Z",
				10 * time.Second},
			{"fails again: the word was of the first time", unmet, 0, 1, "[10 0 0]", "does not hold", 10 * time.Second},
			{"", nil, time.Minute, 1, "[10 0 0]", "failed at", 0},
			{"", nil, time.Minute, 1, "[10 0 0]", "failed at", 0},
			{"a person goes on", say(ApproveWord), 0, 2, "none", "", 0},
		}},
		"approval": {[]topology.Wave{approved, approvedAs("two", "south")}, []step{
			{"said too early it waits for the pods", func(f *Facts) { f.Word = "approve/two/7/one" }, 0, 1, "[10 0 0]",
				"waits until", 0},
			{"", updated(10, 0, 0), 0, 2, "[10 10 0]", "waits until", 0},
			{"the word for one wave is none for the next", updated(10, 10, 0), 0, 2, "[10 10 0]", "waits for a person", 0},
			{"", say(ApproveWord), 0, 3, "none", "", 0},
		}},
		"a timeout": {[]topology.Wave{hasty}, []step{
			{"", nil, 0, 1, "[10 0 0]", "", 5 * time.Minute},
			{"paused it does not run", func(f *Facts) { f.Paused = true }, time.Minute, 1, "[10 0 0]", "the workload is paused",
				0},
			{"", nil, time.Hour, 1, "[10 0 0]", "the workload is paused", 0},
			{"and begins anew", func(f *Facts) { f.Paused = false }, time.Hour, 1, "[10 0 0]", "waits until", 5 * time.Minute},
			{"a partition holds it too", func(f *Facts) { f.Allowed[""] = 9 }, time.Minute, 1, "[10 0 0]",
				"the partition lets no more", 0},
			{"", func(f *Facts) { f.Allowed[""] = 30 }, time.Hour, 1, "[10 0 0]", "", 5 * time.Minute},
			{"over", nil, 5 * time.Minute, 1, "[10 0 0]", "its 10 pods were not updated and available within 5m (timeout)", 0},
			{"tried again", say(RetryWord), 0, 1, "[10 0 0]", "waits until", 5 * time.Minute},
			{"approved before it fails", say(ApproveWord), time.Minute, 1, "[10 0 0]", "waits until", 4 * time.Minute},
			{"which approves no failure", nil, 4 * time.Minute, 1, "[10 0 0]", "failed at", 0},
			{"", nil, time.Minute, 1, "[10 0 0]", "failed at", 0},
			{"the failure is approved", say(ApproveWord), 0, 2, "none", "", 0},
		}},
		"a timeout is for what is asked anew": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east"}}, Timeout: "5m", Approval: topology.ApprovalRequired}},
			[]step{
				{"", nil, 0, 1, "[10 0 0]", "", 5 * time.Minute},
				{"done", updated(10, 0, 0), time.Minute, 1, "[10 0 0]", "waits for a person", 0},
				{"a pod fails at night", updated(9, 0, 0), time.Hour, 1, "[10 0 0]", "waits until", 5 * time.Minute},
				{"", updated(10, 0, 0), time.Minute, 1, "[10 0 0]", "waits for a person", 0},
			}},
		"lost members": {[]topology.Wave{named("one", "east", "south"), named("two", "west")}, []step{
			{"", nil, 0, 1, "[10 10 0]", "", 0},
			{"one is lost", func(f *Facts) { f.Places[1].Lost = true }, 0, 1, "[10 10 0]", "waits until", 0},
			{"both", func(f *Facts) { f.Places[0].Lost = true; updated(10, 0, 0)(f) }, 0, 1, "[10 10 0]", "all lost", 0},
			{"one is back and was done", func(f *Facts) { f.Places[0].Lost = false }, 0, 2, "[10 10 10]", "", 0},
			{"the other too: the waves go on", func(f *Facts) { f.Places[1].Lost = false }, 0, 2, "[10 10 10]", "wave 2 of 2",
				0},
			{"all of the second wave are lost: a person goes on",
				func(f *Facts) { f.Places[2].Lost = true; f.Word = "approve/two/7/two" }, 0, 3, "none", "", 0},
		}},
		"a slip of the pen": {[]topology.Wave{named("one", "esat")}, []step{
			{"does not skip a canary", nil, 0, 1, "[0 0 0]", "selects no part of the workload", 0},
			{"the policy is corrected", func(f *Facts) { f.Rollout.Waves[0].Clusters.Names[0] = "east" }, 0, 1, "[10 0 0]",
				"waits until", 0},
		}},
		"a wave without replicas": {[]topology.Wave{named("one", "east"), named("two", "west")}, []step{
			{"", func(f *Facts) { f.Places[0].Replicas = 0 }, 0, 2, "[0 0 10]", "wave 2 of 2 (two)", 0},
		}},
		"the policy changes": {[]topology.Wave{named("one", "east"), named("two", "south")}, []step{
			{"", updated(10, 0, 0), 0, 2, "[10 10 0]", "", 0},
			{"a wave is put in front", func(f *Facts) {
				f.Rollout.Waves = append([]topology.Wave{named("new", "west")},
					f.Rollout.Waves...)
			}, 0, 3, "[10 10 10]", "wave 3 of 3 (two)", 0},
			{"the one under way is removed", func(f *Facts) { f.Rollout.Waves = f.Rollout.Waves[:1] }, 0, 1, "[0 0 10]",
				"wave 1 of 1 (new)", 0},
			{"waves are given up", func(f *Facts) { f.Rollout = &topology.Rollout{} }, 0, 0, "none", "", 0},
		}},
		"a soak counts while somebody watches": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east", "south"}}, Soak: "10m"}}, []step{
			{"done", updated(10, 10, 0), 0, 1, "[10 10 0]", "soaks until 2026-03-01T15:10:00Z", 5 * time.Minute},
			{"noted", nil, 6 * time.Minute, 1, "[10 10 0]", "soaks until 2026-03-01T15:10:00Z", 4 * time.Minute},
			{"a member of another wave is not heard of", func(f *Facts) { f.Places[2].Unheard = true }, time.Minute, 1,
				"[10 10 0]", "soaks until 2026-03-01T15:10:00Z", 3 * time.Minute},
			{"one of the wave: for 40 s already", func(f *Facts) { f.Places[1].Unheard = true }, time.Minute, 1, "[10 10 0]",
				"waits for a report of south", 0},
			{"still", nil, 5 * time.Minute, 1, "[10 10 0]", "waits for a report of south", 0},
			{"it is back after 6m40s", func(f *Facts) { f.Places[1].Unheard = false }, time.Minute, 1, "[10 10 0]",
				"soaks until 2026-03-01T15:16:40Z", 160 * time.Second},
			{"the hub was away for 90 s", func(f *Facts) { f.Heard = start.Add(15*time.Minute + 30*time.Second) },
				2 * time.Minute, 1, "[10 10 0]", "soaks until 2026-03-01T15:18:10Z", 130 * time.Second},
			{"over", nil, 130 * time.Second, 2, "none", "", 0},
		}},
		"a lost member is not waited for": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east", "south"}}, Soak: "2m"}}, []step{
			{"done", updated(10, 10, 0), 0, 1, "[10 10 0]", "soaks until 2026-03-01T15:02:00Z", 2 * time.Minute},
			{"not heard of", func(f *Facts) { f.Places[1].Unheard = true }, time.Minute, 1, "[10 10 0]",
				"waits for a report of south", 0},
			{"lost", func(f *Facts) { f.Places[1].Lost = true }, time.Minute, 1, "[10 10 0]", "soaks until 2026-03-01T15:03:40Z",
				100 * time.Second},
			{"the other proves the wave", nil, 100 * time.Second, 2, "none", "", 0},
		}},
		"a soak ends with news of its members": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east", "south"}}, Soak: "30s"}}, []step{
			{"done", updated(10, 10, 0), 0, 1, "[10 10 0]", "soaks until 2026-03-01T15:00:30Z", 30 * time.Second},
			{"south and west were heard 5 s ago", func(f *Facts) {
				f.Places[1].News, f.Places[2].News = f.Now.Add(-5*time.Second), f.Now.Add(-5*time.Second)
			}, 31 * time.Second, 1, "[10 10 0]",
				"has soaked until 2026-03-01T15:00:30Z, and waits for a report since then of south",
				newsEvery},
			{"still", nil, 8 * time.Second, 1, "[10 10 0]", "waits for a report since then of south", newsEvery},
			{"south was heard; west is of no wave", func(f *Facts) { f.Places[1].News = f.Now.Add(-time.Second) }, time.Second,
				2, "none", "", 0},
		}},
		"a member that is cut off in a short soak proves nothing": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east", "south"}}, Soak: "10s"}}, []step{
			{"done", updated(10, 10, 0), 0, 1, "[10 10 0]", "soaks until 2026-03-01T15:00:10Z", 10 * time.Second},
			{"no news", func(f *Facts) { f.Places[1].News = f.Now.Add(-9 * time.Second) }, 10 * time.Second, 1, "[10 10 0]",
				"waits for a report since then of south", newsEvery},
			{"it is not Ready", func(f *Facts) { f.Places[1].Unheard = true }, 31 * time.Second, 1, "[10 10 0]",
				"waits for a report of south", 0},
			{"it is back: the soak goes on where nobody watched any more",
				func(f *Facts) { f.Places[1].Unheard, f.Places[1].News = false, f.Now }, time.Minute, 1, "[10 10 0]",
				"soaks until 2026-03-01T15:01:50Z", 9 * time.Second},
			{"and ends with news", nil, 9 * time.Second, 2, "none", "", 0},
		}},
		"a lost member owes no news": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east", "south"}}, Soak: "10s"}}, []step{
			{"done", updated(10, 10, 0), 0, 1, "[10 10 0]", "soaks", 10 * time.Second},
			{"no news", func(f *Facts) { f.Places[1].News = start.Add(time.Second) }, 10 * time.Second, 1, "[10 10 0]",
				"a report since then of south", newsEvery},
			{"given up", func(f *Facts) { f.Places[1].Lost = true }, time.Second, 2, "none", "", 0},
		}},
		"a person does not wait for news": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east"}}, Soak: "10s"}}, []step{
			{"done", updated(10, 0, 0), 0, 1, "[10 0 0]", "soaks", 10 * time.Second},
			{"no news", func(f *Facts) { f.Places[0].News = start.Add(time.Second) }, 10 * time.Second, 1, "[10 0 0]",
				"a report since then of east", newsEvery},
			{"approved", say(ApproveWord), time.Second, 2, "none", "", 0},
		}},
		"without a soak what settled the wave is the news": {[]topology.Wave{named("one", "east")}, []step{
			{"done", func(f *Facts) { updated(10, 0, 0)(f); f.Places[0].News = start.Add(-time.Second) }, 0, 2, "none", "", 0},
		}},
		"what has soaked has soaked": {[]topology.Wave{{Name: "one", Clusters: topology.WaveClusters{Names: []string{"east"}},
			Soak: "1m", Approval: topology.ApprovalRequired}}, []step{
			{"", updated(10, 0, 0), 0, 1, "[10 0 0]", "soaks", time.Minute},
			{"", nil, time.Minute, 1, "[10 0 0]", "waits for a person", 0},
			{"the hub was restarted", func(f *Facts) { f.Heard = start.Add(time.Hour) }, time.Hour, 1, "[10 0 0]",
				"waits for a person", 0},
			{"no news", func(f *Facts) { f.Places[0].Unheard = true }, time.Hour, 1, "[10 0 0]",
				"waits for a report of east", 0},
			{"which a person may overrule", say(ApproveWord), time.Hour, 2, "none", "", 0},
		}},
		"a hub that was away finds nothing late, and no check failed": {[]topology.Wave{{Name: "one",
			Clusters: topology.WaveClusters{Names: []string{"east"}}, Timeout: "5m",
			Checks: []topology.WaveCheck{{Name: "errors", Expression: "x", Patience: "30s"}}}}, []step{
			{"", nil, 0, 1, "[10 0 0]", "waits until", 5 * time.Minute},
			{"it is back", func(f *Facts) { f.Heard = start.Add(time.Hour) }, time.Hour, 1, "[10 0 0]", "waits until",
				80 * time.Second},
			{"and told", func(f *Facts) { updated(10, 0, 0)(f); unmet(f) }, time.Minute, 1, "[10 0 0]", "does not hold",
				10 * time.Second},
			{"away again", func(f *Facts) { f.Heard = start.Add(2 * time.Hour) }, time.Hour, 1, "[10 0 0]", "does not hold",
				10 * time.Second},
			{"for too long", nil, 31 * time.Second, 1, "[10 0 0]", "failed at", 0},
		}},
		"taken back": {[]topology.Wave{named("one", "east"), named("two", "south")}, []step{
			{"", updated(4, 0, 0), 0, 1, "[10 0 0]", "", 0},
			{"what the update left comes back in no waves",
				func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "one", "two" }, 0, 0, "none", "", 0},
			{"", nil, time.Minute, 0, "none", "", 0},
			{"once more", func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "two", "one"; updated(0, 0, 0)(f) }, 0, 1,
				"[10 0 0]", "", 0},
			{"a mended one goes in waves", func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "three", "two" }, 0, 1,
				"[10 0 0]", "", 0},
			{"the one that was to be mended too", func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "two", "three" }, 0, 1,
				"[10 0 0]", "", 0},
			{"what all had before does not", func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "one", "two" }, 0, 0,
				"none", "", 0},
			{"one whose waves are over", func(f *Facts) {
				f.Begins, f.Revision, f.Leaves = true, "two",
					"one"
				updated(10, 10, 0)(f)
			}, 0, 3, "none", "", 0},
			{"is taken back at once too", func(f *Facts) {
				f.Begins, f.Revision, f.Leaves = true, "one",
					"two"
				updated(0, 0, 0)(f)
			}, 0, 0, "none", "", 0},
			{"going forth again goes in waves", func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "two", "one" }, 0, 1,
				"[10 0 0]", "", 0},
			{"and is over", updated(10, 10, 0), 0, 3, "none", "", 0},
			{"the next one", func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "three", "two"; updated(0, 0, 0)(f) }, 0, 1,
				"[10 0 0]", "", 0},
			{"leaves what was over, and not what that left",
				func(f *Facts) { f.Begins, f.Revision, f.Leaves = true, "one", "three" }, 0, 1, "[10 0 0]", "", 0},
		}},
		"rolled back": {[]topology.Wave{hasty}, []step{
			{"", func(f *Facts) {
				f.Rollout.OnFailure, f.Template = topology.RolloutRollback, &runtime.RawExtension{Raw: []byte("{}")}
			}, 0, 1, "[10 0 0]", "waits until", 5 * time.Minute},
			{"it fails", nil, 5 * time.Minute, 1, "[10 0 0]", "failed at", 0},
			{"members get the template of before", func(f *Facts) {
				f.Begins, f.Revision, f.Leaves, f.RolledBack = true, "one",
					"two", true
			}, 0, 1, "none", "failed at 2026-03-01T15:05:00Z and was rolled back: its 10 pods", 0},
			{"and keep it, also without waves", func(f *Facts) { f.Rollout = &topology.Rollout{} }, time.Hour, 1, "none",
				"was rolled back", 0},
			{"a person has it tried again", func(f *Facts) {
				f.Begins, f.Revision, f.Leaves, f.RolledBack, f.Template = true, "two", "one", false, nil
				f.Rollout = &topology.Rollout{Strategy: topology.RolloutWaves, OnFailure: topology.RolloutRollback,
					Waves: []topology.Wave{hasty}}
			}, 0, 1, "[10 0 0]", "waits until", 5 * time.Minute},
			{"it fails again, and is rolled back again", nil, 5 * time.Minute, 1, "[10 0 0]", "failed at", 0},
			{"", func(f *Facts) { f.Begins, f.Revision, f.Leaves, f.RolledBack = true, "one", "two", true }, 0, 1, "none",
				"was rolled back", 0},
			{"the user takes it back too", func(f *Facts) { f.RolledBack = false }, 0, 0, "none", "", 0},
		}},
		"the same template comes back later": {[]topology.Wave{approved}, []step{
			{"an approval of then is none of now", func(f *Facts) { f.Word = "approve/two/3/one"; updated(10, 0, 0)(f) }, 0, 1,
				"[10 0 0]", "waits for a person", 0},
			{"one without a sequence neither", func(f *Facts) { f.Word = "approve/two/one" }, 0, 1, "[10 0 0]",
				"waits for a person", 0},
			{"", say(ApproveWord), 0, 2, "none", "", 0},
		}},
		"replicas move": {[]topology.Wave{{Name: "one", Clusters: topology.WaveClusters{Names: []string{"east", "south"}},
			Size: new(intstr.FromInt32(4))}}, []step{
			{"", nil, 0, 1, "[2 2 0]", "", 0},
			{"what is updated counts", func(f *Facts) {
				f.Places[0].Reserved, f.Places[1].Reserved, f.Places[0].Replicas, f.Places[1].Replicas = 2, 2, 5, 15
			}, 0, 1, "[2 2 0]", "", 0},
			{"what is gone does not", func(f *Facts) { f.Places[0].Replicas, f.Places[1].Replicas = 1, 19 }, 0, 1, "[1 3 0]", "",
				0},
		}},
		"by labels and zones": {[]topology.Wave{
			{Name: "one", Clusters: topology.WaveClusters{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "test"}}}},
			{Name: "two", Zones: []string{"b"}},
			{Name: "three", Zones: []string{"b", "a"}, Size: new(intstr.FromInt32(25))},
		}, []step{
			{"", nil, 0, 1, "[10 0 0]", "", 0},
			{"south lies in another zone too", updated(10, 0, 0), 0, 2, "[10 0 10]", "", 0},
			{"pods of earlier waves count", updated(10, 0, 10), 0, 3, "[10 5 10]", "", 0},
		}},
	}
	tell(t, stories)
}

// story is what happens under some waves.
type story struct {
	waves []topology.Wave
	steps []step
}

// tell runs stories step by step.
func tell(t *testing.T, stories map[string]story) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			f := facts(story.waves...)
			for i, s := range story.steps {
				before := f.Now
				f.Now = f.Now.Add(s.after)
				for j := range f.Places {
					// Each member is heard all the time, but one of which a step says otherwise.
					if p := &f.Places[j]; p.News.IsZero() || p.News.Equal(before) {
						p.News = f.Now
					}
				}
				if s.change != nil {
					s.change(&f)
				}
				d := Decide(f)
				f.Begins = false
				f.Last = d.Progress
				number, ceiling := int32(0), "none"
				if d.Progress != nil {
					number = d.Progress.Number
				}
				if d.Ceilings != nil {
					ceiling = fmt.Sprint(d.Ceilings)
				}
				if number != s.number || ceiling != s.ceiling || !strings.Contains(d.Waits, s.waits) || d.Again != s.again ||
					s.waits == "" && number > int32(len(f.Rollout.Waves)) && d.Waits != "" {
					t.Errorf("step %d (%s): wave %d %s, again in %s, %q; want wave %d %s, again in %s, %q", i, s.why, number, ceiling,
						d.Again, d.Waits, s.number, s.ceiling, s.again, s.waits)
				}
				if d.Progress != nil && d.Stop != (d.Progress.Failed != nil && !f.RolledBack) {
					t.Errorf("step %d (%s): stop is %t", i, s.why, d.Stop)
				}
				if diff := cmp.Diff(d, Decide(f)); diff != "" {
					t.Errorf("step %d (%s): a decision from its own result differs: %s", i, s.why, diff)
				}
			}
		})
	}
}

// TestSizeHolds: wherever replicas move, what may have been updated under a wave is never more than its size.
func TestSizeHolds(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		f := facts(topology.Wave{Name: "one", Size: new(intstr.FromInt32(int32(1 + r.IntN(20))))})
		for range 30 {
			d := Decide(f)
			f.Begins, f.Last = false, d.Progress
			sum := int32(0)
			for i := range f.Places {
				f.Places[i].Reserved = max(f.Places[i].Reserved, d.Ceilings[i])
				sum += f.Places[i].Reserved
			}
			if size := f.Rollout.Waves[0].Size.IntVal; sum > size {
				t.Fatalf("seed %d: %d pods may have been updated of a wave of %d: %+v", seed, sum, size, f.Places)
			}
			from, to := &f.Places[r.IntN(3)], &f.Places[r.IntN(3)]
			moved := int32(r.IntN(int(from.Replicas) + 1))
			from.Replicas, to.Replicas = from.Replicas-moved, to.Replicas+moved
			from.Reserved = min(from.Reserved, from.Replicas)
		}
	}
}

func approvedAs(name string, clusters ...string) topology.Wave {
	w := named(name, clusters...)
	w.Approval = topology.ApprovalRequired
	return w
}

// TestNoWaves: nothing is remembered and nothing bound where the policy has none, and for what was under way before it
// had.
func TestNoWaves(t *testing.T) {
	proportional := facts()
	proportional.Rollout = &topology.Rollout{Strategy: topology.RolloutProportional}
	under := facts(named("one", "east"))
	under.Begins = false
	for name, f := range map[string]Facts{"proportional": proportional, "under way": under} {
		if diff := cmp.Diff(Decision{}, Decide(f)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// world is a random workload under random waves, whose members update what they may.
type world struct {
	r       *rand.Rand
	f       Facts
	settled []time.Time // since when each place has had what the last ceiling said, zero while not
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{r: r}
	w.f = facts()
	w.f.Places = nil
	clusters := []string{"a", "b", "c", "d", "e"}[:1+r.IntN(5)]
	for _, c := range clusters {
		w.f.Places = append(w.f.Places, Place{Cluster: c, Replicas: int32(r.IntN(12))})
	}
	for i := range 1 + r.IntN(4) {
		wave := topology.Wave{Name: fmt.Sprint("w", i)}
		for _, c := range clusters {
			if r.IntN(2) == 0 {
				wave.Clusters.Names = append(wave.Clusters.Names, c)
			}
		}
		if r.IntN(2) == 0 {
			wave.Size = new(intstr.FromString(fmt.Sprintf("%d%%", 1+r.IntN(100))))
		}
		if r.IntN(2) == 0 {
			wave.Soak = fmt.Sprintf("%ds", r.IntN(100))
		}
		w.f.Rollout.Waves = append(w.f.Rollout.Waves, wave)
	}
	w.settled = make([]time.Time, len(clusters))
	return w
}

// TestProperties runs random worlds: waves only go on one by one and when all of the wave was updated for its soak and
// heard since, ceilings never exceed replicas, never shrink but with replicas, and the waves end.
func TestProperties(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(seed)
		var before Decision
		for range 200 {
			w.f.Allowed[""] = 0
			for i := range w.f.Places {
				w.f.Allowed[""] += w.f.Places[i].Replicas
			}
			d := Decide(w.f)
			w.check(t, seed, before, d)
			w.f.Begins, w.f.Last, before = false, d.Progress, d
			if d.Ceilings == nil {
				break
			}
			w.act(d)
		}
		if before.Ceilings != nil && !strings.Contains(before.Waits, "soaks") &&
			!strings.Contains(before.Waits, "waits until") && !strings.Contains(before.Waits, "news") {
			t.Fatalf("seed %d: the waves do not end: %s", seed, before.Waits)
		}
	}
}

// act lets members update some pods, and time pass.
func (w *world) act(d Decision) {
	w.f.Now = w.f.Now.Add(time.Duration(w.r.IntN(60)) * time.Second)
	for i := range w.f.Places {
		p := &w.f.Places[i]
		if w.r.IntN(4) > 0 {
			p.News = w.f.Now.Add(-time.Duration(w.r.IntN(20)) * time.Second)
		}
		p.Unheard = w.f.Now.Sub(p.News) > newsAge
		if p.Updated < d.Ceilings[i] {
			p.Updated += int32(w.r.IntN(int(d.Ceilings[i]-p.Updated) + 1))
		}
		if w.r.IntN(20) == 0 && p.Updated > 0 {
			p.Updated-- // one fails
		}
		switch {
		case p.Updated < d.Ceilings[i]:
			w.settled[i] = time.Time{}
		case w.settled[i].IsZero():
			w.settled[i] = w.f.Now
		}
	}
}

func (w *world) check(t *testing.T, seed uint64, before, d Decision) {
	t.Helper()
	list := w.f.Rollout.Waves
	var from int32 = 1
	if before.Progress != nil {
		from = before.Progress.Number
	}
	if d.Progress.Number < from {
		t.Fatalf("seed %d: from wave %d back to %d", seed, from, d.Progress.Number)
	}
	for i := range w.f.Places {
		p := &w.f.Places[i]
		if d.Ceilings != nil && (d.Ceilings[i] > p.Replicas || before.Ceilings != nil && d.Ceilings[i] < before.Ceilings[i]) {
			t.Fatalf("seed %d: ceilings %v after %v", seed, d.Ceilings, before.Ceilings)
		}
		if before.Ceilings == nil || d.Progress.Number == from || !selects(&list[from-1], p) || before.Ceilings[i] == 0 {
			continue
		}
		soak := durationOf(list[from-1].Soak, 0)
		if w.settled[i].IsZero() || w.f.Now.Sub(w.settled[i]) < soak {
			t.Fatalf("seed %d: wave %d ended before place %d was updated for %s", seed, from, i, soak)
		}
		if soak > 0 && p.News.Before(w.settled[i].Add(soak)) {
			t.Fatalf("seed %d: wave %d ended without news of place %d since the end of its soak", seed, from, i)
		}
	}
}

// TestNumberThatThereIsNot holds that a placement in which somebody wrote the number of no wave stops nothing.
func TestNumberThatThereIsNot(t *testing.T) {
	for _, number := range []int32{-1 << 31, -1, 0} {
		f := facts(named("one", "east"), named("two", "west"))
		f.Begins, f.Last = false, &topology.WaveProgress{Number: number, Of: 2, Name: "gone", Since: metav1.NewTime(start),
			From: "one"}
		if got := Decide(f); got.Progress == nil || got.Progress.Number != 1 {
			t.Errorf("number %d: %+v, want wave 1", number, got.Progress)
		}
	}
}
