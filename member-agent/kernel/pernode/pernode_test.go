package pernode_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
)

// nodes returns nodes of these names that fit and are selected.
func nodes(names string) []pernode.Node {
	var out []pernode.Node
	for _, name := range strings.Fields(names) {
		out = append(out, pernode.Node{Name: name, ShouldRun: true, MayStay: true, Selected: true})
	}
	return out
}

// pods reads pods: the node and what they are: u(pdated), r(eady), a(vailable), i(n place), t(erminating), l(eaving),
// e(nded).
// A digit says how old the pod is: the highest is the oldest.
func pods(text string) []pernode.Pod {
	var out []pernode.Pod
	for i, word := range strings.Fields(text) {
		node, is, _ := strings.Cut(word, ":")
		pod := pernode.Pod{Name: fmt.Sprintf("%s-%d", node, i), Node: node, Created: time.Unix(100, 0)}
		for _, letter := range is {
			switch letter {
			case 'u':
				pod.Updated = true
			case 'a':
				pod.Ready, pod.Available = true, true
			case 'r':
				pod.Ready = true
			case 'i':
				pod.InPlace = true
			case 't':
				pod.Terminating = true
			case 'l':
				pod.Leaving = true
			case 'e':
				pod.Ended = true
			default:
				pod.Created = time.Unix(100-int64(letter-'0'), 0)
			}
		}
		out = append(out, pod)
	}
	return out
}

// show writes a plan: +node creates an updated pod, ~node one of the previous revision, -pod(cause) deletes, and pod!
// updates in place.
func show(p pernode.Plan) string {
	var words []string
	for _, c := range p.Create {
		words = append(words, map[bool]string{true: "+", false: "~"}[c.Updated]+c.Node)
	}
	for _, d := range p.Delete {
		words = append(words, "-"+d.Pod+"("+string(d.Cause)+")")
	}
	for _, pod := range p.InPlace {
		words = append(words, pod+"!")
	}
	return strings.Join(words, " ")
}

func open() pernode.Limits {
	return pernode.Limits{Updated: pernode.Unlimited, Unavailable: 1, Burst: pernode.Unlimited}
}

