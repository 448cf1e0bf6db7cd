package failover

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// cells reads "a:4>0/4~ b:4>6/4": key, order > wanted number / available pods; then "~" for gradual, "!" for lost, "?"
// for silent, "+2" for two more pods than available, "^1" for what a rollout may break.
func cells(text string) []Cell {
	var out []Cell
	for _, part := range strings.Fields(text) {
		c := Cell{}
		var flags string
		key, rest, _ := strings.Cut(part, ":")
		c.Key = key
		fmt.Sscanf(rest, "%d>%d/%d%s", &c.Have, &c.Want, &c.Available, &flags)
		c.Total = c.Available
		for flags != "" {
			var n int32
			switch flags[0] {
			case '~':
				c.Gradual = true
			case '!':
				c.Lost = true
			case '?':
				c.Silent = true
			case '+':
				fmt.Sscanf(flags[1:], "%d", &n)
				c.Total += n
				flags = flags[1:]
			case '^':
				fmt.Sscanf(flags[1:], "%d", &n)
				c.MayDisrupt = n
				flags = flags[1:]
			}
			flags = flags[1:]
		}
		out = append(out, c)
	}
	return out
}

func showOrders(cells []Cell, orders []Order) string {
	var parts []string
	for i, o := range orders {
		text := fmt.Sprintf("%s:%d", cells[i].Key, o.Replicas)
		if o.Replaced > 0 {
			text += fmt.Sprintf("-%d", o.Replaced)
		}
		if o.Waits > 0 {
			text += fmt.Sprintf("+%d", o.Waits)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestMove(t *testing.T) {
	for _, tc := range []struct {
		reason, cells string
		limits        Limits
		want          string
	}{
		{"nothing moves", "a:4>4/4 b:4>4/4", Limits{1, 0, false}, "a:4 b:4"},
		{"a scale is no move", "a:4>6/4 b:4>2/4", Limits{1, 0, false}, "a:6 b:2"},
		{"a drain with a surge starts replacements first", "a:4>0/4~ b:4>6/4 c:4>6/4", Limits{0, 1, false},
			"a:4-4 b:5+1 c:4+2"},
		{"a surge for all of them", "a:4>0/4~ b:4>6/4 c:4>6/4", Limits{2, 4, false}, "a:4-4 b:6 c:6"},
		{"one replacement is available: one goes", "a:4>0/4~ b:5>6/5 c:4>6/4", Limits{0, 1, false}, "a:3-3 b:5+1 c:4+2"},
		{"it is gone: the next starts", "a:3>0/3~ b:5>6/5 c:4>6/4", Limits{0, 1, false}, "a:3-3 b:5+1 c:5+1"},
		{"a drain without a surge stops some first", "a:4>0/4~ b:4>6/4 c:4>6/4", Limits{1, 0, false}, "a:3-3 b:4+2 c:4+2"},
		{"they are gone: replacements start", "a:3>0/3~ b:4>6/4 c:4>6/4", Limits{1, 0, false}, "a:3-3 b:5+1 c:4+2"},
		{"pods that are still there count", "a:3>0/3~+1 b:4>6/4 c:4>6/4", Limits{1, 0, false}, "a:3-3 b:4+2 c:4+2"},
		{"a pod that is broken elsewhere holds one back", "a:4>0/4~ b:6>6/5+1 c:6>6/6", Limits{0, 2, false}, "a:1-1 b:6 c:6"},
		{"a limit of zero and zero is one of surge", "a:1>0/1~ b:0>1/0", Limits{0, 0, false}, "a:1-1 b:1"},
		{"the last copy stays while nothing replaces it", "a:1>0/1~ b:0>1/0", Limits{1, 0, false}, "a:1-1 b:1"},
		{"and goes when something does", "a:1>0/1~ b:1>1/1", Limits{1, 0, false}, "a:0 b:1"},
		{"no twin: the last copy goes first", "a:1>0/1~ b:0>1/0", Limits{1, 0, true}, "a:0 b:0+1"},
		{"no twin: the replacement waits for it to be gone", "a:0>0/0~+1 b:0>1/0", Limits{1, 0, true}, "a:0 b:0+1"},
		{"no twin: it is gone", "a:0>0/0~ b:0>1/0", Limits{1, 0, true}, "a:0 b:1"},
		{"a lost member's order stays, and its replicas run elsewhere at once", "a:4>0/4! b:4>6/4 c:4>6/4",
			Limits{1, 0, false}, "a:4-4 b:6 c:6"},
		{"as far as others have room", "a:4>2/4! b:4>5/4 c:4>5/4", Limits{1, 0, false}, "a:4-2 b:5 c:5"},
		{"a returned member keeps its pods until the others are available", "a:4>0/4~ b:6>6/4+2 c:6>6/4+2",
			Limits{0, 1, false}, "a:4-4 b:6 c:6"},
		{"but for what may be missing", "a:4>0/4~ b:6>6/4+2 c:6>6/4+2", Limits{1, 0, false}, "a:3-3 b:6 c:6"},
		{"they are available", "a:4>0/4~ b:6>6/6 c:6>6/6", Limits{1, 0, false}, "a:0 b:6 c:6"},
		{"what a rollout may take is kept", "a:4>0/4~ b:6>6/6^2 c:6>6/6", Limits{1, 0, false}, "a:1-1 b:6 c:6"},
		{"scaled to zero: all goes, also where nobody answers", "a:4>0/4! b:4>0/4~ c:4>0/4?", Limits{1, 0, false},
			"a:0 b:0 c:0"},
		{"scaled down in the middle of a drain: what is enough elsewhere is enough", "a:4>0/4~ b:4>2/4 c:4>2/4",
			Limits{0, 1, false}, "a:0 b:2 c:2"},
		{"scaled up in the middle of a drain", "a:4>0/4~ b:4>8/4 c:4>8/4", Limits{0, 1, false}, "a:4-4 b:7+1 c:6+2"},
		{"a second drain while pods of the first start: what is available stays", "a:4>0/4~ b:5>0/4+1~ c:4>12/4",
			Limits{0, 1, false}, "a:4-4 b:4-4 c:4+8"},
		{"also without a surge", "a:3>0/3~ b:5>0/4+1~ c:4>12/4", Limits{1, 0, false}, "a:3-3 b:4-4 c:4+8"},
		{"what starts there stays where the surge has room for more", "a:4>0/4~ b:5>0/4+1~ c:4>12/4", Limits{0, 2, false},
			"a:4-4 b:5-5 c:5+7"},
		{"and what is broken goes first", "a:4>0/4~ z:4>0/0+4~ c:4>12/4", Limits{0, 1, false}, "a:4-4 z:4-4 c:5+7"},
		{"pods that a rollout added leave no room for others", "a:4>0/4~ b:4>6/4+1 c:4>6/4", Limits{0, 1, false},
			"a:4-4 b:4+2 c:4+2"},
		{"pods that were starting in a member that is not heard of any more stand in for nobody", "a:4>0/4~ b:4>4/0+4?",
			Limits{0, 4, false}, "a:4-4 b:4"},
		{"also where others are available", "a:4>0/4~ b:6>6/4+2? c:6>6/6", Limits{0, 4, false}, "a:2-2 b:6 c:6"},
		{"but for what may be missing", "a:4>0/4~ b:6>6/4+2? c:6>6/6", Limits{1, 0, false}, "a:1-1 b:6 c:6"},
		{"and those that were available there do", "a:4>0/4~ b:6>6/6? c:6>6/6", Limits{0, 4, false}, "a:0 b:6 c:6"},
		{"a silent member that others stand in for keeps its order", "a:4>0/4? b:6>6/6 c:6>6/6", Limits{1, 0, false},
			"a:0 b:6 c:6"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			in := cells(tc.cells)
			if got := showOrders(in, Move(in, tc.limits).Orders); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestASilentMemberKeepsWhatOthersStandInFor(t *testing.T) {
	in := cells("a:4>0/4? b:6>6/6 c:6>6/6")
	in[0].Replaced = 4
	if got := showOrders(in, Move(in, Limits{1, 0, false}).Orders); got != "a:4-4 b:6 c:6" {
		t.Errorf("got %s", got)
	}
}

// world plays members that carry out orders late, with pods that start late.
type world struct {
	r     *rand.Rand
	cells []Cell
	pods  [][]bool // of each cell: whether each pod is available
}

func newWorld(r *rand.Rand) *world {
	w := &world{r: r}
	var total int32
	for i := range 2 + r.IntN(4) {
		n := r.Int32N(6)
		w.cells = append(w.cells, Cell{Key: fmt.Sprintf("c%d", i), Have: n, Want: n})
		pods := make([]bool, n)
		for j := range pods {
			pods[j] = true
		}
		w.pods = append(w.pods, pods)
		total += n
	}
	if total == 0 {
		w.cells[0].Have, w.cells[0].Want, w.pods[0] = 1, 1, []bool{true}
	}
	// Some cells are left, and the others get what they have.
	leave := 1 + r.IntN(len(w.cells)-1)
	for i := range leave {
		c := &w.cells[i]
		c.Gradual = true
		for c.Want > 0 {
			c.Want--
			w.cells[leave+r.IntN(len(w.cells)-leave)].Want++
		}
	}
	return w
}

func (w *world) report() {
	for i := range w.cells {
		c := &w.cells[i]
		c.Total, c.Available = int32(len(w.pods[i])), 0
		for _, available := range w.pods[i] {
			if available {
				c.Available++
			}
		}
	}
}

func (w *world) count() (all, available int32) {
	for _, pods := range w.pods {
		all += int32(len(pods))
		for _, ok := range pods {
			if ok {
				available++
			}
		}
	}
	return all, available
}

// live lets one thing happen in one cell: a pod starts or gets available, or a pod too many goes, those that are not
// available first.
func (w *world) live() {
	i := w.r.IntN(len(w.cells))
	pods := w.pods[i]
	switch order := int(w.cells[i].Have); {
	case len(pods) > order:
		j := len(pods) - 1
		for k, available := range pods {
			if !available {
				j = k
			}
		}
		w.pods[i] = append(pods[:j:j], pods[j+1:]...)
	case len(pods) < order:
		w.pods[i] = append(pods, false)
	default:
		for k, available := range pods {
			if !available {
				pods[k] = true
				break
			}
		}
	}
}

// TestMoveHolds plays moves in worlds that lag, and checks at every moment: available pods and pods stay within the
// limits, a step from its own result changes nothing, and in the end everything is where it is to be.
func TestMoveHolds(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(r)
		all, _ := w.count()
		limits := Limits{Unavailable: r.Int32N(3), Surge: r.Int32N(3), NoTwin: r.IntN(4) == 0}
		least, most := all-limits.Unavailable, all+limits.Surge
		staying := false // pods are where they are to be
		for i := range w.cells {
			staying = staying || len(w.pods[i]) > 0 && w.cells[i].Want > 0
		}
		switch {
		case limits.NoTwin:
			least, most = all-max(limits.Unavailable, 1), all
		case limits.Surge > 0:
			least = all
		case limits.Unavailable == 0 || !staying:
			most++
		}
		if !limits.NoTwin {
			least = max(least, 1)
		}
		w.report()
		done := false
		for range 4000 {
			if r.IntN(3) == 0 {
				w.report()
			}
			moved := Move(w.cells, limits)
			for i, o := range moved.Orders {
				w.cells[i].Have, w.cells[i].Replaced = o.Replicas, o.Replaced
			}
			again := Move(w.cells, limits)
			if a, b := showOrders(w.cells, moved.Orders), showOrders(w.cells, again.Orders); a != b {
				t.Fatalf("seed %d: a step from its own result goes on: %s, then %s", seed, a, b)
			}
			w.live()
			pods, available := w.count()
			if available < least || pods > most {
				t.Fatalf("seed %d: %d available of %d pods, want at least %d and at most %d (%+v, %s)", seed, available, pods,
					least, most, limits, showOrders(w.cells, moved.Orders))
			}
			done = available == all && pods == all
			for i := range w.cells {
				done = done && w.cells[i].Have == w.cells[i].Want && len(w.pods[i]) == int(w.cells[i].Want)
			}
			if done {
				break
			}
		}
		if !done {
			t.Fatalf("seed %d: the move does not end: %+v", seed, w.cells)
		}
	}
}
