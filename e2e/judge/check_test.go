package judge

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
	log  []Entry
	now  time.Time
	hand Deletions
	pods map[string]bool // that there were, by cluster/name
}

func newPast() *past { return &past{now: dawn, hand: Deletions{}, pods: map[string]bool{}} }

func (p *past) add(e Entry) *past {
	p.now = p.now.Add(time.Second)
	e.At, e.Version = p.now, uint64(len(p.log)+1)
	p.log = append(p.log, e)
	return p
}

// rest lets time pass.
func (p *past) rest(seconds int) *past {
	for range seconds {
		p.add(Entry{Note: "time passes"})
	}
	return p
}

// user asks for numbers of the whole workload.
func (p *past) user(generation int64, replicas, unavailable, surge int32) *past {
	amounts := func(string, int32) lending.Amounts {
		return lending.Amounts{Updated: replicas, Unavailable: unavailable, Surge: surge}
	}
	return p.add(Entry{Cluster: "hub", Desired: &Desired{Workload: "web", Generation: generation, Replicas: replicas,
		Amounts: amounts}})
}

// numbered gives a subset of what the user asked for last a number.
func (p *past) numbered(subset string, replicas int32) *past {
	p.log[len(p.log)-1].Desired.Numbers = map[string]int32{subset: replicas}
	return p
}

// hub places the workload; held is what all cells hold together.
func (p *past) hub(generation int64, replicas, placed, unavailable, surge, held int32) *past {
	return p.add(Entry{Cluster: "hub", Placement: &Placement{Workload: "web", Generation: generation,
		Sequence: generation, Replicas: replicas, Placed: placed, Subsets: map[string]Subset{
			"": {Replicas: replicas, Whole: true,
				Limit:    lending.Amounts{Updated: replicas, Unavailable: unavailable, Surge: surge},
				Reserved: lending.Amounts{Unavailable: held, Surge: surge}},
		}}})
}

// set is a version of the member's CloneSet.
func (p *past) set(cluster string, generation int64, replicas, unavailable, surge int32, observed int64) *past {
	return p.add(Entry{Cluster: cluster, Cell: &Cell{UID: types.UID(cluster), Name: "web", Of: Place{Workload: "web"},
		MinReady: minReady, Observed: observed,
		Spec: CellSpec{Generation: generation, Replicas: replicas, MaxUnavailable: unavailable, MaxSurge: surge}}})
}

// withdraw takes the member's CloneSet away.
func (p *past) withdraw(cluster string) *past {
	for i := len(p.log) - 1; i >= 0; i-- {
		if last := p.log[i].Cell; last != nil && p.log[i].Cluster == cluster {
			gone := *last
			gone.Gone = true
			return p.add(Entry{Cluster: cluster, Cell: &gone})
		}
	}
	return p
}

func (p *past) pod(cluster, name string, change func(*Pod)) *past {
	s := &Pod{UID: types.UID(cluster + name), Owner: types.UID(cluster), Name: name, Active: true, Image: "v1"}
	change(s)
	return p.add(Entry{Cluster: cluster, Pod: s})
}

func (p *past) ready(cluster string, names ...string) *past {
	for _, name := range names {
		if !p.pods[cluster+"/"+name] {
			p.create(cluster, name)
		}
		p.pod(cluster, name, func(s *Pod) { s.Ready, s.ReadySince = true, p.now.Add(time.Second) })
	}
	return p
}

func (p *past) create(cluster string, names ...string) *past {
	for _, name := range names {
		p.pods[cluster+"/"+name] = true
		p.pod(cluster, name, func(*Pod) {})
	}
	return p
}

// update takes pods down for an update in place.
func (p *past) update(cluster string, names ...string) *past {
	for _, name := range names {
		p.pod(cluster, name, func(s *Pod) { s.Updating = true })
	}
	return p
}

// sidecar updates the sidecars of pods in place.
func (p *past) sidecar(cluster string, names ...string) *past {
	for _, name := range names {
		p.pod(cluster, name, func(pod *Pod) { pod.Sidecar, pod.Ready, pod.Updating = "new", false, true })
	}
	return p
}

func (p *past) remove(cluster string, byUs bool, names ...string) *past {
	for _, name := range names {
		p.asks(cluster, name, Deletion{Ours: byUs, Code: 200})
		p.going(cluster, name)
	}
	return p
}

// asks tells of a request to delete a pod, which is answered 10 ms before the next step if it is answered at all.
func (p *past) asks(cluster, name string, d Deletion) *past {
	key := PodKey{cluster, name}
	d.Asked = p.now.Add(900 * time.Millisecond)
	if d.Code != 0 {
		d.Answered = p.now.Add(990 * time.Millisecond)
	}
	p.hand[key] = append(p.hand[key], d)
	return p
}

// going tells that a pod goes, and is gone.
func (p *past) going(cluster, name string) *past {
	return p.pod(cluster, name, func(s *Pod) {
		s.Active, s.Gone, s.Deleted = false, true, p.now.Add(950*time.Millisecond).Truncate(time.Second)
	})
}

