package division

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// cellsOf reads cells as "region/zone/cluster=current", each followed by any of " w2" (weight), " max5", " min1",
// " room3", " frozen", and " avoid", " closed" or " leave" for taints; cells are divided by commas.
func cellsOf(t *testing.T, text string) []Cell {
	t.Helper()
	var cells []Cell
	for _, one := range strings.Split(text, ",") {
		words := strings.Fields(one)
		at, current, _ := strings.Cut(words[0], "=")
		path := strings.Split(at, "/")
		c := Cell{Cluster: path[len(path)-1], Weight: 1}
		if len(path) > 1 {
			c.Zone = path[len(path)-2]
		}
		if len(path) > 2 {
			c.Region = path[0]
		}
		scan := func(s string) (n int32) {
			if _, err := fmt.Sscan(s, &n); err != nil {
				t.Fatalf("%s: %v", one, err)
			}
			return n
		}
		if current != "" {
			c.Current = scan(current)
		}
		for _, w := range words[1:] {
			switch {
			case w == "frozen":
				c.Frozen = true
			case w == "avoid":
				c.Taint = PreferNoSchedule
			case w == "closed":
				c.Taint = NoSchedule
			case w == "leave":
				c.Taint = NoExecute
			case strings.HasPrefix(w, "room"):
				c.Capacity = new(scan(w[4:]))
			case strings.HasPrefix(w, "try"):
				c.Growth = new(scan(w[3:]))
			case strings.HasPrefix(w, "max"):
				c.Max = new(scan(w[3:]))
			case strings.HasPrefix(w, "min"):
				c.Min = scan(w[3:])
			default:
				c.Weight = scan(w[1:])
			}
		}
		cells = append(cells, c)
	}
	return cells
}

// bounded reads bounds as "zone=a min=2 max=50% weight=3".
func bounded(texts ...string) []Bound {
	bounds := make([]Bound, len(texts))
	for i, text := range texts {
		b := &bounds[i]
		for _, word := range strings.Fields(text) {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "region":
				b.Region = value
			case "zone":
				b.Zone = value
			case "cluster":
				b.Cluster = value
			case "min":
				b.Min = new(intstr.Parse(value))
			case "max":
				b.Max = new(intstr.Parse(value))
			case "weight":
				b.Weight = new(intstr.Parse(value).IntVal)
			}
		}
	}
	return bounds
}

