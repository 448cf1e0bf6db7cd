package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/topology/lending"
)

var dawn = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// minReady is that of the CloneSets of tests.
const minReady = 3 * time.Second

// past is a log that a test makes up, of the CloneSet web in clusters a, b and c. Each step is one second after the one
// before.
type past struct {
	log  []entry
	now  time.Time
	hand deletions
	pods map[string]bool // that there were, by cluster/name
}

func newPast() *past { return &past{now: dawn, hand: deletions{}, pods: map[string]bool{}} }

func (p *past) add(e entry) *past {
	p.now = p.now.Add(time.Second)
	e.at, e.version = p.now, uint64(len(p.log)+1)
	p.log = append(p.log, e)
	return p
}

// rest lets time pass.
func (p *past) rest(seconds int) *past {
	for range seconds {
		p.add(entry{note: "time passes"})
	}
	return p
}

// user asks for numbers of the whole workload.
func (p *past) user(generation int64, replicas, unavailable, surge int32) *past {
	return p.add(entry{cluster: "hub", asked: &askedState{workload: "web", generation: generation, replicas: replicas, amounts: func(string, int32) lending.Amounts {
		return lending.Amounts{Update: replicas, Break: unavailable, Add: surge}
	}}})
}

// numbered gives a subset of what the user asked for last a number.
func (p *past) numbered(subset string, replicas int32) *past {
	p.log[len(p.log)-1].asked.numbers = map[string]int32{subset: replicas}
	return p
}

// hub places the workload; held is what all cells hold together.
func (p *past) hub(generation int64, replicas, placed, unavailable, surge, held int32) *past {
	return p.add(entry{cluster: "hub", placed: &placedState{workload: "web", generation: generation, sequence: generation, replicas: replicas, placed: placed, subsets: map[string]subsetState{
		"": {replicas: replicas, whole: true, limit: lending.Amounts{Update: replicas, Break: unavailable, Add: surge},
			held: lending.Amounts{Break: held, Add: surge}},
	}}})
}

// set is a version of the member's CloneSet.
func (p *past) set(cluster string, generation int64, replicas, unavailable, surge int32, observed int64) *past {
	return p.add(entry{cluster: cluster, set: &setState{uid: types.UID(cluster), name: "web", of: place{workload: "web"},
		ready: minReady, observed: observed,
		spec: cellSpec{generation: generation, replicas: replicas, maxUnavailable: unavailable, maxSurge: surge}}})
}

// withdraw takes the member's CloneSet away.
func (p *past) withdraw(cluster string) *past {
	for i := len(p.log) - 1; i >= 0; i-- {
		if last := p.log[i].set; last != nil && p.log[i].cluster == cluster {
			gone := *last
			gone.gone = true
			return p.add(entry{cluster: cluster, set: &gone})
		}
	}
	return p
}

func (p *past) pod(cluster, name string, change func(*podState)) *past {
	s := &podState{uid: types.UID(cluster + name), owner: types.UID(cluster), name: name, active: true, image: "v1"}
	change(s)
	return p.add(entry{cluster: cluster, pod: s})
}

func (p *past) ready(cluster string, names ...string) *past {
	for _, name := range names {
		if !p.pods[cluster+"/"+name] {
			p.create(cluster, name)
		}
		p.pod(cluster, name, func(s *podState) { s.ready, s.readySince = true, p.now.Add(time.Second) })
	}
	return p
}

func (p *past) create(cluster string, names ...string) *past {
	for _, name := range names {
		p.pods[cluster+"/"+name] = true
		p.pod(cluster, name, func(*podState) {})
	}
	return p
}

// update takes pods down for an update in place.
func (p *past) update(cluster string, names ...string) *past {
	for _, name := range names {
		p.pod(cluster, name, func(s *podState) { s.shut = true })
	}
	return p
}

func (p *past) remove(cluster string, byUs bool, names ...string) *past {
	for _, name := range names {
		p.asks(cluster, name, deletion{ours: byUs, code: 200})
		p.going(cluster, name)
	}
	return p
}

// asks tells of a request to delete a pod, which is answered 10 ms before the next step if it is answered at all.
func (p *past) asks(cluster, name string, d deletion) *past {
	key := podKey{cluster, name}
	d.asked = p.now.Add(900 * time.Millisecond)
	if d.code != 0 {
		d.answered = p.now.Add(990 * time.Millisecond)
	}
	p.hand[key] = append(p.hand[key], d)
	return p
}

// going tells that a pod goes, and is gone.
func (p *past) going(cluster, name string) *past {
	return p.pod(cluster, name, func(s *podState) {
		s.active, s.gone, s.deleted = false, true, p.now.Add(950*time.Millisecond).Truncate(time.Second)
	})
}

