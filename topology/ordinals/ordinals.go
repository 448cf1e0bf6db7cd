package ordinals

import (
	"cmp"
	"math"
	"slices"
)

// Stride is the number of ordinals that a member gets at a time.
const Stride = 1000

// Range is a range of ordinals, both ends included.
type Range struct {
	Start, End int32
}

func (r Range) size() int64 { return int64(r.End) - int64(r.Start) + 1 }

// Block is what one member owns. Ranges are in ascending order and do not overlap.
type Block struct {
	Cluster string
	// Ranges are the ordinals of which the member runs the lowest.
	Ranges []Range
	// Spare are ordinals that the member gets before any new range. They are none of Ranges, because they are lower than
	// ordinals that the member took over.
	Spare []Range
}

// Ledger records which member owns which ordinals. The zero value owns nothing.
type Ledger struct {
	// Next is the lowest ordinal that no member ever had. It only grows.
	Next int32
	// Blocks are in the order in which members got their first range.
	Blocks []Block
	// Free are ordinals that fenced members ran. The next members that get more replicas take them over.
	Free []Range
}

// Demand is the number of pods that a member is to run.
type Demand struct {
	Cluster string
	// Had is the number that the member was to run before.
	Had, Replicas int32
}

// Clone returns a copy that shares nothing with the ledger.
func (l *Ledger) Clone() Ledger {
	out := Ledger{Next: l.Next, Blocks: slices.Clone(l.Blocks), Free: slices.Clone(l.Free)}
	for i := range out.Blocks {
		out.Blocks[i].Ranges = slices.Clone(out.Blocks[i].Ranges)
		out.Blocks[i].Spare = slices.Clone(out.Blocks[i].Spare)
	}
	return out
}

// Ranges returns what a member owns, nil for nothing.
func (l *Ledger) Ranges(cluster string) []Range {
	for i := range l.Blocks {
		if l.Blocks[i].Cluster == cluster {
			return l.Blocks[i].Ranges
		}
	}
	return nil
}

// Owned returns how many ordinals a member owns that are not reserved.
func (l *Ledger) Owned(cluster string, reserved []Range) int64 {
	return count(l.Ranges(cluster), merged(reserved))
}

// Assignment is the outcome of [Ledger.Assign].
type Assignment struct {
	Ledger Ledger
	// TakenOver are the ordinals of fenced members that a member got, by its name.
	TakenOver map[string][]Range
	// Full are members that lack ordinals because no more exist.
	Full []string
}

// Assign gives each member as many ordinals as it needs for its pods, those aside that the user reserves. Ordinals of
// fenced members go first, the lowest to the first demand. No member loses one.
func (l *Ledger) Assign(demands []Demand, reserved []Range) Assignment {
	out := Assignment{Ledger: l.Clone(), TakenOver: map[string][]Range{}}
	next := &out.Ledger
	reserved = merged(reserved)
	free := subtract(next.Free, reserved)
	for _, d := range demands {
		block := next.block(d.Cluster)
		var got []Range
		if got, free = split(free, d.Replicas-d.Had); len(got) > 0 {
			block.takeOver(got, reserved, d.Had)
			out.TakenOver[d.Cluster] = got
		}
		missing := int64(d.Replicas) - count(block.Ranges, reserved)
		got, block.Spare = split(block.Spare, int32(max(missing, 0)))
		block.Ranges = merged(append(block.Ranges, got...))
		for count(block.Ranges, reserved) < int64(d.Replicas) || len(block.Ranges) == 0 {
			r, ok := next.extend()
			if !ok {
				out.Full = append(out.Full, d.Cluster)
				break
			}
			block.Ranges = merged(append(block.Ranges, r))
		}
	}
	if len(out.TakenOver) > 0 {
		next.Free = free
	}
	return out
}

// takeOver adds ordinals of another member, so that the block's member runs them beside the ones that it runs.
func (b *Block) takeOver(got, reserved []Range, had int32) {
	highest := got[len(got)-1].End
	runs, rest := split(subtract(b.Ranges, reserved), had)
	below := Range{0, highest}
	b.Spare = merged(append(b.Spare, intersect(rest, below)...))
	b.Ranges = merged(slices.Concat(runs, got, subtract(rest, []Range{below})))
}

// extend returns the next range, false if none is left.
func (l *Ledger) extend() (Range, bool) {
	if l.Next > math.MaxInt32-Stride {
		return Range{}, false
	}
	r := Range{l.Next, l.Next + Stride - 1}
	l.Next += Stride
	return r, true
}

// block returns the block of a member, a new one if it has none. The pointer holds until the next call.
func (l *Ledger) block(cluster string) *Block {
	i := slices.IndexFunc(l.Blocks, func(b Block) bool { return b.Cluster == cluster })
	if i < 0 {
		i = len(l.Blocks)
		l.Blocks = append(l.Blocks, Block{Cluster: cluster})
	}
	return &l.Blocks[i]
}