func (p *past) fail(cluster string, names ...string) *past {
	for _, name := range names {
		p.pod(cluster, name, func(*Pod) {})
	}
	return p
}

func (p *past) cut(cluster string, cut bool) *past {
	return p.add(Entry{Cluster: cluster, Link: &Link{cut}})
}

// unseen tells that versions of a cell, or else of the workload, were not seen in the last so many seconds.
func (p *past) unseen(cell types.UID, seconds int) *past {
	l := &Gap{Cell: cell, From: p.now.Add(-time.Duration(seconds-1) * time.Second)}
	if cell == "" {
		l.Workload = "web"
	}
	return p.add(Entry{Gap: l})
}

// stood tells that the machine stood still in the last so many seconds.
func (p *past) stood(seconds int) *past {
	p.add(Entry{})
	p.log[len(p.log)-1].Stall = &Stall{From: p.now.Add(-time.Duration(seconds) * time.Second), To: p.now, Machine: true}
	return p
}

func (p *past) silent(cluster string) *past {
	return p.add(Entry{Cluster: cluster, Member: &Member{Unreachable: true}})
}

// fenced tells that a person confirmed the loss of a member.
func (p *past) fenced(cluster string) *past {
	return p.add(Entry{Cluster: cluster, Member: &Member{Fenced: true}})
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

func TestCheck(t *testing.T) {
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
			pod("a", "4", func(s *Pod) { s.Ready, s.ReadySince = true, dawn }).rest(1).remove("a", true,
			"2").update("b", "1").
			within(300).pod("a", "5", func(s *Pod) { s.Ready, s.ReadySince = true, dawn }).rest(9), nil},
		{"a cell beyond what it was told", running(3, 0, 1, 2).update("a", "1", "2").rest(9),
			[]string{ruleCell + "|a: cell web of web made pod 2 unavailable: 1 are available"}},
		{"a lower number counts when the controller has observed it",
			running(3, 0, 2, 1).set("a", 2, 3, 0, 0, 1).update("a", "1", "2").rest(9), nil},
		{"and then it counts", running(3, 0, 2, 1).set("a", 2, 3, 0, 0, 2).update("a", "1").rest(9), []string{ruleCell}},
		{"a pod lost to a node is nobody's", running(1, 0, 1, 1).remove("a", false, "1").update("b", "1").rest(9), nil},
		{"nor is one whose sidecar is updated", running(1, 0, 1, 1).sidecar("a", "1").update("b", "1").rest(9), nil},
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
			running(1, 0, 1, 1).asks("a", "1", Deletion{Code: 504}).going("a", "1").update("b", "1").rest(9), nil},
		{"and by us", running(1, 0, 1, 1).asks("a", "1", Deletion{Ours: true, Code: 504}).going("a", "1").update("b",
			"1").rest(9), []string{ruleGlobal}},
		{"one whose containers ended is nobody's, though we clear it away",
			running(1, 0, 1, 1).pod("a", "1", func(s *Pod) { s.Active, s.Ended = false, true }).
				asks("a", "1", Deletion{Ours: true, Code: 200}).going("a", "1").update("b", "1").rest(9), nil},
		{"a pod that is not available is free", running(1, 0, 1, 1).fail("a", "1").rest(9).update("a", "1").update("b",
			"1").rest(9), nil},
		{"a cell that is withdrawn with its pods", running(1, 0, 1, 1).withdraw("a").rest(9),
			[]string{ruleCell + "|a: cell web of web is gone, and 3 of its pods were available"}},
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
		{"another number of a subset", newPast().user(1, 6, 1, 0).numbered("", 4).hub(1, 6, 6, 1, 0, 1),
			[]string{ruleGranted}},
		{"numbers that nobody asked for", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 2, 0, 1), []string{ruleGranted}},
		{"numbers of an older generation than before",
			newPast().user(1, 6, 1, 0).user(2, 6, 2, 0).hub(1, 6, 6, 2, 0, 2).hub(2, 6, 6, 1, 0, 2), []string{ruleGranted}},
		{"cells that hold more than the limit", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 2), []string{ruleGranted}},
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
			2).user(3, 6, 1, 0), []string{ruleGranted}},
		{"and that is known to be missing", newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 1).user(3, 6, 1, 0).hub(2, 6, 6, 2,
			0, 2), nil},
		{"what cells hold after a placement that was not seen",
			newPast().user(1, 6, 1, 0).hub(1, 6, 6, 1, 0, 1).hub(3, 6, 6, 1, 0, 2), nil},
		{"a pod just lost, when the machine stood still since",
			running(2, 0, 1, 1).remove("a", false, "1").stood(9).update("a", "2").rest(9), nil},
		{"a cut that was long for a machine that stood still",
			running(1, 0, 1, 1).cut("a", true).rest(20).rest(36).stood(30).update("a", "1").rest(9), nil},
		{"events in the wrong order, with a stall between", running(1, 0, 1, 1).remove("a", true, "1").create("a", "4").
			pod("a", "4", func(s *Pod) { s.Ready, s.ReadySince = true, dawn }).rest(1).remove("a", true,
			"2").update("b", "1").
			rest(3).stood(4).within(300).pod("a", "5", func(s *Pod) { s.Ready, s.ReadySince = true, dawn }).rest(9), nil},
		{"a stall long ago excuses nothing", running(1, 0, 1, 1).stood(9).rest(9).update("a", "1").update("b", "1").rest(9),
			[]string{ruleGlobal}},
		{"what a silent member took down is charged to its cell",
			running(1, 0, 1, 1).update("a", "1").silent("a").update("b", "1").rest(9), nil},
		{"what a fenced member took down is charged to its cell if its ordinals move",
			identities(1).update("a", "1").fenced("a").update("b", "1001").rest(9), nil},
		{"what a fenced member took down of pods without ordinals is not",
			running(1, 0, 1, 1).update("a", "1").fenced("a").update("b", "1").rest(9), []string{ruleGlobal}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Check(test.past.log, test.past.hand).Violations
			for i, want := range test.want {
				rule, what, _ := strings.Cut(want, "|")
				if i < len(got) && (got[i].Rule != rule || !strings.HasPrefix(got[i].What, what)) {
					t.Errorf("violation %s, want %q", got[i], want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("%d violations, want %d: %v\n%s", len(got), len(test.want), got, FormatLog(test.past.log))
			}
		})
	}
}

