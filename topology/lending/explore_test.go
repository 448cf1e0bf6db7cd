package lending

import (
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	deep  = flag.Bool("deep", false, "explore the larger models too: minutes and gigabytes")
	walks = flag.Int("walks", 400, "number of random walks through models that are too large to explore")
)

// exploration is every state that a model can come to.
type exploration struct {
	model  *model
	start  state
	known  map[[2]uint64]int32
	parent []int32
	action []uint16 // which step of its parent
	// edges of the states, one after another, and where those of each begin
	edges []int32
	first []int32
	rest  []int32
}

// finding is what is wrong, and how it comes about.
type finding struct {
	what string
	at   int32
}

// explore visits every state, breadth first, so that a finding comes about in the fewest steps. It ends at the first
// one, and at the limit, which is then reported as not exhausted.
func explore(m *model, start state, limit int) (e *exploration, found *finding, exhausted bool) {
	m.memo = map[lendKey][]Grant{}
	e = &exploration{model: m, start: start, known: map[[2]uint64]int32{}}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	frontier := []state{}
	// Two hashes of 64 bits stand for a state: among ten million, one in 10^24 is mistaken for another.
	visit := func(s *state, parent int32, action int) int32 {
		key := [2]uint64{maphash.Comparable(seeds[0], *s), maphash.Comparable(seeds[1], *s)}
		if id, ok := e.known[key]; ok {
			return id
		}
		id := int32(len(e.parent))
		e.known[key] = id
		e.parent, e.action = append(e.parent, parent), append(e.action, uint16(action))
		frontier = append(frontier, *s)
		return id
	}
	m.normalise(&start)
	e.start = start
	visit(&start, -1, 0)
	for id := int32(0); len(frontier) > 0; id++ {
		s := frontier[0]
		frontier = frontier[1:]
		e.first = append(e.first, int32(len(e.edges)))
		if what := m.wrong(&s); what != "" {
			return e, &finding{what, id}, false
		}
		steps := m.next(&s)
		if rest, good := m.atRest(&s, steps); rest {
			if !good {
				return e, &finding{"never done: nobody has anything to do, and the pods are not what the user wants", id}, false
			}
			e.rest = append(e.rest, id)
		}
		for n := range steps {
			e.edges = append(e.edges, visit(&steps[n].to, id, n))
		}
		if len(e.parent) > limit {
			return e, nil, false
		}
	}
	e.first = append(e.first, int32(len(e.edges)))
	if at, ok := e.trapped(); ok {
		return e, &finding{"never done: no state of rest can be reached", at}, true
	}
	return e, nil, true
}

// trapped returns a state from which never done: no state of rest can be reached.
func (e *exploration) trapped() (int32, bool) {
	n := len(e.parent)
	count := make([]int32, n+1)
	for _, to := range e.edges {
		count[to+1]++
	}
	for i := range n {
		count[i+1] += count[i]
	}
	from, at := make([]int32, len(e.edges)), append([]int32(nil), count[:n]...)
	for id := range n {
		for _, to := range e.edges[e.first[id]:e.first[id+1]] {
			from[at[to]] = int32(id)
			at[to]++
		}
	}
	reaches := make([]bool, n)
	queue := append([]int32(nil), e.rest...)
	for _, id := range queue {
		reaches[id] = true
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		for _, before := range from[count[id]:count[id+1]] {
			if !reaches[before] {
				reaches[before] = true
				queue = append(queue, before)
			}
		}
	}
	for id, ok := range reaches {
		if !ok {
			return int32(id), true
		}
	}
	return 0, false
}

// story tells the steps to a state.
func (e *exploration) story(id int32) string {
	var path []uint16
	for ; id > 0; id = e.parent[id] {
		path = append(path, e.action[id])
	}
	var b strings.Builder
	s := e.start
	for i := len(path) - 1; i >= 0; i-- {
		next := e.model.next(&s)[path[i]]
		fmt.Fprintf(&b, "  %s %d\n", next.what, next.i)
		s = next.to
	}
	for i := range e.model.replicas {
		fmt.Fprintf(&b, "  cell %d: %+v\n    works %+v, member %+v\n", i, s.cells[i], s.works[i], s.members[i])
	}
	return b.String()
}

// scenario is what is explored: how often the user and chance may interfere, and what the user may want.
type scenario struct {
	name            string
	replicas        []int8
	globals         []dose
	changes, faults int8
	template        bool // the user may change the template
	deep            bool
}

