package failover

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestClear tells what cells of a removed subset are told, and the parts that are left, separated by "|".
func TestClear(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		gone     string
		parts    string
		unplaced int32
		limits   Limits
		want     string
	}{
		{"with a surge one starts first", "x:4>0/4~", "y:4>8/4", 0, Limits{Surge: 1}, "x:4-4 | y:5+3"},
		{"one is available: one goes", "x:4>0/4~", "y:5>8/5", 0, Limits{Surge: 1}, "x:3-3 | y:5+3"},
		{"that is gone: the next starts", "x:3>0/3~", "y:5>8/5", 0, Limits{Surge: 1}, "x:3-3 | y:6+2"},
		{"without one two go first", "x:4>0/4~", "y:4>8/4", 0, Limits{Unavailable: 2}, "x:2-2 | y:4+4"},
		{"they are gone: two start", "x:2>0/2~", "y:4>8/4", 0, Limits{Unavailable: 2}, "x:2-2 | y:6+2"},
		{"without any limit one more is started", "x:4>0/4~", "y:4>8/4", 0, Limits{}, "x:4-4 | y:5+3"},
		{"all are available elsewhere", "x:4>0/4~", "y:8>8/8", 0, Limits{Unavailable: 2}, "x:0 | y:8"},
		{"scaled to zero", "x:4>0/4~", "y:4>0/4", 0, Limits{Unavailable: 2}, "x:0 | y:0"},
		{"nobody has a place for them", "x:4>0/4~", "y:4>4/4", 4, Limits{Unavailable: 2}, "x:2-2 | y:4"},
		{"what nobody has a place for stays, with a surge", "x:4>0/4~", "y:4>4/4", 4, Limits{Surge: 1}, "x:4-4 | y:4"},
		{"the last available copy stays", "x:1>0/1~", "y:0>1/0", 0, Limits{Unavailable: 3}, "x:1-1 | y:1"},
		{"with no twin it goes first", "x:1>0/1~", "y:0>1/0", 0, Limits{Surge: 3, NoTwin: true}, "x:0 | y:0+1"},
		{"what serves nobody goes first", "x:2>0/2~ z:2>0/0+2~", "y:6>8/6", 0, Limits{Surge: 1}, "x:2-2 z:0 | y:6+2"},
		{"a lost member is told nothing", "x:2>0/2! z:2>0/2~", "y:8>8/8", 0, Limits{Surge: 1}, "x:2-2 z:0 | y:8"},
		{"what a rollout there may take yet is kept", "x:4>0/4~^2", "y:8>8/8", 0, Limits{Surge: 1}, "x:2-2 | y:8"},
		{"pods that were starting in a member that is not heard of any more stand in for nobody", "x:4>0/4~",
			"y:4>4/1+3? z:4>4/4", 0, Limits{Surge: 1}, "x:3-3 | y:4 z:4"},
		{"a rollout elsewhere has limits of its own", "x:4>0/4~", "y:8>8/8^2", 0, Limits{Surge: 1}, "x:0 | y:8"},
		{"what a drain keeps is not kept twice", "x:4>0/4~", "y:4>8/4 w:2>0/2~", 0, Limits{Surge: 1}, "x:2-2 | y:4+4 w:2-2"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			gone, parts := cells(tc.gone), cells(tc.parts)
			part := Part{Cells: parts, Orders: Move(parts, tc.limits).Orders}
			orders := Clear(gone, []Part{part}, Rest{Unplaced: tc.unplaced}, tc.limits).Orders
			if got := showOrders(gone, orders) + " | " + showOrders(parts, part.Orders); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestClearHolds leaves subsets while others are drained, with pods that start and go slowly and reports that are late:
// what was available stays so within the limits, there are never more pods than replicas and surge, a step from its own
// result changes nothing, and in the end nothing is left.
func TestClearHolds(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 21))
		limits := Limits{Unavailable: r.Int32N(4), Surge: r.Int32N(3)}
		var all []Cell // the first ones are gone, the others are two parts
		count, first := 1+r.IntN(3), 1+r.IntN(2)
		var n, to int32
		for i := range count + first + 1 + r.IntN(2) {
			c := Cell{Key: fmt.Sprint(i), Have: r.Int32N(5)}
			c.Available, c.Total = c.Have, c.Have
			c.Gradual = i < count
			n += c.Have
			if !c.Gradual {
				c.Want, to = c.Have, int32(i)
			}
			all = append(all, c)
		}
		for i := range count {
			all[to].Want += all[i].Have
		}
		if drained := count + r.IntN(len(all)-count); drained != int(to) &&
			drained-count >= first == (int(to)-count >= first) {
			all[to].Want, all[drained].Want, all[drained].Gradual = all[to].Want+all[drained].Want, 0, true
		}
		surge, broken := limits.step()
		least := n - 2*broken // a drain of a part may take as many beside
		if broken > 0 {
			least = max(least, min(n, 1))
		}
		pods := make([][2]int32, len(all)) // available, total
		for i := range all {
			pods[i] = [2]int32{all[i].Have, all[i].Have}
		}
		for round := 0; ; round++ {
			if round == 3000 {
				t.Fatalf("seed %d: it does not come to rest: %+v %v", seed, all, pods)
			}
			for i := range all {
				all[i].Available, all[i].Total = pods[i][0], pods[i][1]
			}
			step := func() []Order {
				a, b := all[count:count+first], all[count+first:]
				parts := []Part{{a, Move(a, limits).Orders}, {b, Move(b, limits).Orders}}
				orders := Clear(all[:count], parts, Rest{}, limits).Orders
				return append(append(orders, parts[0].Orders...), parts[1].Orders...)
			}
			orders := step()
			for i := range all {
				all[i].Have, all[i].Replaced = orders[i].Replicas, orders[i].Replaced
			}
			if again := step(); showOrders(all, again) != showOrders(all, orders) {
				t.Fatalf("seed %d: %s, and again %s", seed, showOrders(all, orders), showOrders(all, again))
			}
			var available, total int32
			rest := true
			for i := range all {
				p := pods[i]
				for range r.IntN(3) {
					switch {
					case p[1] > orders[i].Replicas:
						p[1]--
						p[0] = min(p[0], p[1])
					case p[0] < p[1] && r.IntN(3) == 0:
						p[0]++
					case p[1] < orders[i].Replicas:
						p[1]++
					}
				}
				pods[i] = p
				available, total = available+p[0], total+p[1]
				rest = rest && p == [2]int32{all[i].Want, all[i].Want}
			}
			if available < least || total > n+max(surge, 1)*2 {
				t.Fatalf("seed %d, limits %+v: %d of %d are available, of %d: %s, %v", seed, limits, available, n, total,
					strings.TrimSpace(showOrders(all, orders)), pods)
			}
			if rest {
				break
			}
		}
	}
}