func TestViolationHasItsTrace(t *testing.T) {
	p := running(1, 0, 1, 1).update("a", "1").update("b", "1").rest(9)
	got := Check(p.log, p.hand).Violations
	if len(got) != 1 {
		t.Fatalf("%d violations, want 1", len(got))
	}
	trace := strings.Join(got[0].Trace, "\n")
	for _, want := range []string{"the user asks: web generation 1", "placement of web", "pod 3 available",
		"pod 1 unavailable: updated in place"} {
		if !strings.Contains(trace, want) {
			t.Errorf("the trace lacks %q:\n%s", want, trace)
		}
	}
}

func TestALogIsOrderedByVersionsAndThenByTime(t *testing.T) {
	at := func(ms int) time.Time { return dawn.Add(time.Duration(ms) * time.Millisecond) }
	log := []Entry{
		{At: at(5), Cluster: "a", Version: 2, Note: "a2"}, {At: at(9), Cluster: "a", Version: 1, Note: "a1"},
		{At: at(7), Cluster: "b", Version: 9, Note: "b9"}, {At: at(8), Note: "fault"},
	}
	var got []string
	for _, e := range Ordered(log) {
		got = append(got, fmt.Sprint(e.Note, "@", e.At.Sub(dawn).Milliseconds()))
	}
	if want := []string{"b9@7", "fault@8", "a1@9", "a2@9"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestUntouched(t *testing.T) {
	p := running(1, 0, 1, 1)
	from := len(p.log)
	if got := Untouched(p.log, from); len(got) > 0 {
		t.Errorf("nothing happened, and it found %v", got)
	}
	p.update("a", "1").remove("b", true, "1")
	if got := Untouched(p.log, from); len(got) != 2 {
		t.Errorf("two pods changed, and it found %v", got)
	}
}

// TestKnowledgeOfControllers holds that a controller whose deliveries are recorded is judged by what it had received.
func TestKnowledgeOfControllers(t *testing.T) {
	tests := []struct {
		name string
		past *past
		lag  time.Duration // of every delivery
		want int
	}{
		{"what others took, received long ago, counts", running(2, 0, 1, 1).fail("a", "1").rest(9).update("a", "2"), 0, 1},
		{"what others took just now does not", running(2, 0, 1, 1).fail("a", "1").update("a", "2"), 0, 0},
		{"nor what has not been received", running(2, 0, 1, 1).rest(60).fail("a", "1").rest(9).update("a", "2"),
			30 * time.Second, 0},
		{"a pod that came back counts no more",
			running(1, 0, 1, 1).fail("a", "1").ready("a", "1").rest(9).update("a", "2"), 0, 0},
		{"and is there when it is not known that it was away",
			running(1, 0, 1, 1).rest(60).fail("a", "1").ready("a", "1").rest(9).update("a", "2", "3"), 30 * time.Second, 1},
		{"a pod that became available just now may be taken as one that is not",
			running(0, 0, 0, 0).rest(60).fail("a", "1").ready("a", "1").rest(4).update("a", "1"), 30 * time.Second, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewChecker(func(version uint64, by time.Time) bool {
				return !dawn.Add(time.Duration(version)*time.Second + tt.lag).After(by)
			})
			for i := range tt.past.log {
				if cell := tt.past.log[i].Cell; cell != nil {
					cell.Of = Place{} // no limits over several cells
				}
				if e := &tt.past.log[i]; e.Pod != nil {
					e.Asked = e.At
				}
			}
			half := len(tt.past.log) / 2
			c.Take(tt.past.log[:half], nil)
			c.Take(tt.past.log[half:], nil)
			if len(c.Violations) != tt.want {
				t.Errorf("%d violations, want %d: %v\n%s", len(c.Violations), tt.want, c.Violations, FormatLog(tt.past.log))
			}
		})
	}
}
