package division

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every worked example of part 2 of the specification of the workloads that has numbers in it; part says which. Parts
// 2.1 and 2.6 say how percentages round and how partitions are cut, and have no example of their own: 2.1's rule is the
// first rows here, 2.6's belongs to the controller.

func TestSpecSubsets(t *testing.T) {
	quarters := []string{"s0=25%", "s1=25%", "s2"}
	open := []string{"a", "b", "c"}
	floors := []string{"a{2,4}", "b{2,}"}
	mixed := []string{"a{30%,50%}", "b{20%,}", "c{,3}"}
	three := []string{"0{1,2}", "1{1,2}", "2{1,}"}
	tests := []struct {
		part, reason string
		subsets      []string
		current      []int32
		n            int32
		want         []int32
	}{
		{"2.1", "12.5 rounds to 13", []string{"a=50%", "b"}, nil, 25, []int32{13, 12}},
		{"2.1", "12.25 rounds to 12", []string{"a=49%", "b"}, nil, 25, []int32{12, 13}},
		{"2.1", "0 and 100 percent", []string{"a=0%", "b=100%"}, nil, 7, []int32{0, 7}},
		{"2.1", "an absent min is 0, an absent max unlimited", []string{"a{,1}", "b{1,}", "c"}, nil, 5, []int32{1, 4, 0}},
		{"2.1", "a range anywhere fills in order", []string{"a", "b{1,}"}, nil, 5, []int32{4, 1}},

		{"2.2", "half rounds up", quarters, nil, 1, []int32{0, 0, 1}},
		{"2.2", "half rounds up", quarters, nil, 2, []int32{1, 1, 0}},
		{"2.2", "half rounds up", quarters, nil, 3, []int32{1, 1, 1}},
		{"2.2", "half rounds up", quarters, nil, 4, []int32{1, 1, 2}},
		{"2.2", "half rounds up", quarters, nil, 5, []int32{1, 1, 3}},
		{"2.2", "half rounds up", quarters, nil, 6, []int32{2, 2, 2}},
		{"2.2", "half rounds up", quarters, nil, 7, []int32{2, 2, 3}},
		{"2.2", "all open and new: names decide", open, nil, 7, []int32{2, 2, 3}},
		{"2.2", "the odd one stays where it is", open, []int32{3, 2, 2}, 7, []int32{3, 2, 2}},
		{"2.2", "the next odd one goes by name", open, []int32{3, 2, 2}, 8, []int32{3, 2, 3}},
		{"2.2", "one fixed number, the rest open", []string{"a=4", "b", "c"}, nil, 10, []int32{4, 3, 3}},
		// Published: an error, and nothing changes.
		{"2.2", "33/33/34 % do not sum to 10", []string{"a=33%", "b=33%", "c=34%"}, nil, 10, []int32{3, 3, 4}},
		{"2.2", "50/50 % of 5 sum to 6: the tie stays where it is", []string{"a=50%", "b=50%"}, []int32{2, 3}, 5,
			[]int32{2, 3}},

		{"2.3", "floors in order", floors, nil, 1, []int32{1, 0}},
		{"2.3", "floors in order", floors, nil, 2, []int32{2, 0}},
		{"2.3", "floors in order", floors, nil, 3, []int32{2, 1}},
		{"2.3", "floors in order", floors, nil, 4, []int32{2, 2}},
		{"2.3", "ceilings in order", floors, nil, 5, []int32{3, 2}},
		{"2.3", "ceilings in order", floors, nil, 6, []int32{4, 2}},
		{"2.3", "ceilings in order", floors, nil, 7, []int32{4, 3}},
		{"2.3", "ceilings in order", floors, nil, 10, []int32{4, 6}},
		{"2.3", "50 % of 1 is 1", mixed, nil, 1, []int32{1, 0, 0}},
		{"2.3", "percent bounds", mixed, nil, 3, []int32{2, 1, 0}},
		{"2.3", "percent bounds", mixed, nil, 5, []int32{3, 2, 0}},
		{"2.3", "an unlimited subset before another starves it", mixed, nil, 10, []int32{5, 5, 0}},
		{"2.3", "an unlimited subset before another starves it", mixed, nil, 20, []int32{10, 10, 0}},
		{"2.3", "30 % of 3 is 1", []string{"a{30%,30%}", "b"}, nil, 3, []int32{1, 2}},
		{"2.3", "30 % of 5 is 2", []string{"a{30%,30%}", "b"}, nil, 5, []int32{2, 3}},
		{"2.3", "three floors", three, nil, 3, []int32{1, 1, 1}},
		{"2.3", "three floors, two ceilings", three, nil, 7, []int32{2, 2, 3}},
		{"2.3", "one for three floors", three, nil, 1, []int32{1, 0, 0}},
	}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s/%s/%v N=%d", tc.part, tc.reason, tc.subsets, tc.n), func(t *testing.T) {
			shares, err := Subsets(tc.n, parse(tc.subsets...), tc.current)
			if err != nil {
				t.Fatal(err)
			}
			checkShares(t, shares, tc.want)
		})
	}
}