func (p *past) fail(cluster string, names ...string) *past {
	for _, name := range names {
		p.pod(cluster, name, func(*podState) {})
	}
	return p
}

func (p *past) cut(cluster string, cut bool) *past {
	return p.add(entry{cluster: cluster, cut: &cutState{cut}})
}

// unseen tells that versions of a cell, or else of the workload, were not seen in the last so many seconds.
func (p *past) unseen(cell types.UID, seconds int) *past {
	l := &lostState{cell: cell, from: p.now.Add(-time.Duration(seconds-1) * time.Second)}
	if cell == "" {
		l.workload = "web"
	}
	return p.add(entry{lost: l})
}

// stood tells that the machine stood still in the last so many seconds.
func (p *past) stood(seconds int) *past {
	p.add(entry{})
	p.log[len(p.log)-1].stood = &stall{from: p.now.Add(-time.Duration(seconds) * time.Second), to: p.now, machine: true}
	return p
}

func (p *past) silent(cluster string) *past {
	return p.add(entry{cluster: cluster, silent: &silentState{true}})
}

// at makes the next step happen at the same time as the last one and so many milliseconds.
func (p *past) within(milliseconds int) *past {
	p.now = p.now.Add(-time.Second + time.Duration(milliseconds)*time.Millisecond)
	return p
}