func (sc *scenario) model(omit without) *model {
	m := &model{replicas: sc.replicas, globals: sc.globals, template: sc.template, omit: omit, memo: map[lendKey][]Grant{}}
	for i := range sc.replicas {
		m.keys = append(m.keys, fmt.Sprint("m", i))
	}
	return m
}

// scenarios are what is explored; the deep ones are large. The first of globals is what the user begins with.
func scenarios() []scenario {
	return []scenario{
		{name: "two cells, one may break, a member is cut off", replicas: []int8{2, 1}, globals: []dose{{3, 1, 0}},
			faults: 1},
		{name: "two cells, a surge, a member is cut off", replicas: []int8{1, 1}, globals: []dose{{2, 0, 1}}, faults: 1},
		{name: "two cells, limits go down and up", replicas: []int8{1, 1}, globals: []dose{{2, 2, 0}, {1, 1, 0}}, changes: 2,
			deep: true},
		{name: "two cells, limits go down, a member is cut off", replicas: []int8{1, 1},
			globals: []dose{{2, 1, 0}, {1, 1, 0}}, changes: 1, faults: 1, deep: true},
		{name: "two cells, another template", replicas: []int8{2, 1}, globals: []dose{{3, 1, 0}, {1, 1, 0}}, changes: 2,
			template: true, deep: true},
		{name: "three cells, a canary", replicas: []int8{1, 1, 1}, globals: []dose{{1, 1, 0}, {3, 1, 0}}, changes: 1},
		{name: "three cells, a member is cut off", replicas: []int8{1, 1, 1}, globals: []dose{{3, 1, 0}}, faults: 1},
		{name: "two cells, limits go down", replicas: []int8{1, 1}, globals: []dose{{2, 2, 0}, {1, 1, 0}}, changes: 1},
		{name: "two cells, another template once", replicas: []int8{1, 1}, globals: []dose{{1, 1, 0}, {2, 1, 0}}, changes: 1,
			template: true},
		{name: "two cells of two, limits go down, a member is cut off", replicas: []int8{2, 2},
			globals: []dose{{4, 1, 0}, {2, 1, 0}}, changes: 1, faults: 1, deep: true},
		{name: "three cells of two, one may break", replicas: []int8{2, 2, 2}, globals: []dose{{2, 1, 0}}, deep: true},
		{name: "three cells, break and surge, a member is cut off", replicas: []int8{2, 1, 1},
			globals: []dose{{2, 1, 1}, {1, 1, 0}}, changes: 1, faults: 1, deep: true},
		{name: "two cells of two, limits go down", replicas: []int8{2, 2}, globals: []dose{{4, 1, 0}, {2, 1, 0}}, changes: 1},
	}
}

const (
	shallowLimit = 600_000
	deepLimit    = 12_000_000
)

// TestEveryState explores every state of small models: no limit is ever exceeded, and from each state one of rest can
// be reached, in which the pods are what the user wants.
func TestEveryState(t *testing.T) {
	total := 0
	for _, sc := range scenarios() {
		if sc.deep && !*deep {
			continue
		}
		limit := shallowLimit
		if sc.deep {
			limit = deepLimit
		}
		m := sc.model(nothing)
		e, found, exhausted := explore(m, m.start(sc.changes, sc.faults), limit)
		total += len(e.parent)
		t.Logf("%s: %d states, %d steps between them, %d of rest, exhausted %t", sc.name, len(e.parent), len(e.edges),
			len(e.rest), exhausted)
		switch {
		case found != nil:
			t.Errorf("%s: %s\n%s", sc.name, found.what, e.story(found.at))
		case !exhausted && !sc.deep:
			t.Errorf("%s: more than %d states", sc.name, limit)
		}
	}
	t.Logf("%d states in all", total)
}

// rules of the protocol, each with what goes wrong without it and the scenario in which it does. The package comment
// lists them.
func rules() []rule {
	return []rule{
		{"a grant is raised only by what nobody holds", "too many updated, too many down", lowerBeforeRaise, 2},
		{"reserved falls only on a report on the order", "too many updated, too many down", reportsOfTheOrder, 2},
		{"an older order is ignored", "too many updated, too many down", newestOrder, 2},
		{"the placement is written before the Works", "too many updated, too many down", placementFirst, 2},
		{"a new template begins with no permission to update", "too many updated", resetOfUpdate, 4},
		{"a member without contact disrupts nothing", "too many down", leaseOfMember, 6},
		{"the hub waits longer than the member", "too many down", leaseTwice, 6},
		{"a lost grant is lent again only when the lower order is written", "too many down", orderBeforeReclaim, 6},
		{"a member that is back follows what is written before it goes on", "too many down", orderBeforeResume, 6},
		{"a member that is back waits for the hub's answer", "too many down", answerBeforeResume, 6},
		{"what a lost member may have updated stays counted", "too many updated", updateStaysHeld, 3},
		{"a finished cell hands on", "never done", finishedHandOn, 5},
		{"cells that cannot go back keep their part first", "never done", stuckFirst, 12},
	}
}

