package ordinals_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// reserve reads entries: numbers, and text for ranges.
func reserve(entries ...any) []intstr.IntOrString {
	var out []intstr.IntOrString
	for _, entry := range entries {
		switch entry := entry.(type) {
		case int:
			out = append(out, intstr.FromInt32(int32(entry)))
		case string:
			out = append(out, intstr.FromString(entry))
		}
	}
	return out
}

func list(s ordinals.Set) []int32 {
	var out []int32
	for position, ordinal := range s.All() {
		if position != len(out) {
			panic(fmt.Sprintf("position %d of ordinal %d", position, ordinal))
		}
		out = append(out, ordinal)
	}
	return out
}

func TestNewSet(t *testing.T) {
	tests := []struct {
		why             string
		start, replicas int32
		reserved        []intstr.IntOrString
		want            []int32
	}{
		{"none", 0, 0, nil, nil},
		{"from 0", 0, 3, nil, []int32{0, 1, 2}},
		{"from start", 5, 3, nil, []int32{5, 6, 7}},
		{"a number is reserved", 0, 3, reserve(1), []int32{0, 2, 3}},
		{"a range is reserved", 0, 3, reserve("1-3"), []int32{0, 4, 5}},
		{"numbers and ranges, one entry twice and overlapping", 2, 3, reserve(3, "5-7", 6, "5-5"), []int32{2, 4, 8}},
		{"a long range before a short one in it", 0, 2, reserve("0-9", "3-4"), []int32{10, 11}},
		{"reservations above the range have no effect", 0, 3, reserve(3, 7, "100-200"), []int32{0, 1, 2}},
		{"reservations below start have no effect", 5, 2, reserve(0, "1-4"), []int32{5, 6}},
		{"a range over start", 5, 2, reserve("3-6"), []int32{7, 8}},
		{"the last ordinals that exist", math.MaxInt32 - 1, 5, nil, []int32{math.MaxInt32 - 1, math.MaxInt32}},
		{"the last ordinal is reserved", math.MaxInt32 - 1, 5, reserve(math.MaxInt32), []int32{math.MaxInt32 - 1}},
		{"negative numbers reserve nothing", 0, 2, reserve(-1), []int32{0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			s, err := ordinals.NewSet(tt.start, tt.replicas, tt.reserved)
			if got := list(s); err != nil || !slices.Equal(got, tt.want) || s.Len() != len(tt.want) {
				t.Errorf("%v, %d of them (%v), want %v", got, s.Len(), err, tt.want)
			}
		})
	}
}

func TestNewSetNamesTheEntryThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"3", "3-", "-3", "7-3", "a-b", "1-2-3", "", "+1-2", "1-99999999999"} {
		s, err := ordinals.NewSet(0, 2, reserve(0, text))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("reserveOrdinals[1] is %q", text)) {
			t.Errorf("%q: %v", text, err)
		}
		if got := list(s); !slices.Equal(got, []int32{1, 2}) {
			t.Errorf("%q: %v without the entry, want 1 and 2", text, got)
		}
	}
}

// TestNewSetCostsNothingForManyReplicas checks that a typo of replicas takes no memory.
func TestNewSetCostsNothingForManyReplicas(t *testing.T) {
	allocations := testing.AllocsPerRun(10, func() {
		s, err := ordinals.NewSet(0, math.MaxInt32, reserve("5-9"))
		if err != nil || s.Len() != math.MaxInt32-4 {
			t.Fatal(s, err)
		}
		if position, ok := s.Position(10); position != 5 || !ok {
			t.Fatal(position, ok)
		}
	})
	if allocations > 10 {
		t.Errorf("%v allocations", allocations)
	}
}

// TestSetProperties compares random sets with the rule, ordinal by ordinal.
func TestSetProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		start, replicas := int32(random.IntN(10)), int32(random.IntN(12))
		var reserved []intstr.IntOrString
		isReserved := map[int32]bool{}
		for range random.IntN(6) {
			first := random.IntN(25)
			last := first + random.IntN(4)
			for ordinal := first; ordinal <= last; ordinal++ {
				isReserved[int32(ordinal)] = true
			}
			if first == last {
				reserved = append(reserved, intstr.FromInt32(int32(first)))
				continue
			}
			reserved = append(reserved, intstr.FromString(fmt.Sprintf("%d-%d", first, last)))
		}
		var want []int32
		for ordinal := start; len(want) < int(replicas); ordinal++ {
			if !isReserved[ordinal] {
				want = append(want, ordinal)
			}
		}
		s, err := ordinals.NewSet(start, replicas, reserved)
		if got := list(s); err != nil || !slices.Equal(got, want) {
			t.Fatalf("start %d, %d replicas, %v reserved: %v (%v), want %v", start, replicas, reserved, got, err, want)
		}
		for ordinal := int32(-1); ordinal < 60; ordinal++ {
			position, ok := s.Position(ordinal)
			if i := slices.Index(want, ordinal); ok != (i >= 0) || ok && position != i {
				t.Fatalf("start %d, %d replicas, %v reserved: %d is at %d (%t)", start, replicas, reserved, ordinal, position, ok)
			}
		}
	}
}