func TestSpread(t *testing.T) {
	tests := []struct {
		reason string
		n      int32
		spread Spread
		cells  string
		want   []string
	}{
		{"zones first, then clusters", 12, Spread{By: ByZone}, "a/x,a/y,b/x",
			[]string{"/x/a=3 Even", "/x/b=6 Even", "/y/a=3 Even"}},
		{"a zone with a weight", 12, Spread{By: ByZone, Bounds: bounded("zone=a weight=3")}, "a/x,a/y,b/x w1",
			[]string{"/x/a=5 Even", "/x/b=3 Even", "/y/a=4 Even"}},
		{"a zone at its max", 12, Spread{By: ByZone, Bounds: bounded("zone=a max=25%")}, "a/x,a/y,b/x",
			[]string{"/x/a=2 Max(max=25%,of=zone \"a\")", "/x/b=9 Even", "/y/a=1 Max(max=25%,of=zone \"a\")"}},
		{"a zone at its min", 4, Spread{By: ByZone, Bounds: bounded("zone=a min=3")}, "a/x,b/x,c/x",
			[]string{"/x/a=3 Min(min=3)", "/x/b=1 Even", "/x/c=0 Even"}},
		{"region, zone, cluster", 12, Spread{By: ByRegion}, "r/a/x,r/b/x,r/b/y,s/c/z",
			[]string{"/x/a=3 Even", "/x/b=2 Even", "/y/b=1 Even", "/z/c=6 Even"}},
		{"a cluster's bound over its zones", 12, Spread{By: ByZone, Bounds: bounded("cluster=x max=4")}, "a/x,b/x,a/y,b/y",
			[]string{"/x/a=2 Max(max=4,of=cluster \"x\")", "/x/b=2 Max(max=4,of=cluster \"x\")", "/y/a=4 Kept", "/y/b=4 Kept"}},
		{"a cluster's min over its zones", 4, Spread{By: ByZone, Bounds: bounded("cluster=x min=4")}, "a/x,b/x,a/y,b/y",
			[]string{"/x/a=2 Kept", "/x/b=2 Kept", "/y/a=0 Waiting", "/y/b=0 Waiting"}},
		{"available: by the room", 20, Spread{Type: Available}, "x room40,y room30,z room10",
			[]string{"/x=10 Available", "/y=8 Available", "/z=2 Available"}},
		{"available: as the published example", 20, Spread{Type: Available}, "x room40,y room30,z room11",
			[]string{"/x=10 Available", "/y=7 Available", "/z=3 Available"}},
		{"available: what runs counts as room", 30, Spread{Type: Available}, "x=10 room30,y=7 room23,z=3 room7",
			[]string{"/x=15 Available", "/y=11 Available", "/z=4 Available"}},
		{"available: unknown room counts as the least known", 9, Spread{Type: Available}, "x room40,y,z room20",
			[]string{"/x=5 Available", "/y=2 Available", "/z=2 Available"}},
		{"compact: few clusters", 50, Spread{Type: Compact}, "x room40,y room30,z room10",
			[]string{"/x=40 Compact", "/y=10 Compact", "/z=0 Compact"}},
		{"compact: those in use first", 25, Spread{Type: Compact}, "x room40,y room30,z=8 room10",
			[]string{"/x=7 Compact", "/y=0 Compact", "/z=18 Full"}},
		{"compact: the smallest gives first", 30, Spread{Type: Compact}, "x=29 room0,y=21 room9",
			[]string{"/x=9 Compact", "/y=21 Compact"}},
		{"max skew holds the others down when a zone is full", 12, Spread{By: ByZone, MaxSkew: 1}, "a/x room2,b/x,c/x",
			[]string{"/x/a=2 Full", "/x/b=3 Waiting", "/x/c=3 Waiting", "unplaced =4 Skew(maxSkew=1)"}},
		{"max skew against weights", 20, Spread{By: ByZone, MaxSkew: 2, Bounds: bounded("zone=a weight=8")}, "a/x,b/x,c/x",
			[]string{"/x/a=8 Even", "/x/b=6 Even", "/x/c=6 Even"}},
		{"max skew: the last one has a place between two windows", 10, Spread{Type: Compact, MaxSkew: 1}, "x,y,z",
			[]string{"/x=3 Compact", "/y=4 Compact", "/z=3 Compact"}},
		{"max skew moves nothing that runs", 20, Spread{By: ByZone, MaxSkew: 1}, "a/x=10,b/x=10,c/x",
			[]string{"/x/a=10 Kept", "/x/b=10 Kept", "/x/c=0 Waiting"}},
		{"max skew does not wait for a dead zone", 12, Spread{By: ByZone, MaxSkew: 1}, "a/x=1 frozen,b/x,c/x",
			[]string{"/x/a=1 Frozen", "/x/b=6 Kept", "/x/c=5 Kept"}},
		{"nothing new behind a taint", 9, Spread{}, "x=1 closed,y,z",
			[]string{"/x=1 Tainted(effect=NoSchedule)", "/y=4 Kept", "/z=4 Kept"}},
		{"the last choice", 9, Spread{}, "x avoid,y room3,z room4",
			[]string{"/x=2 Tainted(effect=PreferNoSchedule)", "/y=3 Even", "/z=4 Kept"}},
		{"what is to be left goes where there is room", 9, Spread{}, "x=6 leave,y room3,z room4",
			[]string{"/x=2 Tainted(effect=NoExecute)", "/y=3 Even", "/z=4 Kept"}},
		{"what is to be left does not go beyond the skew", 9, Spread{By: ByZone, MaxSkew: 2}, "a/x=9 leave,b/x,c/x room0",
			[]string{"/x/a=7 Tainted(effect=NoExecute)", "/x/b=2 Waiting", "/x/c=0 Full"}},
		{"what is to be left, and weight 0, hold nobody down", 9, Spread{By: ByZone, MaxSkew: 2}, "a/x=9 leave,a/y w0,b/x",
			[]string{"/x/a=0 Tainted(effect=NoExecute)", "/x/b=9 Kept", "/y/a=0 Weight(weight=0)"}},
		{"weight 0 holds nobody down", 9, Spread{By: ByZone, MaxSkew: 2}, "a/x=1 closed,a/y=1 w0,b/x",
			[]string{"/x/a=1 Tainted(effect=NoSchedule)", "/x/b=7 Kept", "/y/a=1 Kept"}},
		{"weight 0 is left only for another one", 9, Spread{}, "x=6 leave w0,y room3",
			[]string{"/x=6 Tainted(effect=NoExecute)", "/y=3 Full"}},
		{"the last copy stays", 1, Spread{}, "x=1 leave,y room0", []string{"/x=1 Even", "/y=0 Even"}},
		{"only tainted clusters", 4, Spread{}, "x closed",
			[]string{"/x=0 Tainted(effect=NoSchedule)", "unplaced =4 Tainted"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			plan, err := Divide(Input{Replicas: tc.n, Subsets: parse(""), Cells: cellsOf(t, tc.cells), Spread: tc.spread})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, zoned(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// zoned is rows with the zones.
func zoned(p Plan) []string {
	var out []string
	for _, c := range p.Cells {
		at := c.Subset + "/" + c.Cluster
		if c.Zone != "" {
			at += "/" + c.Zone
		}
		out = append(out, fmt.Sprintf("%s=%d %s", at, c.Replicas, c.Reason))
	}
	for _, u := range p.Unplaced {
		out = append(out, fmt.Sprintf("unplaced %s=%d %s", u.Subset, u.Replicas, u.Reason))
	}
	return out
}

// The tests of the specification that are named by their number (part 7.7, number 10).
func TestSpec7710(t *testing.T) {
	t.Run("weights 170:110:60 for n=0..200 are monotone", func(t *testing.T) {
		var last []int32
		for n := range int32(201) {
			got := spreadOf(t, n, 170, 110, 60)
			for i := range last {
				if got[i] < last[i] {
					t.Fatalf("n=%d: %v after %v: a share shrinks while n grows", n, got, last)
				}
			}
			last = got
		}
		for n, want := range map[int32][]int32{4: {2, 1, 1}, 5: {2, 2, 1}, 6: {3, 2, 1}, 7: {4, 2, 1}, 8: {4, 3, 1}} {
			if diff := cmp.Diff(want, spreadOf(t, n, 170, 110, 60)); diff != "" {
				t.Errorf("n=%d (-want +got):\n%s", n, diff)
			}
		}
	})
	t.Run("6:6:2 from 10 to 11 kills no pod (Alabama)", func(t *testing.T) {
		ten, eleven := spreadOf(t, 10, 6, 6, 2), spreadOf(t, 11, 6, 6, 2)
		for i := range ten {
			if eleven[i] < ten[i] {
				t.Errorf("%v, then %v", ten, eleven)
			}
		}
	})
	t.Run("k=1..50 with random bounds", func(t *testing.T) {
		random := rand.New(rand.NewPCG(77, 10))
		for k := 1; k <= 50; k++ {
			in := Input{Replicas: random.Int32N(1000), Subsets: parse("")}
			for i := range k {
				c := Cell{Cluster: fmt.Sprint("c", i), Weight: 1 + random.Int32N(5), Min: random.Int32N(20),
					Current: random.Int32N(40)}
				c.Max = new(c.Min + random.Int32N(60))
				in.Cells = append(in.Cells, c)
			}
			checkDivide(t, random, in)
		}
	})
}

// Every example of part 6 of the specification of federations that has a division in it.
func TestSpecDivisions(t *testing.T) {
	tests := []struct {
		reason  string
		n       int32
		weights []int32
		want    []int32 // in descending order: who gets an odd one is decided by a hash
	}{
		{"100 over 1:1:1", 100, []int32{1, 1, 1}, []int32{34, 33, 33}},
		{"10 over 7", 10, []int32{1, 1, 1, 1, 1, 1, 1}, []int32{2, 2, 2, 1, 1, 1, 1}},
		{"2:1 with 2", 2, []int32{2, 1}, []int32{1, 1}},
		{"10 over 3:2:2", 10, []int32{3, 2, 2}, []int32{4, 3, 3}},
		{"6:6:2 with 10", 10, []int32{6, 6, 2}, []int32{5, 4, 1}},
		{"6:6:2 with 11", 11, []int32{6, 6, 2}, []int32{5, 5, 1}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := spreadOf(t, tc.n, tc.weights...)
			slices.SortFunc(got, func(a, b int32) int { return int(b - a) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	bounds := []struct {
		reason string
		n      int32
		spread Spread
		cells  string
		want   []string
	}{
		// KubeFed gives 7/5/8 here.
		{"20 over 5:3:2, min c=6, max a=8", 20, Spread{Bounds: bounded("cluster=c min=6", "cluster=a max=8")},
			"a w5,b w3,c w2", []string{"/a=8 Max(max=8)", "/b=6 Weight(weight=3)", "/c=6 Min(min=6)"}},
		{"an even split keeps the odd one where it is", 100, Spread{}, "a=33,b=34,c=33",
			[]string{"/a=33 Even", "/b=34 Even", "/c=33 Even"}},
		{"2:1:1 anew", 100, Spread{}, "a w2,b,c", []string{"/a=50 Weight(weight=2)", "/b=25 Weight(weight=1)",
			"/c=25 Weight(weight=1)"}},
		{"an equal cluster that joins moves 3 where nothing is sticky; here it moves none", 10, Spread{}, "a,b=4,c=3,d=3",
			[]string{"/a=0 Waiting", "/b=4 Kept", "/c=3 Even", "/d=3 Kept"}},
		{"20 over room 40/30/10: the tie goes to the cell with more room, published are 10/7/3", 20, Spread{Type: Available},
			"a room40,b room30,c room10", []string{"/a=10 Available", "/b=8 Available", "/c=2 Available"}},
		{"weights that change move 16 where nothing is sticky; here they move none", 100, Spread{}, "a=34 w2,b=33,c=33",
			[]string{"/a=34 Waiting", "/b=33 Kept", "/c=33 Kept"}},
		{"+10 over 60/40/10 goes where the share is not reached", 30, Spread{Type: Available},
			"a=10 room30,b=7 room23,c=3 room7", []string{"/a=15 Available", "/b=11 Available", "/c=4 Available"}},
		{"compact, room 40/30/10, n=50", 50, Spread{Type: Compact}, "a room40,b room30,c room10",
			[]string{"/a=40 Compact", "/b=10 Compact", "/c=0 Compact"}},
		{"compact, down to 30: one suffices, published are 17/13 over two", 30, Spread{Type: Compact},
			"a=29 room11,b=21 room9,c room10", []string{"/a=29 Compact", "/b=1 Compact", "/c=0 Compact"}},
		{"too little room: what fits is placed", 100, Spread{}, "a room40,b room30,c room10",
			[]string{"/a=40 Kept", "/b=30 Full", "/c=10 Full", "unplaced =20 Capacity"}},
		// What is tried in a place is no room that is known of it: the weights of the others do not go by it.
		{"unknown room, one is tried in c", 12, Spread{Type: Available}, "a=8,b,c=0 try1",
			[]string{"/a=8 Kept", "/b=3 Waiting", "/c=1 Full"}},
		{"room, nothing more is tried in c", 20, Spread{Type: Available}, "a room40,b room10,c=2 room38 try0",
			[]string{"/a=14 Kept", "/b=4 Kept", "/c=2 Full"}},
		{"what is tried is in no cell beyond its room", 20, Spread{}, "a room2,b try3,c",
			[]string{"/a=2 Full", "/b=3 Full", "/c=15 Kept"}},
	}
	for _, tc := range bounds {
		t.Run(tc.reason, func(t *testing.T) {
			plan, err := Divide(Input{Replicas: tc.n, Subsets: parse(""), Cells: cellsOf(t, tc.cells), Spread: tc.spread})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, zoned(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// spreadOf divides n over new cells of these weights.
func spreadOf(t *testing.T, n int32, weights ...int32) []int32 {
	t.Helper()
	in := Input{Replicas: n, Subsets: parse("")}
	for i, w := range weights {
		in.Cells = append(in.Cells, Cell{Cluster: fmt.Sprint("c", i), Weight: w})
	}
	plan, err := Divide(in)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int32, len(weights))
	for i, c := range plan.Cells {
		out[i] = c.Replicas
	}
	return out
}
