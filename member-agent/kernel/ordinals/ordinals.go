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

// Span is a range of ordinals, both ends included.
type Span struct{ First, Last int32 }

func (s Span) size() int { return int(s.Last) - int(s.First) + 1 }

// Set is the ordinals that a workload has. The zero value has none.
type Set struct {
	// spans are in ascending order, none is empty, and at least one ordinal lies between two of them.
	spans []Span
	count int
}

// New returns the first replicas ordinals from start on that are not reserved; fewer where int32 has no more. The error
// names the entry of reserved that cannot be read. The set without that entry is returned with it.
func New(start, replicas int32, reserved []intstr.IntOrString) (Set, error) {
	gaps, err := Reserved(reserved)
	var out Set
	next, left := int64(max(0, start)), int64(max(0, replicas))
	add := func(last int64) { // ordinals from next to last
		if n := min(last-next+1, left); n > 0 {
			out.spans = append(out.spans, Span{int32(next), int32(next + n - 1)})
			out.count += int(n)
			left -= n
		}
	}
	for _, gap := range gaps {
		add(int64(gap.First) - 1)
		next = max(next, int64(gap.Last)+1)
	}
	add(math.MaxInt32)
	return out, err
}

// Reserved returns the entries of reserveOrdinals in ascending order of their first ordinal, those left out that cannot
// be read. The error names the first of these.
func Reserved(reserved []intstr.IntOrString) ([]Span, error) {
	out := make([]Span, 0, len(reserved))
	var failed error
	for i, entry := range reserved {
		s, ok := Span{entry.IntVal, entry.IntVal}, true
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
	slices.SortFunc(out, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	return out, failed
}

func parseRange(text string) (Span, bool) {
	a, b, isRange := strings.Cut(text, "-")
	first, errFirst := strconv.ParseUint(a, 10, 31)
	last, errLast := strconv.ParseUint(b, 10, 31)
	return Span{int32(first), int32(last)}, isRange && errFirst == nil && errLast == nil && first <= last
}

// Len returns the number of ordinals.
func (s Set) Len() int { return s.count }

// All returns the ordinals in ascending order with their positions, which count from 0.
func (s Set) All() iter.Seq2[int, int32] {
	return func(yield func(int, int32) bool) {
		position := 0
		for _, in := range s.spans {
			for ordinal := in.First; ; ordinal++ {
				if !yield(position, ordinal) {
					return
				}
				if position++; ordinal == in.Last { // not in the loop's condition: the next ordinal may not exist
					break
				}
			}
		}
	}
}

// Position returns how many ordinals of the set are lower than the given one; ok is false if it is none of the set.
func (s Set) Position(ordinal int32) (position int, ok bool) {
	for _, in := range s.spans {
		if ordinal <= in.Last {
			return position + int(ordinal) - int(in.First), ordinal >= in.First
		}
		position += in.size()
	}
	return position, false
}

// Name returns the name of the workload's pod with the ordinal.
func Name(workload string, ordinal int32) string { return workload + "-" + strconv.Itoa(int(ordinal)) }

// Split returns what precedes the ordinal in the name of a pod or a claim, and the ordinal. ok is false for a name that
// does not end with one.
func Split(name string) (parent string, ordinal int32, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at <= 0 {
		return "", 0, false
	}
	digits := name[at+1:]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return "", 0, false
	}
	return name[:at], int32(n), true
}

// Of returns the ordinal that the pod of this name has in the workload; ok is false if it has none.
func Of(workload, pod string) (ordinal int32, ok bool) {
	parent, ordinal, ok := Split(pod)
	return ordinal, ok && parent == workload
}