func TestDecide(t *testing.T) {
	limits := func(change func(*pernode.Limits)) pernode.Limits { l := open(); change(&l); return l }
	tests := []struct {
		why    string
		nodes  []pernode.Node
		pods   string
		limits pernode.Limits
		want   string
		held   map[pernode.Cause]int
	}{
		{"a pod on each node", nodes("a b"), "", open(), "+b +a", nil},
		{"nothing to do", nodes("a b"), "a:ua b:ua", open(), "", nil},
		{"no pod where none fits", []pernode.Node{{Name: "a"}}, "", open(), "", nil},
		{"a pod may stay where none would be created", []pernode.Node{{Name: "a", MayStay: true}}, "a:ua", open(), "", nil},
		{"and is not replaced there", []pernode.Node{{Name: "a", MayStay: true, Selected: true}}, "a:a", open(), "",
			map[pernode.Cause]int{pernode.DoesNotFit: 1}},
		{"but updated in place", []pernode.Node{{Name: "a", MayStay: true, Selected: true}}, "a:ai", open(), "a-0!", nil},
		{"a pod that may not stay", []pernode.Node{{Name: "a"}}, "a:ua", open(), "-a-0(DoesNotFit)", nil},
		{"a node that is gone", nil, "a:ua", open(), "-a-0(NodeGone)", nil},
		{"a terminating pod of a node that is gone", nil, "a:uat", open(), "", nil},
		{"nothing is created beside a terminating pod", nodes("a"), "a:ut", open(), "", nil},
		{"an ended pod is deleted first", nodes("a"), "a:ue", open(), "-a-0(Ended)", nil},
		{"the oldest of two pods stays", nodes("a"), "a:ua1 a:ua2", open(), "-a-0(Duplicate)", nil},
		{"an available pod stays before an older one", nodes("a"), "a:u2 a:ua1", open(), "-a-0(Duplicate)", nil},
		{"a pod that a hook holds is on its way out", nodes("a"), "a:ual", open(), "-a-0(Leaving)", nil},

		{"the highest name is updated first", nodes("b c a"), "a:a b:a c:a", open(), "-c-2(Outdated)",
			map[pernode.Cause]int{pernode.NoBudget: 2}},
		{"two at a time", nodes("a b c"), "a:a b:a c:a", limits(func(l *pernode.Limits) { l.Unavailable = 2 }),
			"-c-2(Outdated) -b-1(Outdated)", map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"an unavailable new pod uses the budget", nodes("a b"), "a:a b:u", open(), "",
			map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"an unavailable old pod needs no budget", nodes("a b"), "a: b:u", open(), "-a-0(Outdated)", nil},
		{"a node without a pod uses the budget", nodes("a b"), "a:a", open(), "+b",
			map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"a lost node does not", append(nodes("a"), pernode.Node{Name: "b", ShouldRun: true, MayStay: true, Lost: true}),
			"a:a b:u", open(), "-a-0(Outdated)", nil},
		{"a lost node is not updated",
			[]pernode.Node{{Name: "b", ShouldRun: true, MayStay: true, Selected: true, Lost: true}}, "b:", open(), "",
			map[pernode.Cause]int{pernode.NodeLost: 1}},
		{"in place", nodes("a b"), "a:ai b:ai", open(), "b-1!", map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"a partition", nodes("a b c"), "a:a b:a c:ua", limits(func(l *pernode.Limits) { l.Updated = 1 }), "",
			map[pernode.Cause]int{pernode.Partition: 2}},
		{"a node outside of the selector", []pernode.Node{{Name: "a", ShouldRun: true, MayStay: true}}, "a:a", open(), "",
			map[pernode.Cause]int{pernode.NotSelected: 1}},
		{"paused", nodes("a b"), "a:a", limits(func(l *pernode.Limits) { l.Paused = true }), "~b",
			map[pernode.Cause]int{pernode.Paused: 1}},
		{"updates by hand", nodes("a b"), "a:a", limits(func(l *pernode.Limits) { l.Manual = true }), "+b",
			map[pernode.Cause]int{pernode.OnDelete: 1}},
		{"limits of 0 and 0 update what is unavailable", nodes("a b"), "a:a b:",
			limits(func(l *pernode.Limits) { l.Unavailable = 0 }), "-b-1(Outdated)", map[pernode.Cause]int{pernode.NoBudget: 1}},

		{"a new node gets the previous revision above the partition", nodes("a b c"), "b:a c:ua",
			limits(func(l *pernode.Limits) { l.Updated = 1 }), "~a", map[pernode.Cause]int{pernode.Partition: 1}},
		{"it gets nothing with partitioned scaling", nodes("a b c"), "b:a c:ua",
			limits(func(l *pernode.Limits) { l.Updated = 1; l.OnlyUpdated = true }), "",
			map[pernode.Cause]int{pernode.Partition: 1, pernode.NotCreatable: 1}},
		{"where it does not count as unavailable",
			append(nodes("a"), pernode.Node{Name: "b", ShouldRun: true, MayStay: true}), "a:a",
			limits(func(l *pernode.Limits) { l.OnlyUpdated = true }), "-a-0(Outdated)",
			map[pernode.Cause]int{pernode.NotCreatable: 1}},
		{"a node whose pod goes away keeps its part", nodes("a b"), "a:a b:at",
			limits(func(l *pernode.Limits) { l.Updated = 1; l.Unavailable = 2 }), "",
			map[pernode.Cause]int{pernode.Partition: 1}},

		{"surge creates beside the old pod", nodes("a b"), "a:a b:a",
			limits(func(l *pernode.Limits) { l.Surge, l.Unavailable = 1, 0 }), "+b",
			map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"the old pod goes when the new one is available", nodes("a b"), "a:a b:a b:ua",
			limits(func(l *pernode.Limits) { l.Surge, l.Unavailable = 1, 0 }), "-b-1(Outdated)",
			map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"and waits until then", nodes("a b"), "a:a b:a b:u",
			limits(func(l *pernode.Limits) { l.Surge, l.Unavailable = 1, 0 }), "",
			map[pernode.Cause]int{pernode.NoBudget: 1}},
		{"an unavailable old pod is replaced beside the surge", nodes("a b"), "a: b:a b:u",
			limits(func(l *pernode.Limits) { l.Surge, l.Unavailable = 1, 0 }), "+a", nil},
		{"surge is turned off while a new pod waits for a port", nodes("a"), "a:a a:u", open(), "-a-0(Outdated)", nil},
		{"a burst", nodes("a b c"), "a:e", limits(func(l *pernode.Limits) { l.Burst = 1 }), "+c -a-0(Ended)",
			map[pernode.Cause]int{pernode.Burst: 1}},
		{"a burst of 0 holds", nodes("a"), "", limits(func(l *pernode.Limits) { l.Burst = 0 }), "",
			map[pernode.Cause]int{pernode.Burst: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			plan := pernode.Decide(pernode.Facts{Nodes: tt.nodes, Pods: pods(tt.pods), Limits: tt.limits, HasPrevious: true})
			if got := show(plan); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if len(plan.Held)+len(tt.held) > 0 && !reflect.DeepEqual(plan.Held, tt.held) {
				t.Errorf("held %v, want %v", plan.Held, tt.held)
			}
		})
	}
}