// running is the workload with 6 pods in a and b, all available, and a limit over both.
func running(unavailable, surge, inA, inB int32) *past {
	p := newPast().user(1, 6, unavailable, surge).hub(1, 6, 6, unavailable, surge, unavailable)
	p.set("a", 1, 3, inA, surge, 1).set("b", 1, 3, inB, surge, 1)
	return p.ready("a", "1", "2", "3").ready("b", "1", "2", "3").rest(10)
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name string
		past *past
		want []string
	}{
		{"as many as the limit over both", running(2, 0, 1, 1).update("a", "1").update("b", "1").rest(9), nil},
		{"one too many over both, each within what its member was told",
			running(1, 0, 1, 1).update("a", "1").update("b", "1").rest(9),
			[]string{ruleGlobal + "|web: 2 pods are unavailable by our doing over all members, at most 1 may be"}},
		{"one after the other", running(1, 0, 1, 1).update("a", "1").ready("a", "1").rest(3).update("b", "1").rest(9), nil},
		{"the other one before minReadySeconds are over",
			running(1, 0, 1, 1).update("a", "1").ready("a", "1").update("b", "1").rest(9), []string{ruleGlobal}},
		{"events of two clusters seen in the wrong order", running(1, 0, 1, 1).remove("a", true, "1").create("a", "4").
			pod("a", "4", func(s *podState) { s.ready, s.readySince = true, dawn }).rest(1).remove("a", true,
			"2").update("b", "1").
			within(300).pod("a", "5", func(s *podState) { s.ready, s.readySince = true, dawn }).rest(9), nil},
		{"a cell beyond what it was told", running(3, 0, 1, 2).update("a", "1", "2").rest(9),
			[]string{ruleCell + "|a: CloneSet web of web made pod 2 unavailable: 1 are available"}},
		{"a lower number counts when the controller has observed it",
			running(3, 0, 2, 1).set("a", 2, 3, 0, 0, 1).update("a", "1", "2").rest(9), nil},
		{"and then it counts", running(3, 0, 2, 1).set("a", 2, 3, 0, 0, 2).update("a", "1").rest(9), []string{ruleCell}},
		{"a pod lost to a node is nobody's", running(1, 0, 1, 1).remove("a", false, "1").update("b", "1").rest(9), nil},
		{"but its cell has one less to take", running(2, 0, 1, 1).remove("a", false, "1").rest(9).update("a", "2").rest(9),
			[]string{ruleCell}},
		{"unless it cannot have known", running(2, 0, 1, 1).remove("a", false, "1").update("a", "2").rest(9), nil},
		{"nor that one failed just before its minReadySeconds were over",
			running(2, 0, 1, 1).update("a", "1").ready("a", "1").rest(1).fail("a", "1").rest(1).update("a", "2").rest(9), nil},
		{"which counts for as long as they were not over",
			running(2, 0, 1, 1).update("a", "1").ready("a", "1").fail("a", "1").update("a", "2").rest(9), []string{ruleCell}},
		{"and not for ever", running(2, 0, 1, 1).update("a", "1").ready("a", "1").rest(1).fail("a", "1").rest(9).update("a",
			"2").rest(9), []string{ruleCell}},
		{"nor is one that failed by itself", running(1, 0, 1, 1).fail("a", "1").update("b", "1").rest(9), nil},
		{"a pod deleted by nobody known is ours", running(1, 0, 1, 1).going("a", "1").update("b", "1").rest(9),
			[]string{ruleGlobal}},
		{"one that was deleted by others, whose answer was 504",
			running(1, 0, 1, 1).asks("a", "1", deletion{code: 504}).going("a", "1").update("b", "1").rest(9), nil},
		{"and by us", running(1, 0, 1, 1).asks("a", "1", deletion{ours: true, code: 504}).going("a", "1").update("b",
			"1").rest(9), []string{ruleGlobal}},
		{"one whose containers ended is nobody's, though we clear it away",
			running(1, 0, 1, 1).pod("a", "1", func(s *podState) { s.active, s.ended = false, true }).
				asks("a", "1", deletion{ours: true, code: 200}).going("a", "1").update("b", "1").rest(9), nil},
		{"a pod that is not available is free", running(1, 0, 1, 1).fail("a", "1").rest(9).update("a", "1").update("b",
			"1").rest(9), nil},
		{"a cell that is withdrawn with its pods", running(1, 0, 1, 1).withdraw("a").rest(9),
			[]string{ruleCell + "|a: CloneSet web of web is gone, and 3 of its pods were available"}},
		{"and one that was emptied before", running(1, 0, 1, 1).user(2, 3, 1, 0).hub(2, 3, 3, 1, 0, 1).set("a", 2, 0, 1, 0,
			2).remove("a", true, "1", "2", "3").withdraw("a").rest(9), nil},
		{"scaling out makes holes that are nobody's", running(1, 0, 1, 1).user(2, 10, 1, 0).hub(2, 10, 10, 1, 0, 1).set("a",
			2, 7, 1, 0, 1).update("b", "1").rest(9), nil},
		{"scaling in frees pods", running(1, 0, 1, 1).user(2, 4, 1, 0).hub(2, 4, 4, 1, 0, 1).set("a", 2, 2, 1, 0, 1).set("b",
			2, 2, 1, 0, 1).
			remove("a", true, "1").remove("b", true, "1").rest(9), nil},
		{"a limit that was lowered holds while cells hold more",
			running(2, 0, 1, 1).user(2, 6, 1, 0).hub(2, 6, 6, 1, 0, 2).update("a", "1").update("b", "1").rest(9), nil},
		{"and no longer", running(2, 0, 1, 1).user(2, 6, 1, 0).hub(2, 6, 6, 1, 0, 2).hub(3, 6, 6, 1, 0, 1).rest(9).update("a",
			"1").update("b", "1").rest(9), []string{ruleGlobal}},
		{"a limit that was raised holds at once", running(1, 0, 1, 1).user(2, 6, 2, 0).hub(2, 6, 6, 2, 0, 2).update("a",
			"1").update("b", "1").rest(9), nil},
		{"surge up to the limit", running(0, 2, 0, 0).create("a", "4").create("b", "4").rest(9), nil},
		{"surge beyond the limit over both", running(0, 1, 0, 0).create("a", "4").create("b", "4").rest(9),
			[]string{ruleGlobal + "|web: 2 pods are above replicas by our doing"}},
		{"surge beyond what the cell was told", running(0, 1, 0, 0).create("a", "4", "5").rest(9),
			[]string{ruleCell, ruleGlobal}},
		{"pods that scaling in left are not added", running(0, 1, 0, 0).user(2, 4, 0, 1).hub(2, 4, 4, 0, 1, 0).set("a", 2, 1,
			0, 1, 2).create("b", "4").rest(9), nil},
		{"cells that do not add up", newPast().user(1, 6, 1, 0).hub(1, 6, 5, 1, 0, 1), []string{ruleSum}},
		{"the number of a subset", newPast().user(1, 6, 1, 0).numbered("", 6).hub(1, 6, 6, 1, 0, 1), nil},
		{"another number of a subset", newPast().user(1, 6, 1, 0).numbered("", 4).hub(1, 6, 6, 1, 0, 1), []string{ruleLent}},
		{"numbers that nobody asked for", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 2, 0, 1), []string{ruleLent}},
		{"numbers of an older generation than before",
			newPast().user(1, 6, 1, 0).user(2, 6, 2, 0).hub(1, 6, 6, 2, 0, 2).hub(2, 6, 6, 1, 0, 2), []string{ruleLent}},
		{"cells that hold more than the limit", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 2), []string{ruleLent}},
		{"a member that was cut off long ago", running(1, 0, 1, 1).cut("a", true).rest(60).update("a", "1").rest(9),
			[]string{ruleLease}},
		{"one that was cut off just now", running(1, 0, 1, 1).cut("a", true).rest(20).update("a", "1").rest(9), nil},
		{"one that came back", running(1, 0, 1, 1).cut("a", true).rest(60).cut("a", false).update("a", "1").rest(9), nil},
		{"one that was cut off long ago heals", running(1, 0, 1, 1).cut("a", true).rest(60).remove("a", false,
			"1").create("a", "4").rest(9), nil},
		{"a generation that was not seen, when an API server was restarted",
			running(3, 0, 2, 1).update("a", "1", "2").unseen("a", 4).set("a", 3, 3, 1, 0, 3).rest(9), nil},
		{"nor are all cells judged together then", running(1, 0, 2, 1).update("a", "1", "2").unseen("a", 4).set("a", 3, 3, 1,
			0, 3).rest(9), nil},
		{"other cells are judged", running(3, 0, 1, 2).update("a", "1", "2").unseen("b", 4).rest(9), []string{ruleCell}},
		{"and the same one before and after", running(3, 0, 1, 2).update("a", "1", "2").rest(9).unseen("a", 4).rest(9),
			[]string{ruleCell}},
		{"a placement that was not seen", running(1, 0, 1, 1).update("a", "1").update("b", "1").unseen("", 5).user(2, 6, 2,
			0).hub(3, 6, 6, 2, 0, 2).rest(9), nil},
		{"numbers of a generation that was not seen", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 1).hub(2, 6, 6, 2, 0,
			2).user(3, 6, 1, 0), []string{ruleLent}},
		{"and that is known to be missing", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 1).user(3, 6, 1, 0).hub(2, 6, 6, 2,
			0, 2), nil},
		{"what cells hold after a placement that was not seen",
			newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 1).hub(3, 6, 6, 1, 0, 2), nil},
		{"a pod just lost, when the machine stood still since",
			running(2, 0, 1, 1).remove("a", false, "1").stood(9).update("a", "2").rest(9), nil},
		{"a cut that was long for a machine that stood still",
			running(1, 0, 1, 1).cut("a", true).rest(20).rest(36).stood(30).update("a", "1").rest(9), nil},
		{"events in the wrong order, with a stall between", running(1, 0, 1, 1).remove("a", true, "1").create("a", "4").
			pod("a", "4", func(s *podState) { s.ready, s.readySince = true, dawn }).rest(1).remove("a", true,
			"2").update("b", "1").
			rest(3).stood(4).within(300).pod("a", "5", func(s *podState) { s.ready, s.readySince = true, dawn }).rest(9), nil},
		{"a stall long ago excuses nothing", running(1, 0, 1, 1).stood(9).rest(9).update("a", "1").update("b", "1").rest(9),
			[]string{ruleGlobal}},
		{"what a silent member took down is charged to its cell",
			running(1, 0, 1, 1).update("a", "1").silent("a").update("b", "1").rest(9), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := judge(test.past.log, test.past.hand).violations
			for i, want := range test.want {
				rule, what, _ := strings.Cut(want, "|")
				if i < len(got) && (got[i].rule != rule || !strings.HasPrefix(got[i].what, what)) {
					t.Errorf("violation %s, want %q", got[i], want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("%d violations, want %d: %v\n%s", len(got), len(test.want), got, tellAll(test.past.log))
			}
		})
	}
}