type rule struct {
	text, wrong string
	omit        without
	scenario    int
}

// TestEveryRuleIsNeeded leaves out one rule after the other: each time the model finds what goes wrong. That older
// reports are ignored is not among them: what a member has in use cannot grow beyond the share of the order that its
// report names, so an older report on the same order says too much at worst. Nor are rules that only spare orders or
// moves.
func TestEveryRuleIsNeeded(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	// Blanks align the list; they are no part of it.
	lines := regexp.MustCompile(`[ \t]{2,}`).ReplaceAllString(string(doc), "  ")
	shown := map[without]bool{}
	for _, r := range rules() {
		shown[r.omit] = true
		t.Run(r.text, func(t *testing.T) {
			if !strings.Contains(lines, r.text+"  "+r.wrong+"\n") {
				t.Errorf("doc.go does not say %q beside this rule", r.wrong)
			}
			sc := scenarios()[r.scenario]
			m := sc.model(r.omit)
			e, found, exhausted := explore(m, m.start(sc.changes, sc.faults), shallowLimit)
			if found == nil {
				t.Fatalf("nothing goes wrong without it, in %d states, exhausted %t", len(e.parent), exhausted)
			}
			t.Logf("%d states: %s\n%s", len(e.parent), found.what, e.story(found.at))
			if what, _, _ := strings.Cut(found.what, ":"); what != r.wrong {
				t.Errorf("%q goes wrong without it, want %q", what, r.wrong)
			}
		})
	}
	for omit := nothing + 1; omit < endOfRules; omit++ {
		if !shown[omit] {
			t.Errorf("the model can leave out rule %d, and nothing shows what goes wrong then", omit)
		}
	}
}

// TestRandomWalks goes at random through models that are too large to explore, and then lets everything come to rest.
func TestRandomWalks(t *testing.T) {
	for seed := range *walks {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		k := 2 + random.IntN(cellsInModel-1)
		sc := scenario{template: true}
		total := int8(0)
		for range k {
			n := int8(random.IntN(5))
			sc.replicas, total = append(sc.replicas, n), total+n
		}
		for range 4 {
			g := dose{int8(random.IntN(int(total) + 1)), int8(random.IntN(3)), int8(random.IntN(2))}
			if g.break_+g.add == 0 {
				g.break_ = 1
			}
			sc.globals = append(sc.globals, g)
		}
		walk(t, seed, sc.model(nothing), random)
	}
}

// walk takes a few hundred steps with interference, and then goes on without until nothing is to be done.
func walk(t *testing.T, seed int, m *model, random *rand.Rand) {
	t.Helper()
	s := m.start(6, 4)
	m.normalise(&s)
	var story []string
	for n := range 20_000 {
		if what := m.wrong(&s); what != "" {
			t.Fatalf("seed %d: %s\n%s\n%+v", seed, what, strings.Join(story[max(0, len(story)-40):], "\n"), s)
		}
		if n == 400 {
			s.changes, s.faults = 0, 0
		}
		steps := m.next(&s)
		if rest, good := m.atRest(&s, steps); rest && n > 400 {
			if !good {
				t.Fatalf("seed %d: at rest, and the pods are not what the user wants\n%s\n%+v", seed,
					strings.Join(story[max(0, len(story)-40):], "\n"), s)
			}
			return
		}
		if len(steps) == 0 {
			return // nothing is to be done, for ever
		}
		next := steps[random.IntN(len(steps))]
		if (next.what == "cut" || strings.HasPrefix(next.what, "user")) && random.IntN(10) > 0 {
			continue
		}
		story = append(story, fmt.Sprint(next.what, " ", next.i))
		s = next.to
	}
	t.Fatalf("seed %d: never comes to rest\n%s\n%+v", seed, strings.Join(story[max(0, len(story)-60):], "\n"), s)
}
