package division

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// parse reads a subset as "name", "name=4", "name=25%" or "name{min,max}" with either bound left out.
func parse(specs ...string) []Subset {
	value := func(s string) *intstr.IntOrString {
		if s == "" {
			return nil
		}
		return new(intstr.Parse(s))
	}
	subsets := make([]Subset, len(specs))
	for i, spec := range specs {
		if name, bounds, ok := strings.Cut(spec, "{"); ok {
			low, high, _ := strings.Cut(strings.TrimSuffix(bounds, "}"), ",")
			subsets[i] = Subset{Name: name, Min: value(low), Max: value(high)}
			continue
		}
		name, number, _ := strings.Cut(spec, "=")
		subsets[i] = Subset{Name: name, Replicas: value(number)}
	}
	return subsets
}

// TestSubsets has the cases beyond those of the specification, which are in spec_examples_test.go.
func TestSubsets(t *testing.T) {
	quarters := []string{"s0=25%", "s1=25%", "s2"}
	tests := []struct {
		reason  string
		subsets []string
		current []int32
		n       int32
		want    []int32
	}{
		{"33/33/34 % do not sum to 1", []string{"a=33%", "b=33%", "c=34%"}, nil, 1, []int32{0, 0, 1}},
		{"50/50 % of 5: the tie stays where it is", []string{"a=50%", "b=50%"}, []int32{2, 3}, 5, []int32{2, 3}},
		{"50/50 % of 5: the tie stays where it is", []string{"a=50%", "b=50%"}, []int32{3, 2}, 5, []int32{3, 2}},
		{"50/50 % of 4 sum", []string{"a=50%", "b=50%"}, []int32{3, 2}, 4, []int32{2, 2}},
		{"integers below N are weights", []string{"a=4", "b=2"}, nil, 12, []int32{8, 4}},
		{"integers above N are weights", []string{"a=4", "b=2"}, nil, 3, []int32{2, 1}},
		{"integers above N leave nothing open", []string{"a=4", "b=2", "c"}, nil, 3, []int32{2, 1, 0}},
		{"an integer weighs what it is of N", []string{"a=4", "b=50%"}, nil, 10, []int32{4, 6}},
		{"the user's numbers win over what runs", []string{"a=33%", "b=33%", "c=34%"}, []int32{10, 0, 0}, 10,
			[]int32{3, 3, 4}},
		{"all zero is no weight for anyone", []string{"a=0", "b=0%"}, nil, 5, []int32{0, 0}},
		{"no replicas at all", quarters, nil, 0, []int32{0, 0, 0}},
		{"a workload without subsets", []string{""}, nil, 9, []int32{9}},
		{"beyond all ceilings", []string{"a{,2}", "b{,3}"}, nil, 9, []int32{2, 3}},
		{"a number among ranges is a floor and a ceiling", []string{"a{1,2}", "b=3", "c"}, nil, 9, []int32{2, 3, 4}},
		{"the ceiling holds where a percentage crosses it", []string{"a{2,10%}", "b"}, nil, 10, []int32{1, 9}},
	}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s/%v N=%d", tc.reason, tc.subsets, tc.n), func(t *testing.T) {
			shares, err := Subsets(tc.n, parse(tc.subsets...), tc.current)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]int32, len(shares))
			for i, s := range shares {
				got[i] = s.Replicas
				if s.Reason.Code == "" {
					t.Errorf("%s has no reason", s.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// rows renders the shares as "subset/cluster=n Reason".
func rows(p Plan) []string {
	var out []string
	for _, c := range p.Cells {
		out = append(out, fmt.Sprintf("%s/%s=%d %s", c.Subset, c.Cluster, c.Replicas, c.Reason.Code))
	}
	for _, u := range p.Unplaced {
		out = append(out, fmt.Sprintf("unplaced %s=%d %s", u.Subset, u.Replicas, u.Reason))
	}
	return out
}

func TestDivide(t *testing.T) {
	tests := []struct {
		reason  string
		n       int32
		subsets []string
		cells   []Cell
		want    []string
	}{
		{
			reason: "without subsets, even", n: 9, subsets: []string{""},
			cells: []Cell{{Cluster: "west", Weight: 1}, {Cluster: "east", Weight: 1}, {Cluster: "south", Weight: 1}},
			want:  []string{"/east=3 Even", "/south=3 Even", "/west=3 Even"},
		},
		{
			reason: "weights, min and max", n: 20, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 5, Max: new(int32(8))}, {Cluster: "b", Weight: 3},
				{Cluster: "c", Weight: 2, Min: 6}},
			want: []string{"/a=8 Max", "/b=6 Weight", "/c=6 Min"},
		},
		{
			reason: "a new cell waits", n: 10, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 5}, {Cluster: "b", Weight: 1, Current: 5},
				{Cluster: "new", Weight: 1}},
			want: []string{"/a=5 Kept", "/b=5 Kept", "/new=0 Waiting"},
		},
		{
			reason: "a lost cell's replicas go to the others", n: 12, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4}, {Cluster: "b", Weight: 1, Current: 4}},
			want:  []string{"/a=6 Even", "/b=6 Even"},
		},
		{
			reason: "a frozen cell gets nothing new", n: 15, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}, {Cluster: "b", Weight: 1, Current: 4}},
			want:  []string{"/a=4 Frozen", "/b=11 Kept"},
		},
		{
			reason: "a frozen cell loses nothing while others can give", n: 5, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}, {Cluster: "b", Weight: 1, Current: 4}},
			want:  []string{"/a=4 Frozen", "/b=1 Waiting"},
		},
		{
			reason: "the floor of a healthy cell comes before a frozen one when N forces it", n: 5, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}, {Cluster: "b", Weight: 1, Min: 2, Current: 4}},
			want:  []string{"/a=3 Even", "/b=2 Min"},
		},
		{
			reason: "a floor that is not there yet takes nothing from a frozen cell", n: 4, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}, {Cluster: "b", Weight: 1, Min: 2}},
			want:  []string{"/a=4 Frozen", "/b=0 Waiting"},
		},
		{
			reason: "a floor that is there in part gets what the frozen cells leave", n: 6, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}, {Cluster: "b", Weight: 1, Min: 3, Current: 1}},
			want:  []string{"/a=4 Frozen", "/b=2 Waiting"},
		},
		{
			reason: "weight 0 keeps what it has", n: 4, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Current: 3}, {Cluster: "b", Weight: 1}},
			want:  []string{"/a=3 Kept", "/b=1 Waiting"},
		},
		{
			reason: "zero everywhere is nowhere, whatever runs", n: 2, subsets: []string{"a=0"},
			cells: []Cell{{Subset: "a", Cluster: "x", Weight: 1, Current: 2}},
			want:  []string{"a/x=0 Even", "unplaced =2 Bounds"},
		},
		{
			reason: "N forces a frozen cell", n: 3, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}, {Cluster: "b", Weight: 1, Current: 4}},
			want:  []string{"/a=3 Frozen", "/b=0 Waiting"},
		},
		{
			reason: "a full cell gets nothing new, the rest goes elsewhere", n: 12, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Capacity: new(int32)}, {Cluster: "b", Weight: 1, Current: 4}},
			want:  []string{"/a=4 Full", "/b=8 Kept"},
		},
		{
			reason: "a negative capacity moves nothing", n: 8, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Capacity: new(int32(-3))},
				{Cluster: "b", Weight: 1, Current: 4}},
			want: []string{"/a=4 Even", "/b=4 Even"},
		},
		{
			reason: "all full", n: 12, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Capacity: new(int32(1))},
				{Cluster: "b", Weight: 1, Current: 4, Frozen: true}},
			want: []string{"/a=5 Full", "/b=4 Frozen", "unplaced =3 Capacity(also=Frozen)"},
		},
		{
			reason: "all frozen", n: 12, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Current: 4, Frozen: true}},
			want:  []string{"/a=4 Frozen", "unplaced =8 Frozen"},
		},
		{
			reason: "all at their max", n: 12, subsets: []string{""},
			cells: []Cell{{Cluster: "a", Weight: 1, Max: new(int32(4))}},
			want:  []string{"/a=4 Max", "unplaced =8 Bounds"},
		},
		{
			reason: "a fixed subset without a cell stays unplaced", n: 10, subsets: []string{"a=40%", "b"},
			cells: []Cell{{Subset: "b", Cluster: "x", Weight: 1}},
			want:  []string{"b/x=6 Even", "unplaced a=4 NoCell"},
		},
		{
			reason: "an open subset without a cell leaves its part to the other open ones", n: 10,
			subsets: []string{"a=4", "b", "c"},
			cells:   []Cell{{Subset: "a", Cluster: "x", Weight: 1}, {Subset: "c", Cluster: "x", Weight: 1}},
			want:    []string{"a/x=4 Even", "c/x=6 Even"},
		},
		{
			reason: "no open subset has a cell", n: 10, subsets: []string{"a", "b"},
			want: []string{"unplaced a=5 NoCell", "unplaced b=5 NoCell"},
		},
		{
			reason: "a range without a cell keeps its floor only", n: 10, subsets: []string{"a{2,4}", "b"},
			cells: []Cell{{Subset: "b", Cluster: "x", Weight: 1}},
			want:  []string{"b/x=8 Even", "unplaced a=2 NoCell"},
		},
		{
			reason: "every subset at its ceiling", n: 10, subsets: []string{"a{,2}", "b{,3}"},
			cells: []Cell{{Subset: "a", Cluster: "x", Weight: 1}, {Subset: "b", Cluster: "x", Weight: 1}},
			want:  []string{"a/x=2 Even", "b/x=3 Even", "unplaced =5 Bounds"},
		},
		{
			reason: "nothing to place and nowhere", n: 0, subsets: []string{"a"}, want: nil,
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			plan, err := Divide(Input{Replicas: tc.n, Subsets: parse(tc.subsets...), Cells: tc.cells})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, rows(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDivideRefuses(t *testing.T) {
	one := parse("a")
	tests := []struct {
		reason string
		in     Input
		want   string
	}{
		{"negative N", Input{Replicas: -1, Subsets: one}, "replicas -1 is negative: use 0 or more"},
		{"no subset", Input{Replicas: 1}, "no subset given: give one with an empty name for a workload without subsets"},
		{"two subsets of one name", Input{Subsets: parse("a", "a")},
			`subset "a": given twice: give each subset its own name`},
		{"negative replicas", Input{Subsets: parse("a=-2")}, `subset "a": replicas -2 is negative: use 0 or more`},
		{"percent above 100", Input{Subsets: parse("a=101%")},
			`subset "a": replicas "101%" is no percentage: use an integer, or an integer from 0 to 100 with a % sign`},
		{"percent with a fraction", Input{Subsets: parse("a{1.5%,}")},
			`subset "a": min "1.5%" is no percentage: use an integer, or an integer from 0 to 100 with a % sign`},
		{"no number at all", Input{Subsets: parse("a{,many}")},
			`subset "a": max "many" is no percentage: use an integer, or an integer from 0 to 100 with a % sign`},
		{"min above max", Input{Subsets: parse("a{5,3}")}, `subset "a": min 5 is above max 3: lower min or raise max`},
		{"min above max in percent", Input{Subsets: parse("a{50%,30%}")},
			`subset "a": min 50% is above max 30%: lower min or raise max`},
		{
			"replicas with min", Input{Subsets: []Subset{{Name: "a", Replicas: new(intstr.FromInt32(1)),
				Min: new(intstr.FromInt32(1))}}},
			`subset "a": replicas 1 excludes min and max: remove one or the other`,
		},
		{"unknown subset", Input{Subsets: one, Cells: []Cell{{Subset: "b", Cluster: "x"}}},
			`cell x: subset "b" does not exist: name a subset of the workload`},
		{
			"one cell twice", Input{Subsets: one, Cells: []Cell{{Subset: "a", Cluster: "x", Zone: "z"},
				{Subset: "a", Cluster: "x", Zone: "z"}}},
			`cell x/z: given twice for subset "a": give each cell once`,
		},
		{"negative weight", Input{Subsets: one, Cells: []Cell{{Subset: "a", Cluster: "x", Weight: -1}}},
			`cell x: weight -1 is negative: use 0 or more`},
		{"negative current", Input{Subsets: one, Cells: []Cell{{Subset: "a", Cluster: "x", Current: -1}}},
			`cell x: current -1 is negative: use 0 or more`},
		{"negative min", Input{Subsets: one, Cells: []Cell{{Subset: "a", Cluster: "x", Min: -1}}},
			`cell x: min -1 is negative: use 0 or more`},
		{"cell min above max", Input{Subsets: one, Cells: []Cell{{Subset: "a", Cluster: "x", Min: 3, Max: new(int32(2))}}},
			`cell x: min 3 is above max 2: lower min or raise max`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if _, err := Divide(tc.in); err == nil || err.Error() != tc.want {
				t.Errorf("got error %v, want %s", err, tc.want)
			}
		})
	}
}