func TestSpecAdaptive(t *testing.T) {
	elastic := []string{"a{,2}", "b{,2}", "c"}
	floor := []string{"a{1,2}", "b"}
	tests := []struct {
		reason  string
		subsets []string
		n       int32
		seen    []Seen
		// published is what the specification says. want is what we give, nil for the same: other numbers are returns that
		// OpenKruise does not make.
		published, want []int32
	}{
		{"t0", elastic, 3, nil, []int32{2, 1, 0}, nil},
		{"b cannot schedule", elastic, 3, []Seen{seen(2, 2), closed(1, 0)}, []int32{2, 0, 1}, nil},
		{"N=5 while b is closed", elastic, 5, []Seen{seen(2, 2), closed(0, 0), seen(1, 1)}, []int32{2, 0, 3}, nil},
		{"N=4 while b is closed", elastic, 4, []Seen{seen(2, 2), closed(0, 0), seen(3, 3)}, []int32{2, 0, 2}, nil},
		{"b is open again, N stays", elastic, 4, []Seen{seen(2, 2), seen(0, 0), seen(2, 2)}, []int32{2, 0, 2},
			[]int32{2, 1, 2}},
		{"N=5 tries b", elastic, 5, []Seen{seen(2, 2), seen(0, 0), seen(2, 2)}, []int32{2, 1, 2}, []int32{2, 2, 2}},
		{"N=4: the pending one counts for nothing", elastic, 4, []Seen{seen(2, 2), seen(1, 0), seen(2, 2)}, []int32{2, 0, 2},
			[]int32{2, 1, 2}},
		{"N=3", elastic, 3, []Seen{seen(2, 2), seen(0, 0), seen(2, 2)}, []int32{2, 0, 1}, []int32{2, 1, 1}},

		{"a is stuck, its floor keeps a probe", floor, 3, []Seen{closed(2, 0), seen(1, 1)}, []int32{1, 2}, nil},
		{"N=4 while a is stuck", floor, 4, []Seen{closed(1, 0), seen(2, 2)}, []int32{1, 3}, nil},
		{"N=5, a is repaired", floor, 5, []Seen{seen(1, 1), seen(3, 3)}, []int32{2, 3}, nil},
		{"N=4, a is repaired", floor, 4, []Seen{seen(2, 2), seen(3, 3)}, []int32{2, 2}, nil},
		{"N=1, a is repaired", floor, 1, []Seen{seen(2, 2), seen(2, 2)}, []int32{1, 0}, nil},
	}
	for _, tc := range tests {
		t.Run("2.4/"+tc.reason, func(t *testing.T) {
			subsets := parse(tc.subsets...)
			if diff := cmp.Diff(tc.published, published24(t, tc.n, subsets, tc.seen)); diff != "" {
				t.Errorf("the published arithmetic, as this test has it, gives something else (-want +got):\n%s", diff)
			}
			shares, err := Adaptive(tc.n, subsets, tc.seen)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == nil {
				tc.want = tc.published
			}
			checkShares(t, shares, tc.want)
		})
	}
}

