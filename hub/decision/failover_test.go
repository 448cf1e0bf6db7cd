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
	"github.com/flotilla-dev/flotilla/topology/failover"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// showMoves prints cells as "cluster:replicas-leaving Reason", those that leave with their reason, and what is not
// placed.
func showMoves(spec *topology.WorkloadPlacementSpec) string {
	var parts []string
	for _, c := range spec.Cells {
		text := fmt.Sprintf("%s:%d", c.Cluster, c.Replicas)
		if c.Zone != "" && c.Subset == "" {
			text = fmt.Sprintf("%s/%s:%d", c.Cluster, c.Zone, c.Replicas)
		}
		if c.Subset != "" {
			text = c.Subset + "/" + text
		}
		if c.Replaced > 0 {
			text += fmt.Sprintf("-%d(%s)", c.Replaced, c.Reason.Code)
		}
		parts = append(parts, text)
	}
	for _, u := range spec.Unplaced {
		parts = append(parts, fmt.Sprintf("%s:%d", u.Reason.Code, u.Replicas))
	}
	return strings.Join(parts, " ")
}

// flags reads "east west! south~ north*": "!" for not Ready, "*" for lost (and not Ready), "~" for a taint with
// NoExecute, "-" for not selected.
func flags(text string) []Member {
	var out []Member
	for _, name := range strings.Fields(text) {
		m := Member{Selected: true, Ready: true}
		for {
			if rest, ok := strings.CutSuffix(name, "!"); ok {
				m.Ready, name = false, rest
			} else if rest, ok := strings.CutSuffix(name, "*"); ok {
				m.Ready, m.Lost, m.State, name = false, true, failover.Lost, rest
			} else if rest, ok := strings.CutSuffix(name, "~"); ok {
				m.Taint, name = division.NoExecute, rest
			} else if rest, ok := strings.CutSuffix(name, "-"); ok {
				m.Selected, name = false, rest
			} else {
				break
			}
		}
		m.Name = name
		out = append(out, m)
	}
	return out
}

// told reads "east:4 west:2/3": available pods, of how many, of members that have carried out the last decision.
func told(last *topology.WorkloadPlacementSpec, text string) map[string]capacity.Report {
	out, sequence := map[string]capacity.Report{}, map[string]int64{}
	if last != nil {
		for _, c := range last.Cells {
			sequence[c.Cluster] = c.Sequence
		}
	}
	for _, part := range strings.Fields(text) {
		name, rest, _ := strings.Cut(part, ":")
		var available, total int32
		if n, _ := fmt.Sscanf(rest, "%d/%d", &available, &total); n < 2 {
			total = available
		}
		out[name] = capacity.Report{Sequence: sequence[name], Applied: true,
			Use: map[string]work.SubsetUse{"": {Desired: total, Total: total, Ready: available, Available: available,
				Updated: total, UpdatedReady: available, UpdatedAvailable: available}}}
	}
	return out
}