func TestAViolationTellsItsStory(t *testing.T) {
	p := running(1, 0, 1, 1).update("a", "1").update("b", "1").rest(9)
	got := judge(p.log, p.hand).violations
	if len(got) != 1 {
		t.Fatalf("%d violations, want 1", len(got))
	}
	story := strings.Join(got[0].story, "\n")
	for _, want := range []string{"the user asks: web generation 1", "placement of web", "pod 3 available",
		"pod 1 unavailable: updated in place"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
}

func TestALogIsOrderedByVersionsAndThenByTime(t *testing.T) {
	at := func(ms int) time.Time { return dawn.Add(time.Duration(ms) * time.Millisecond) }
	log := []entry{
		{at: at(5), cluster: "a", version: 2, note: "a2"}, {at: at(9), cluster: "a", version: 1, note: "a1"},
		{at: at(7), cluster: "b", version: 9, note: "b9"}, {at: at(8), note: "fate"},
	}
	var got []string
	for _, e := range ordered(log) {
		got = append(got, fmt.Sprint(e.note, "@", e.at.Sub(dawn).Milliseconds()))
	}
	if want := []string{"b9@7", "fate@8", "a1@9", "a2@9"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestUntouched(t *testing.T) {
	p := running(1, 0, 1, 1)
	from := len(p.log)
	if got := untouched(p.log, from); len(got) > 0 {
		t.Errorf("nothing happened, and it found %v", got)
	}
	p.update("a", "1").remove("b", true, "1")
	if got := untouched(p.log, from); len(got) != 2 {
		t.Errorf("two pods changed, and it found %v", got)
	}
}