// Fence returns the ledger in which a member owns nothing any more. The ordinals of the pods that it was to run wait
// for the members that replace it. The caller has made sure that the member runs no pod.
func (l *Ledger) Fence(cluster string, replicas int32, reserved []Range) Ledger {
	next := l.Clone()
	next.Free = merged(append(next.Free, Take(l.Ranges(cluster), reserved, replicas)...))
	next.Blocks = slices.DeleteFunc(next.Blocks, func(b Block) bool { return b.Cluster == cluster })
	return next
}

// Take returns the n lowest ordinals of ranges that are not reserved, fewer if there are not as many.
func Take(ranges, reserved []Range, n int32) []Range {
	taken, _ := split(subtract(ranges, merged(reserved)), n)
	return taken
}

// Rendered is how a member's manifest says which ordinals it runs: the first replicas from Start on that are not
// Reserved.
type Rendered struct {
	Start    int32
	Reserved []Range
}

// Render returns the ordinals of a member, offset by start; reserved are the ordinals that the user reserves, offset as
// well. Gaps between the member's ranges are reserved too. The caller asks for no more replicas than
// the member owns: ordinals above its ranges are not reserved.
func Render(ranges, reserved []Range, start int32) Rendered {
	if len(ranges) == 0 {
		return Rendered{Start: start}
	}
	ranges = merged(ranges)
	first, last := ranges[0].Start, ranges[len(ranges)-1].End
	var gaps []Range
	for i := 1; i < len(ranges); i++ {
		gaps = append(gaps, Range{ranges[i-1].End + 1, ranges[i].Start - 1})
	}
	for _, r := range merged(reserved) {
		r = Range{max(r.Start, first), min(r.End, last)}
		if r.Start <= r.End {
			gaps = append(gaps, r)
		}
	}
	out := Rendered{Start: shift(first, start), Reserved: merged(gaps)}
	for i := range out.Reserved {
		out.Reserved[i] = Range{shift(out.Reserved[i].Start, start), shift(out.Reserved[i].End, start)}
	}
	return out
}

// Offsets returns ordinals as offsets from start, those left out that are lower.
func Offsets(global []Range, start int32) []Range {
	var out []Range
	for _, r := range global {
		if r.End >= start {
			out = append(out, Range{max(r.Start-start, 0), r.End - start})
		}
	}
	return out
}

func shift(ordinal, start int32) int32 {
	return int32(min(int64(ordinal)+int64(start), math.MaxInt32))
}

// count returns how many ordinals of ranges are not reserved. reserved is merged.
func count(ranges, reserved []Range) int64 {
	var n int64
	for _, r := range subtract(ranges, reserved) {
		n += r.size()
	}
	return n
}

// intersect returns the ordinals of ranges that are in r.
func intersect(ranges []Range, r Range) []Range {
	var out []Range
	for _, one := range ranges {
		if one = (Range{max(one.Start, r.Start), min(one.End, r.End)}); one.Start <= one.End {
			out = append(out, one)
		}
	}
	return out
}

// split divides ranges after their first n ordinals.
func split(ranges []Range, n int32) (first, rest []Range) {
	left := int64(n)
	for i, r := range ranges {
		switch {
		case left <= 0:
			return first, slices.Clone(ranges[i:])
		case r.size() <= left:
			first = append(first, r)
			left -= r.size()
		default:
			middle := r.Start + int32(left)
			first, rest = append(first, Range{r.Start, middle - 1}), append(rest, Range{middle, r.End})
			left = 0
		}
	}
	return first, rest
}

// subtract returns the ordinals of ranges that are not reserved, in ascending order. reserved is merged.
func subtract(ranges, reserved []Range) []Range {
	var out []Range
	for _, r := range merged(ranges) {
		start := int64(r.Start)
		for _, gap := range reserved {
			if int64(gap.End) < start || gap.Start > r.End {
				continue
			}
			if int64(gap.Start) > start {
				out = append(out, Range{int32(start), gap.Start - 1})
			}
			start = int64(gap.End) + 1
		}
		if start <= int64(r.End) {
			out = append(out, Range{int32(start), r.End})
		}
	}
	return out
}

// merged returns ranges in ascending order, overlapping and adjacent ones as one. Ranges that end before they start are
// dropped.
func merged(ranges []Range) []Range {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return r.End < r.Start })
	slices.SortFunc(
		sorted,
		func(a, b Range) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) },
	)
	var out []Range
	for _, r := range sorted {
		if n := len(out); n > 0 && int64(r.Start) <= int64(out[n-1].End)+1 {
			out[n-1].End = max(out[n-1].End, r.End)
			continue
		}
		out = append(out, r)
	}
	return out
}