func TestFailoverStories(t *testing.T) {
	type stage struct {
		reason, members, reports, want string
	}
	limited := func(unavailable, surge int32) kinds.Workload {
		w := open(12)
		w.Subsets[0].Amounts = func(n int32) lending.Amounts {
			return lending.Amounts{Updated: n, Unavailable: unavailable, Surge: surge}
		}
		return w
	}
	for name, story := range map[string]struct {
		workload kinds.Workload
		mode     topology.FailoverMode
		stages   []stage
	}{
		"a member is lost, and returns": {limited(1, 0), topology.FailoverReplace, []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"it is silent", "east south west!", "east:4 south:4 west:4", "east:4 south:4 west:4"},
			{"it is lost", "east south west*", "east:4 south:4 west:4", "east:6 south:6 west:4-4(Lost)"},
			{"its replacements start", "east south west*", "east:4/6 south:5/6 west:4", "east:6 south:6 west:4-4(Lost)"},
			{"the hub restarts, and is not sure yet", "east south west!", "east:6 south:6 west:4",
				"east:6 south:6 west:4-4(Lost)"},
			{"it is back", "east south west", "east:6 south:6 west:4", "east:6 south:6 west:0"},
			{"nothing comes back", "east south west", "east:6 south:6 west:0", "east:6 south:6 west:0"},
		}},
		"it returns before its replacements run": {limited(1, 0), topology.FailoverReplace, []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"it is lost", "east south west*", "east:4 south:4 west:4", "east:6 south:6 west:4-4(Lost)"},
			{"one runs, the others are its own again", "east south west", "east:5/6 south:4/6 west:4", "east:5 south:4 west:3"},
		}},
		"it returns with broken pods": {limited(1, 0), topology.FailoverReplace, []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"it is lost", "east south west*", "east:4 south:4 west:4", "east:6 south:6 west:4-4(Lost)"},
			{"all its pods are broken: it has nothing to offer", "east south west", "east:5/6 south:5/6 west:0/4",
				"east:6 south:6 west:0"},
		}},
		"nobody else": {limited(1, 0), topology.FailoverReplace, []stage{
			{"placed", "west", "", "west:12"},
			{"it is lost, and nothing replaces it", "west*", "west:12", "west:12"},
			{"it is back", "west", "west:12", "west:12"},
		}},
		"a drain without a surge": {limited(2, 0), "", []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"two stop", "east south west~", "east:4 south:4 west:4", "east:4 south:4 west:2-2(Draining) Moving:4"},
			{"they are gone: two start", "east south west~", "east:4 south:4 west:2",
				"east:5 south:5 west:2-2(Draining) Moving:2"},
			{"one is available: the next stops", "east south west~", "east:5 south:4/5 west:2",
				"east:5 south:5 west:1-1(Draining) Moving:2"},
			{"and is gone", "east south west~", "east:5 south:5 west:1", "east:5 south:6 west:0 Moving:1"},
			{"the last is gone", "east south west~", "east:5 south:6 west:0", "east:6 south:6 west:0"},
		}},
		"a drain with a surge": {limited(0, 2), "", []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"two start", "east south west~", "east:4 south:4 west:4", "east:5 south:5 west:4-4(Draining) Moving:2"},
			{"they are available: two go", "east south west~", "east:5 south:5 west:4",
				"east:5 south:5 west:2-2(Draining) Moving:2"},
			{"they are gone: two start", "east south west~", "east:5 south:5 west:2", "east:6 south:6 west:2-2(Draining)"},
			{"undone in the middle: what is there stays", "east south west", "east:6 south:6 west:2", "east:5 south:5 west:2"},
		}},
		"a drain is taken back while some of its pods start elsewhere": {limited(0, 4), "", []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"two start in each", "east south west~", "east:4 south:4 west:4", "east:6 south:6 west:4-4(Draining)"},
			{"two are available: two go", "east south west~", "east:6 south:4/6 west:4", "east:6 south:6 west:2-2(Draining)"},
			{"taken back: one of the available ones is too many, and stays", "east south west", "east:6 south:4/6 west:2",
				"east:6-1(Shrinking) south:5 west:2"},
			{"while the last one starts", "east south west", "east:6 south:4/5 west:2", "east:6-1(Shrinking) south:5 west:2"},
			{"it is available", "east south west", "east:6 south:5 west:2", "east:5 south:5 west:2"},
		}},
		"a second drain while pods of the first start": {limited(0, 2), "", []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"two start", "east~ south west", "east:4 south:4 west:4", "east:4-4(Draining) south:5 west:5 Moving:2"},
			{"what is available stays, and what starts where the surge has room", "east~ south west~",
				"east:4 south:4/5 west:4/5", "east:4-4(Draining) south:5 west:5-5(Draining) Moving:7"},
			{"that is needed no more", "east~ south west~", "east:4 south:5 west:4/5",
				"east:3-3(Draining) south:5 west:4-4(Draining) Moving:7"},
			{"as many are gone: others start", "east~ south west~", "east:3 south:5 west:4",
				"east:3-3(Draining) south:7 west:4-4(Draining) Moving:5"},
		}},
		"a second drain with what starts in the surge": {limited(0, 1), "", []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"one starts", "east~ south west", "east:4 south:4 west:4", "east:4-4(Draining) south:5 west:4 Moving:3"},
			{"what is available stays, what starts does not", "east~ south~ west", "east:4 south:4/5 west:4",
				"east:4-4(Draining) south:4-4(Draining) west:4 Moving:8"},
			{"that is gone: one starts", "east~ south~ west", "east:4 south:4 west:4",
				"east:4-4(Draining) south:4-4(Draining) west:5 Moving:7"},
		}},
		"a policy selects other members, without a surge": {limited(2, 0), "", []stage{
			{"placed", "east- south- west", "", "west:12"},
			{"two stop, and one starts, since nothing runs elsewhere", "east south west-", "west:12",
				"east:0 south:1 west:10-10(Excluded) Moving:11"},
			{"they are gone: two start", "east south west-", "south:0/1 west:10",
				"east:1 south:2 west:10-10(Excluded) Moving:9"},
			{"they are available: as many stop", "east south west-", "east:1 south:2 west:10",
				"east:1 south:2 west:7-7(Excluded) Moving:9"},
			{"it is heard of no more: all start elsewhere", "east south west-!", "east:1 south:2 west:7",
				"east:6 south:6 west:7-7(Abandoned)"},
			{"it is back, and half of them are available", "east south west-", "east:3/6 south:3/6 west:7",
				"east:6 south:6 west:4-4(Excluded)"},
			{"all are", "east south west-", "east:6 south:6 west:4", "east:6 south:6 west:0"},
			{"nothing is left there", "east south west-", "east:6 south:6 west:0", "east:6 south:6"},
		}},
		"a policy selects other members, with a surge": {limited(1, 2), "", []stage{
			{"placed", "east- south- west", "", "west:12"},
			{"two start", "east south west-", "west:12", "east:1 south:1 west:12-12(Excluded) Moving:10"},
		}},
		"a policy with Fence selects other members": {limited(1, 1), topology.FailoverFence, []stage{
			{"placed", "east- west", "", "west:12"},
			{"one goes", "east west-", "west:12", "east:0 west:11-11(Excluded) Moving:12"},
			{"it is heard of no more: nothing starts that may run there", "east west-!", "west:12",
				"east:0 west:11-11(Excluded) Moving:12"},
		}},
		"a drain of what may have no twin": {limited(1, 1), topology.FailoverFence, []stage{
			{"placed", "east west", "", "east:6 west:6"},
			{"one goes", "east west~", "east:6 west:6", "east:6 west:5-5(Draining) Moving:6"},
			{"it is gone: one starts", "east west~", "east:6 west:5", "east:7 west:5-5(Draining) Moving:5"},
			{"it is available: the next goes", "east west~", "east:7 west:5", "east:7 west:4-4(Draining) Moving:5"},
		}},
		"a lost member is drained": {limited(1, 0), topology.FailoverReplace, []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"lost", "east south west*", "east:4 south:4 west:4", "east:6 south:6 west:4-4(Lost)"},
			{"it is back, with the taint of a person", "east south west~", "east:6 south:6 west:4", "east:6 south:6 west:0"},
		}},
		"a second member is lost": {limited(1, 0), topology.FailoverReplace, []stage{
			{"placed", "east south west", "", "east:4 south:4 west:4"},
			{"lost", "east south west*", "east:4 south:4 west:4", "east:6 south:6 west:4-4(Lost)"},
			{"both", "east south* west*", "east:6 south:6 west:4", "east:12 south:6-6(Lost) west:4-4(Lost)"},
			{"the first one is back: what does not run yet is its own", "east south* west", "east:6/12 south:6 west:4",
				"east:8 south:6-6(Lost) west:4"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := Facts{Workload: story.workload, Failover: topology.Failover{Mode: story.mode, After: "5m"}}
			for _, s := range story.stages {
				facts.Members, facts.Reports = flags(s.members), told(facts.Last, s.reports)
				d := plan(t, facts)
				if got := showMoves(&d.Spec); got != s.want {
					t.Fatalf("%s:\ngot  %s\nwant %s", s.reason, got, s.want)
				}
				sum := d.Spec.Placed
				for _, u := range d.Spec.Unplaced {
					sum += u.Replicas
				}
				if sum != 12 {
					t.Errorf("%s: %d of 12 are accounted for", s.reason, sum)
				}
				facts.Last = &d.Spec
				if again := plan(t, facts); !cmp.Equal(again.Spec, d.Spec) {
					t.Fatalf("%s: a decision from its own result changes:\n%s", s.reason, cmp.Diff(d.Spec, again.Spec))
				}
			}
		})
	}
}