func TestEndedPodsWaitForTheirRetry(t *testing.T) {
	facts := pernode.Facts{Nodes: nodes("a b"), Pods: pods("a:ue b:ue"), Limits: open()}
	facts.Pods[0].RetryIn, facts.Pods[1].RetryIn = time.Minute, time.Second
	plan := pernode.Decide(facts)
	if got := show(plan); got != "" || plan.RetryIn != time.Second {
		t.Errorf("%s, again in %v; want nothing, and again in 1s", got, plan.RetryIn)
	}
}

func TestTheFirstRevisionHasNoPrevious(t *testing.T) {
	limits := open()
	limits.Updated = 1
	if got := show(pernode.Decide(pernode.Facts{Nodes: nodes("a b"), Limits: limits})); got != "+b +a" {
		t.Errorf("%s, want updated pods on both nodes", got)
	}
	limits.OnlyUpdated = true
	if got := show(pernode.Decide(pernode.Facts{Nodes: nodes("a b"), Limits: limits})); got != "+b" {
		t.Errorf("%s, want a pod on the node that the partition leaves", got)
	}
}

func TestCounts(t *testing.T) {
	list := append(nodes("a b c d"), pernode.Node{Name: "e"}, pernode.Node{Name: "f", MayStay: true},
		pernode.Node{Name: "g", ShouldRun: true, MayStay: true, Selected: true, Lost: true})
	on := pods("a:ua b:a c:ur e:a f:a g:")
	got := pernode.Decide(pernode.Facts{Nodes: list, Pods: on, Limits: open()}).Counts
	if want := (pernode.Counts{Desired: 6, Current: 5, Ready: 4, Available: 3, Updated: 2, UpdatedAvailable: 1,
		Updatable: 5, LostUnavailable: 1, LostOutdated: 1, Misscheduled: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := pernode.Desired(list, on); n != got.Desired {
		t.Errorf("%d nodes are desired before the decision, %d in it", n, got.Desired)
	}
}

// world is a cluster whose pods follow plans some time later.
type world struct {
	*rand.Rand
	facts pernode.Facts
	made  int
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 7))}
	for i := range 1 + w.IntN(8) {
		w.facts.Nodes = append(w.facts.Nodes, pernode.Node{Name: string(rune('a' + i)), ShouldRun: true, MayStay: true,
			Selected: w.IntN(5) > 0})
	}
	w.facts.HasPrevious = w.IntN(4) > 0
	w.facts.Limits = pernode.Limits{Updated: w.IntN(10), Burst: 1 + w.IntN(4), OnlyUpdated: w.IntN(6) == 0}
	if w.IntN(2) == 0 {
		w.facts.Limits.Surge = 1 + w.IntN(3)
	} else {
		w.facts.Limits.Unavailable = 1 + w.IntN(3)
	}
	for _, n := range w.facts.Nodes {
		if w.IntN(3) > 0 {
			w.add(n.Name, false)
			w.facts.Pods[len(w.facts.Pods)-1].Available = w.IntN(4) > 0
		}
	}
	return w
}

