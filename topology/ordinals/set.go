package ordinals

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Set is the ordinals that a workload has: the first replicas integers from start on that are not reserved. A
// reservation is a number, or a range "a-b" with both ends in it. A reservation outside of these ordinals has no
// effect. Example: start 2, 3 replicas, 3 and "5-7" reserved: ordinals 2, 4 and 8. With 1 replica only 2: then neither
// reservation has an effect. The zero value has none.
type Set struct {
	// ranges are in ascending order, none is empty, and at least one ordinal lies between two of them.
	ranges []Range
	count  int
}

// NewSet returns the first replicas ordinals from start on that are not reserved; fewer where int32 has no more. The
// error names the entry of reserved that cannot be read. The set without that entry is returned with it.
func NewSet(start, replicas int32, reserved []intstr.IntOrString) (Set, error) {
	gaps, err := Reserved(reserved)
	var out Set
	next, left := int64(max(0, start)), int64(max(0, replicas))
	add := func(last int64) { // ordinals from next to last
		if n := min(last-next+1, left); n > 0 {
			out.ranges = append(out.ranges, Range{int32(next), int32(next + n - 1)})
			out.count += int(n)
			left -= n
		}
	}
	for _, gap := range gaps {
		add(int64(gap.Start) - 1)
		next = max(next, int64(gap.End)+1)
	}
	add(math.MaxInt32)
	return out, err
}

// Reserved returns the entries of reserveOrdinals in ascending order of their first ordinal, those left out that cannot
// be read. The error names the first of these.
func Reserved(reserved []intstr.IntOrString) ([]Range, error) {
	var out []Range
	var failed error
	for i, entry := range reserved {
		s, ok := Range{entry.IntVal, entry.IntVal}, true
		if entry.Type == intstr.String {
			s, ok = parseRange(entry.StrVal)
		}
		if !ok && failed == nil {
			failed = fmt.Errorf("reserveOrdinals[%d] is %q: give a number, or a range such as \"3-7\" whose first number is "+
				"not greater than its last", i, entry.StrVal)
		}
		if ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	return out, failed
}

func parseRange(text string) (Range, bool) {
	a, b, isRange := strings.Cut(text, "-")
	first, errFirst := strconv.ParseUint(a, 10, 31)
	last, errLast := strconv.ParseUint(b, 10, 31)
	return Range{int32(first), int32(last)}, isRange && errFirst == nil && errLast == nil && first <= last
}

// Len returns the number of ordinals.
func (s Set) Len() int { return s.count }

// All returns the ordinals in ascending order with their positions, which count from 0.
func (s Set) All() iter.Seq2[int, int32] {
	return func(yield func(int, int32) bool) {
		position := 0
		for _, in := range s.ranges {
			for ordinal := in.Start; ; ordinal++ {
				if !yield(position, ordinal) {
					return
				}
				if position++; ordinal == in.End { // not in the loop's condition: the next ordinal may not exist
					break
				}
			}
		}
	}
}

// Has reports whether the ordinal is in the set.
func (s Set) Has(ordinal int32) bool {
	_, ok := s.Position(ordinal)
	return ok
}

// Position returns how many ordinals of the set are lower than the given one; ok is false if it is none of the set.
func (s Set) Position(ordinal int32) (position int, ok bool) {
	for _, in := range s.ranges {
		if ordinal <= in.End {
			return position + int(ordinal) - int(in.Start), ordinal >= in.Start
		}
		position += int(in.size())
	}
	return position, false
}