// TestFailoverInTheMiddleOfARollout: a member is lost while its pods are half updated. Where all are to be updated the
// others run its replicas at the new revision; where a part is, what it may have updated stays counted.
func TestFailoverInTheMiddleOfARollout(t *testing.T) {
	for _, tc := range []struct {
		reason    string
		partition int32
		state     string // of west
		updates   string // shares of Update, of those that run
		leaving   int32
	}{
		{"all, and it is lost", 0, "*", "east:6/6 south:6/6", 4},
		{"all, and a hub that was restarted is not sure yet", 0, "*!", "east:6/6 south:6/6", 4},
		{"all but three, and it is lost", 3, "*", "east:3/6 south:3/6", 4},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := open(12)
			w.Subsets[0].Amounts = func(n int32) lending.Amounts {
				return lending.Amounts{Updated: n - tc.partition, Unavailable: 1}
			}
			f := Facts{Workload: w, Failover: topology.Failover{Mode: topology.FailoverReplace, After: "5m"}}
			decide := func(members string, updated int32) {
				t.Helper()
				f.Members = flags(members)
				f.Reports = map[string]capacity.Report{}
				if f.Last != nil {
					for _, c := range f.Last.Cells {
						f.Reports[c.Cluster] = capacity.Report{Sequence: c.Sequence, Applied: true, Use: map[string]work.SubsetUse{
							"": {Desired: 4, Total: 4, Ready: 4, Available: 4, Updated: updated, CanGoBack: true},
						}}
					}
				}
				d := plan(t, f)
				f.Last = &d.Spec
			}
			decide("east south west", 0)
			decide("east south west", 4)
			f.Workload.Revision = "two"
			decide("east south west", 4)
			decide("east south west", 0)
			decide("east south west", 1)
			state, rest := tc.state[:1], tc.state[1:]
			decide("east south west"+state, 1)
			if rest != "" {
				decide("east south west"+rest, 1)
			}
			var shares []string
			for _, c := range f.Last.Cells {
				if c.Cluster != "west" {
					shares = append(shares, fmt.Sprintf("%s:%d/%d", c.Cluster, c.Granted.Updated, c.Replicas))
				} else if c.Replaced != tc.leaving {
					t.Errorf("others stand in for %d: %s", c.Replaced, showMoves(f.Last))
				}
			}
			if got := strings.Join(shares, " "); got != tc.updates {
				t.Errorf("got %s, want %s: %+v", got, tc.updates, f.Last.Cells)
			}
		})
	}
}