func (w *world) add(node string, updated bool) {
	w.made++
	w.facts.Pods = append(w.facts.Pods, pernode.Pod{Name: fmt.Sprintf("%s-%d", node, w.made), Node: node,
		Created: time.Unix(int64(w.made), 0), Updated: updated, InPlace: w.IntN(2) == 0})
}

// apply carries out a plan.
func (w *world) apply(p pernode.Plan) {
	for _, c := range p.Create {
		w.add(c.Node, c.Updated)
	}
	for i := range w.facts.Pods {
		pod := &w.facts.Pods[i]
		for _, d := range p.Delete {
			if d.Pod == pod.Name {
				pod.Terminating, pod.Available = true, false
			}
		}
		if slices.Contains(p.InPlace, pod.Name) {
			pod.Updated, pod.Available = true, false
		}
	}
}

// happen has pods become available, end or vanish, and nodes change unless the world calms down.
func (w *world) happen(calm bool) {
	w.facts.Pods = slices.DeleteFunc(w.facts.Pods, func(p pernode.Pod) bool {
		return p.Terminating && (calm || w.IntN(2) == 0)
	})
	for i := range w.facts.Pods {
		pod := &w.facts.Pods[i]
		switch {
		case pod.Terminating:
		case calm || w.IntN(2) == 0:
			pod.Available = !pod.Ended
		case w.IntN(8) == 0:
			pod.Available, pod.Ended = false, w.IntN(2) == 0
		}
	}
	for i := range w.facts.Nodes {
		n := &w.facts.Nodes[i]
		n.Lost = n.Lost && !calm
		if !calm && w.IntN(20) == 0 {
			n.ShouldRun = w.IntN(3) > 0
			n.MayStay = n.ShouldRun || w.IntN(2) == 0
			n.Lost = w.IntN(3) == 0
		}
	}
	pods, nodes := w.facts.Pods, w.facts.Nodes
	w.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	w.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
}

// use is how far a world uses its limits: nodes that are unavailable, have two pods of which the old one is available,
// and have the new revision.
type use struct{ unavailable, surge, updated int }

func (w *world) use() use {
	var u use
	for _, n := range w.facts.Nodes {
		var available, old, updated, any bool
		for _, p := range w.facts.Pods {
			if p.Node != n.Name {
				continue
			}
			any = true
			if p.Terminating || p.Ended {
				continue
			}
			available = available || p.Available
			old, updated = old || !p.Updated && p.Available, updated || p.Updated
		}
		// With partitioned scaling a node may lack a pod by choice.
		desired := n.ShouldRun && (any || !w.facts.Limits.OnlyUpdated) || n.MayStay && any
		if desired && !available && !n.Lost {
			u.unavailable++
		}
		if old && updated && !n.Lost && (n.ShouldRun || n.MayStay) {
			u.surge++
		}
		if updated && (n.ShouldRun || n.MayStay) {
			u.updated++
		}
	}
	return u
}

// creations returns how many nodes the plan gave their only pod.
func (w *world) creations(plan pernode.Plan) (n int) {
	on := map[string]int{}
	for _, p := range w.facts.Pods {
		on[p.Node]++
	}
	for _, c := range plan.Create {
		if on[c.Node] == 1 {
			n++
		}
	}
	return n
}