func TestSpecReserve(t *testing.T) {
	three := []string{"0", "1", "2"}
	stuck := reserved(2, 0, 2)
	tests := []struct {
		reason          string
		subsets         []string
		n               int32
		seen            []Seen
		published, want []int32
	}{
		{"at first", three, 2, nil, []int32{2, 0, 0}, nil},
		{"0 is stuck", three, 2, []Seen{stuck}, []int32{2, 2, 0}, nil},
		{"0 and 1 are stuck", three, 2, []Seen{stuck, stuck}, []int32{2, 2, 2}, nil},
		{"N=4", three, 4, []Seen{stuck, stuck, seen(2, 2)}, []int32{2, 2, 4}, nil},
		{"N=2", three, 2, []Seen{stuck, stuck, seen(4, 4)}, []int32{2, 2, 2}, nil},
		{"N=4, 0 is repaired, its pods are ready but still reserved", three, 4, []Seen{reserved(2, 2, 2), stuck, seen(4, 4)},
			[]int32{2, 2, 4}, nil},
		{"N=4, 0 is not reserved any more: the stand-ins wait for its new pods", three, 4,
			[]Seen{seen(2, 2), stuck, seen(4, 4)}, []int32{4, 0, 0}, []int32{4, 0, 2}},
		{"N=4, one of its new pods is ready", three, 4, []Seen{seen(4, 3), seen(0, 0), seen(2, 2)}, []int32{4, 0, 0},
			[]int32{4, 0, 1}},
		{"N=4, its new pods are ready", three, 4, []Seen{seen(4, 4), seen(0, 0), seen(2, 2)}, []int32{4, 0, 0}, nil},
		{"a part is stuck", []string{"s0", "s1"}, 4, []Seen{reserved(4, 1, 3)}, []int32{4, 3}, nil},
		{"a part is stuck, with a min", []string{"s0{1,3}", "s1"}, 5, []Seen{reserved(3, 1, 2)}, []int32{3, 4}, nil},
	}
	for _, tc := range tests {
		t.Run("2.5/"+tc.reason, func(t *testing.T) {
			subsets := parse(tc.subsets...)
			if diff := cmp.Diff(tc.published, published25(t, tc.n, subsets, tc.seen)); diff != "" {
				t.Errorf("the published arithmetic, as this test has it, gives something else (-want +got):\n%s", diff)
			}
			shares, err := Reserve(tc.n, subsets, tc.seen)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == nil {
				tc.want = tc.published
			}
			checkShares(t, shares, tc.want)
		})
	}
}

func seen(replicas, ready int32) Seen { return Seen{Replicas: replicas, Ready: ready} }

func closed(replicas, ready int32) Seen {
	return Seen{Replicas: replicas, Ready: ready, Unschedulable: true}
}

func reserved(replicas, ready, reserved int32) Seen {
	return Seen{Replicas: replicas, Ready: ready, Reserved: reserved, Unschedulable: true}
}

// checkShares compares the numbers, and holds that each has a reason and is placed.
func checkShares(t *testing.T, shares []SubsetShare, want []int32) {
	t.Helper()
	if diff := cmp.Diff(want, numbers(shares)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, s := range shares {
		if s.Reason.Code == "" || s.Placed != s.Replicas {
			t.Errorf("share without reason, or not placed: %+v", s)
		}
	}
}

func numbers(shares []SubsetShare) []int32 {
	out := make([]int32, len(shares))
	for i, s := range shares {
		out[i] = s.Replicas
	}
	return out
}

// published24 is the arithmetic of part 2.4 as it is written there, and nothing else.
func published24(t *testing.T, n int32, subsets []Subset, all []Seen) []int32 {
	t.Helper()
	low, high := make([]int64, len(subsets)), make([]int64, len(subsets))
	for i, s := range subsets {
		b, err := resolveBounds(int64(n), s)
		if err != nil {
			t.Fatal(err)
		}
		low[i], high[i] = b.min, b.max
		if i >= len(all) {
			continue
		}
		ready := int64(min(all[i].Ready, all[i].Replicas))
		switch {
		case all[i].Unschedulable:
			low[i], high[i] = max(ready, low[i]), min(ready, high[i])
		case ready > low[i]:
			low[i] = min(ready, high[i])
		}
	}
	given, left := make([]int32, len(subsets)), int64(n)
	for i := range subsets {
		give := min(low[i], left)
		given[i] += int32(give)
		left -= give
	}
	for i := range subsets {
		give := min(max(high[i]-low[i], 0), left)
		given[i] += int32(give)
		left -= give
	}
	return given
}

// published25 is the arithmetic of part 2.5 as it is written there, and nothing else.
func published25(t *testing.T, n int32, subsets []Subset, all []Seen) []int32 {
	t.Helper()
	given, record := make([]int64, len(subsets)), make([]int64, len(subsets))
	rest := int64(n)
	allocate := func(i int, to int64) {
		add := min(to-given[i], rest)
		if add <= 0 {
			return
		}
		given[i] += add
		before := record[i]
		record[i] -= add
		rest -= add - (max(-record[i], 0) - max(-before, 0))
	}
	all = append(all[:len(all):len(all)], make([]Seen, len(subsets)-len(all))...)
	limits := make([]bounds, len(subsets))
	for i, s := range subsets {
		b, err := resolveBounds(int64(n), s)
		if err != nil {
			t.Fatal(err)
		}
		limits[i], record[i] = b, 1<<31-1
		if all[i].Unschedulable {
			record[i] = int64(all[i].Replicas - all[i].Reserved)
		}
	}
	for i := range subsets {
		allocate(i, limits[i].min)
	}
	for i := range subsets {
		target := limits[i].max
		if all[i].Unschedulable {
			target = int64(all[i].Replicas)
		}
		allocate(i, target)
	}
	out := make([]int32, len(subsets))
	for i := range given {
		out[i] = int32(given[i])
	}
	return out
}