// TestFailoverHolds plays members that are lost, drained and come back at random, and checks at every moment what is
// promised: every replica is accounted for, a decision from its own result changes nothing, what a lost member has been
// told stays, and in the end, with all members back, nothing is leaving.
func TestFailoverHolds(t *testing.T) {
	for seed := range uint64(*worlds) {
		r := rand.New(rand.NewPCG(seed, 11))
		names := []string{"east", "north", "south", "west"}[:2+r.IntN(3)]
		w := open(1 + r.Int32N(14))
		breaks, adds := r.Int32N(3), r.Int32N(3)
		w.Subsets[0].Amounts = func(n int32) lending.Amounts {
			return lending.Amounts{Updated: n, Unavailable: breaks, Surge: adds}
		}
		f := Facts{Workload: w, Failover: topology.Failover{Mode: topology.FailoverReplace, After: "5m"}}
		pods := map[string][2]int32{} // available, total
		state := map[string]string{}
		step := func(calm bool) {
			text, pod := "", ""
			for _, name := range names {
				switch {
				case calm:
					state[name] = ""
				case r.IntN(12) == 0:
					state[name] = []string{"", "", "!", "*", "~", "-"}[r.IntN(6)]
					if name == names[0] && state[name] == "-" {
						state[name] = "" // a policy that selects nobody decides nothing
					}
				}
				text += " " + name + state[name]
				pod += fmt.Sprintf(" %s:%d/%d", name, pods[name][0], pods[name][1])
			}
			f.Members, f.Reports = flags(text), told(f.Last, pod)
			d := plan(t, f)
			sum := d.Spec.Placed
			for _, u := range d.Spec.Unplaced {
				sum += u.Replicas
			}
			if sum != w.Replicas {
				t.Fatalf("seed %d: %d of %d are accounted for: %s", seed, sum, w.Replicas, showMoves(&d.Spec))
			}
			for _, c := range d.Spec.Cells {
				if state[c.Cluster] == "*" && f.Last != nil {
					for _, had := range f.Last.Cells {
						if had.Cluster == c.Cluster && had.Replicas != c.Replicas {
							t.Fatalf("seed %d: a lost member is told otherwise:%s, %s, then %s", seed, text, showMoves(f.Last),
								showMoves(&d.Spec))
						}
					}
				}
				if c.Replaced > c.Replicas || c.Replaced < 0 {
					t.Fatalf("seed %d: %s", seed, showMoves(&d.Spec))
				}
			}
			f.Last = &d.Spec
			if again := plan(t, f); !cmp.Equal(again.Spec, d.Spec) {
				t.Fatalf("seed %d: a decision from its own result changes, with%s, %s:\n%s", seed, text, pod,
					cmp.Diff(d.Spec, again.Spec))
			}
			for _, c := range d.Spec.Cells {
				if state[c.Cluster] == "!" || state[c.Cluster] == "*" || r.IntN(3) == 0 {
					continue
				}
				p := pods[c.Cluster]
				switch {
				case p[1] > c.Replicas:
					p[1]--
					p[0] = min(p[0], p[1])
				case p[0] < p[1]:
					p[0]++
				case p[1] < c.Replicas:
					p[1]++
				}
				pods[c.Cluster] = p
			}
		}
		for range 150 {
			step(false)
		}
		for range 300 {
			step(true)
		}
		for _, c := range f.Last.Cells {
			if c.Replaced > 0 || pods[c.Cluster][0] != c.Replicas {
				t.Fatalf("seed %d: it does not come to rest: %s, pods %v", seed, showMoves(f.Last), pods)
			}
		}
	}
}