// TestPlansStayWithinLimits checks each decision over random worlds: it never raises what exceeds a limit, and what it
// decides does not depend on the order of its facts.
func TestPlansStayWithinLimits(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(seed)
		for step := range 40 {
			w.happen(false)
			plan := pernode.Decide(w.facts)
			again := w.facts
			again.Nodes, again.Pods = slices.Clone(w.facts.Nodes), slices.Clone(w.facts.Pods)
			slices.Reverse(again.Nodes)
			slices.Reverse(again.Pods)
			if !reflect.DeepEqual(plan, pernode.Decide(again)) {
				t.Fatalf("seed %d, step %d: the order of the facts changes the plan", seed, step)
			}
			before := w.use()
			w.apply(plan)
			after, limits := w.use(), w.facts.Limits
			if limits.OnlyUpdated {
				// Nodes without a pod are not counted then, until they get one.
				after.unavailable -= w.creations(plan)
			}
			if after.unavailable > max(before.unavailable, limits.Unavailable) {
				t.Fatalf("seed %d, step %d: %d nodes unavailable, before %d, limit %d: %s", seed, step, after.unavailable,
					before.unavailable, limits.Unavailable, show(plan))
			}
			if after.surge > max(before.surge, limits.Surge) {
				t.Fatalf("seed %d, step %d: surge %d, before %d, limit %d: %s", seed, step, after.surge, before.surge,
					limits.Surge, show(plan))
			}
			if w.facts.HasPrevious && after.updated > max(before.updated, limits.Updated) {
				t.Fatalf("seed %d, step %d: %d nodes updated, before %d, limit %d: %s", seed, step, after.updated,
					before.updated, limits.Updated, show(plan))
			}
			if len(plan.Create) > limits.Burst || len(plan.Delete) > limits.Burst {
				t.Fatalf("seed %d, step %d: more than %d at once: %s", seed, step, limits.Burst, show(plan))
			}
		}
	}
}

// TestPlansConverge lets random worlds calm down: then each node that fits has one pod, and as many selected nodes as
// the limits allow have the new revision.
func TestPlansConverge(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(seed)
		for range w.IntN(30) {
			w.happen(false)
			w.apply(pernode.Decide(w.facts))
		}
		idle := 0
		for step := 0; idle < 2; step++ {
			if step > 200 {
				t.Fatalf("seed %d never comes to rest", seed)
			}
			w.happen(true)
			plan := pernode.Decide(w.facts)
			if show(plan) == "" {
				idle++
			}
			w.apply(plan)
		}
		var updated, eligible, missing int
		for _, n := range w.facts.Nodes {
			var on []pernode.Pod
			for _, p := range w.facts.Pods {
				if p.Node == n.Name {
					on = append(on, p)
				}
			}
			switch {
			case len(on) > 1:
				t.Fatalf("seed %d: %d pods on node %s", seed, len(on), n.Name)
			case len(on) == 0 && n.ShouldRun:
				missing++
			case len(on) == 1 && !n.ShouldRun && !n.MayStay:
				t.Fatalf("seed %d: a pod on node %s, where none may stay", seed, n.Name)
			case len(on) == 1 && on[0].Updated:
				updated++
			case n.Selected && len(on) == 1 && (n.ShouldRun || on[0].InPlace && w.facts.Limits.Surge == 0):
				eligible++
			}
		}
		if missing > 0 && !w.facts.Limits.OnlyUpdated {
			t.Fatalf("seed %d: %d nodes have no pod", seed, missing)
		}
		if eligible > 0 && updated < w.facts.Limits.Updated {
			t.Fatalf("seed %d: %d nodes are updated, %d more could be, and %d may; %+v %+v", seed, updated, eligible,
				w.facts.Limits.Updated, w.facts, pernode.Decide(w.facts))
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	var facts pernode.Facts
	for i := range 1000 {
		name := fmt.Sprintf("node-%04d", i)
		facts.Nodes = append(facts.Nodes, pernode.Node{Name: name, ShouldRun: true, MayStay: true, Selected: true})
		facts.Pods = append(facts.Pods, pernode.Pod{Name: name + "-pod", Node: name, Updated: i%2 == 0, Available: true})
	}
	facts.Limits = open()
	for b.Loop() {
		pernode.Decide(facts)
	}
}
