package ordinals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembersGetRangesInOrder(t *testing.T) {
	var l Ledger
	got := l.Assign([]Demand{{"east", 0, 3}, {"south", 0, 1200}, {"west", 0, 0}}, nil)
	want := Ledger{Next: 4000, Blocks: []Block{
		{Cluster: "east", Ranges: []Range{{0, 999}}},
		{Cluster: "south", Ranges: []Range{{1000, 2999}}},
		{Cluster: "west", Ranges: []Range{{3000, 3999}}},
	}}
	if diff := cmp.Diff(want, got.Ledger); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestReservedOrdinalsMakeRoomElsewhere(t *testing.T) {
	var l Ledger
	got := l.Assign([]Demand{{"east", 0, 999}}, []Range{{3, 4}, {5000, 6000}})
	want := []Range{{0, 1999}}
	if diff := cmp.Diff(want, got.Ledger.Ranges("east")); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestReplacementsTakeOverTheOrdinalsOfAFencedMember(t *testing.T) {
	var l Ledger
	l = l.Assign([]Demand{{"east", 0, 3}, {"south", 0, 3}, {"west", 0, 2}}, nil).Ledger
	for _, c := range []struct {
		name    string
		lost    string
		demands []Demand
		want    map[string][]Range // what each member runs
	}{
		{
			"lower ordinals", "east", []Demand{{"south", 3, 5}, {"west", 2, 3}},
			map[string][]Range{"south": {{0, 1}, {1000, 1002}}, "west": {{2, 2}, {2000, 2001}}},
		},
		{
			"higher ordinals", "west", []Demand{{"east", 3, 4}, {"south", 3, 4}},
			map[string][]Range{"east": {{0, 2}, {2000, 2000}}, "south": {{1000, 1002}, {2001, 2001}}},
		},
		{
			"more than the fenced member ran", "west", []Demand{{"east", 3, 7}, {"south", 3, 3}},
			map[string][]Range{"east": {{0, 4}, {2000, 2001}}, "south": {{1000, 1002}}},
		},
		{
			"a new member", "west", []Demand{{"north", 0, 2}},
			map[string][]Range{"north": {{2000, 2001}}, "east": {{0, 2}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			had := map[string]int32{"east": 3, "south": 3, "west": 2}
			fenced := l.Fence(c.lost, had[c.lost], nil)
			next := fenced.Assign(c.demands, nil).Ledger
			replicas := map[string]int32{"east": 3, "south": 3, "west": 2}
			for _, d := range c.demands {
				replicas[d.Cluster] = d.Replicas
			}
			for cluster, want := range c.want {
				if diff := cmp.Diff(want, Take(next.Ranges(cluster), nil, replicas[cluster])); diff != "" {
					t.Errorf("%s: want -, got +:\n%s", cluster, diff)
				}
			}
		})
	}
}

func TestOrdinalsWaitForAReplacement(t *testing.T) {
	var l Ledger
	l = l.Assign([]Demand{{"east", 0, 3}, {"south", 0, 1}}, nil).Ledger
	l = l.Fence("east", 3, nil)
	l = l.Assign([]Demand{{"south", 1, 1}}, nil).Ledger
	l = l.Assign([]Demand{{"south", 1, 2}}, nil).Ledger
	if diff := cmp.Diff([]Range{{0, 0}, {1000, 1000}}, Take(l.Ranges("south"), nil, 2)); diff != "" {
		t.Errorf("south, want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff([]Range{{1, 2}}, l.Free); diff != "" {
		t.Errorf("free, want -, got +:\n%s", diff)
	}
	back := l.Assign([]Demand{{"east", 0, 1}}, nil)
	if diff := cmp.Diff(map[string][]Range{"east": {{1, 1}}}, back.TakenOver); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestNoMoreOrdinals(t *testing.T) {
	l := Ledger{Next: math.MaxInt32 - Stride + 1}
	got := l.Assign([]Demand{{"east", 0, 1}}, nil)
	if diff := cmp.Diff([]string{"east"}, got.Full); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestRenderReservesGaps(t *testing.T) {
	got := Render([]Range{{1000, 1999}, {0, 2}}, []Range{{1, 1}, {1500, 2500}, {7, 8}}, 10)
	want := Rendered{Start: 10, Reserved: []Range{{11, 11}, {13, 1009}, {1510, 2009}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// rendered returns the ordinals that a member's controller makes pods of: the first n from start on that are not
// reserved.
func rendered(r Rendered, n int32) []int32 {
	var out []int32
	for o := r.Start; int32(len(out)) < n; o++ {
		if !slices.ContainsFunc(r.Reserved, func(gap Range) bool { return gap.Start <= o && o <= gap.End }) {
			out = append(out, o)
		}
	}
	return out
}

func TestProperties(t *testing.T) {
	for seed := range uint64(300) {
		if err := world(rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// world scales, fences and returns members at random. At no time do two members run one ordinal, no running pod gets
// another name, and what a fenced member ran goes on elsewhere.
func world(r *rand.Rand) error {
	clusters := []string{"a", "b", "c", "d", "e"}[:2+r.IntN(4)]
	replicas := map[string]int32{}
	var l Ledger
	var reserved []Range
	for range r.IntN(4) {
		start := r.Int32N(3000)
		reserved = append(reserved, Range{start, start + r.Int32N(40)})
	}
	for step := range 30 {
		before := runs(&l, reserved, replicas)
		lost := ""
		if r.IntN(4) == 0 {
			lost = clusters[r.IntN(len(clusters))]
			l = l.Fence(lost, replicas[lost], reserved)
			replicas[lost] = 0
		}
		var demands []Demand
		for _, i := range r.Perm(len(clusters)) {
			d := Demand{clusters[i], replicas[clusters[i]], r.Int32N(8)}
			if r.IntN(10) == 0 {
				d.Replicas = r.Int32N(2500)
			}
			demands = append(demands, d)
			replicas[d.Cluster] = d.Replicas
		}
		next := l.Assign(demands, reserved)
		if len(next.Full) > 0 {
			return fmt.Errorf("step %d: %v lack ordinals", step, next.Full)
		}
		if again := next.Ledger.Assign(demandsAtRest(demands), reserved); !cmp.Equal(again.Ledger, next.Ledger) {
			return fmt.Errorf("step %d: a second assignment changes %s", step, cmp.Diff(next.Ledger, again.Ledger))
		}
		l = next.Ledger
		after := runs(&l, reserved, replicas)
		owner := map[int32]string{}
		for cluster, ordinals := range after {
			if int32(len(ordinals)) != replicas[cluster] {
				return fmt.Errorf("step %d: %s runs %d pods, not %d", step, cluster, len(ordinals), replicas[cluster])
			}
			for _, o := range ordinals {
				if owner[o] != "" {
					return fmt.Errorf("step %d: %s and %s run %d", step, owner[o], cluster, o)
				}
				owner[o] = cluster
			}
		}
		for cluster, ordinals := range before {
			if cluster == lost {
				continue
			}
			common := min(len(ordinals), len(after[cluster]))
			for _, o := range ordinals {
				if len(after[cluster]) >= len(ordinals) && owner[o] != cluster {
					return fmt.Errorf("step %d: %s ran %d and keeps %d pods, but not that one", step, cluster, o, common)
				}
				if owner[o] != "" && owner[o] != cluster {
					return fmt.Errorf("step %d: %d goes from %s to %s, which was not fenced", step, o, cluster, owner[o])
				}
			}
		}
	}
	return nil
}

func demandsAtRest(demands []Demand) []Demand {
	out := slices.Clone(demands)
	for i := range out {
		out[i].Had = out[i].Replicas
	}
	return out
}

// runs returns the ordinals that each member runs by its manifest.
func runs(l *Ledger, reserved []Range, replicas map[string]int32) map[string][]int32 {
	out := map[string][]int32{}
	for _, b := range l.Blocks {
		if n := replicas[b.Cluster]; n > 0 {
			out[b.Cluster] = rendered(Render(b.Ranges, reserved, 0), n)
		}
	}
	return out
}