// TestOtherMembersKeepWhatRuns: a policy selects other members again and again, while pods start and go slowly. Of pods
// that were available no more are missing than maxUnavailable allows, none with a surge, and never the last one.
func TestOtherMembersKeepWhatRuns(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 12))
		names := []string{"east", "north", "south", "west"}
		w := open(1 + r.Int32N(14))
		breaks, adds := r.Int32N(4), r.Int32N(3)
		w.Subsets[0].Amounts = func(n int32) lending.Amounts {
			return lending.Amounts{Updated: n, Unavailable: breaks, Surge: adds}
		}
		least := w.Replicas
		if adds == 0 {
			least = max(w.Replicas-breaks, 1)
		}
		f, pods := Facts{Workload: w}, map[string][2]int32{}
		for phase := range 5 {
			excluded := r.IntN(len(names) - 1)
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for round := 0; ; round++ {
				if round == 1000 {
					t.Fatalf("seed %d, phase %d: it does not come to rest: %s, pods %v", seed, phase, showMoves(f.Last), pods)
				}
				f.Members, f.Reports = selection(names, excluded), told(f.Last, podsText(pods))
				d := plan(t, f)
				f.Last = &d.Spec
				available, rest := live(r, &d.Spec, pods)
				if phase > 0 && available < least {
					t.Fatalf("seed %d, phase %d: %d of %d pods are available, want at least %d: %s, pods %v", seed, phase, available,
						w.Replicas, least, showMoves(f.Last), pods)
				}
				if rest {
					break
				}
			}
		}
	}
}

// selection are members of which the first ones are not selected.
func selection(names []string, excluded int) []Member {
	var text []string
	for i, name := range names {
		if i < excluded {
			name += "-"
		}
		text = append(text, name)
	}
	slices.Sort(text)
	return flags(strings.Join(text, " "))
}

func podsText(pods map[string][2]int32) string {
	var text []string
	for name, p := range pods {
		text = append(text, fmt.Sprintf("%s:%d/%d", name, p[0], p[1]))
	}
	return strings.Join(text, " ")
}

// live lets a little time pass in members: pods go, are made, get available. It returns how many are, and whether all
// is as it was told.
func live(r *rand.Rand, spec *topology.WorkloadPlacementSpec, pods map[string][2]int32) (available int32, rest bool) {
	rest = len(spec.Unplaced) == 0
	for _, c := range spec.Cells {
		p := pods[c.Cluster]
		for range r.IntN(3) {
			switch {
			case p[1] > c.Replicas:
				p[1]--
				p[0] = min(p[0], p[1])
			case p[0] < p[1] && r.IntN(3) == 0:
				p[0]++
			case p[1] < c.Replicas:
				p[1]++
			}
		}
		pods[c.Cluster] = p
		available += p[0]
		rest = rest && c.Replaced == 0 && p == [2]int32{c.Replicas, c.Replicas}
	}
	return available, rest
}
