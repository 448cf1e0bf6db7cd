package division

import "slices"

// Reserve divides n over the subsets, in their order, where pods that cannot be scheduled are kept and others run in
// their place. seen[i] belongs to subset i; missing ones are subsets without a child. A subset with reserved pods
// counts as unschedulable. Bounds are as for [Adaptive].
//
// The sum is n or more: what is reserved in one subset is asked for once more in the next, so it can reach n times the
// number of subsets while all are unschedulable. It is n, and the shares are those of [Subsets] with ranges, once no
// subset is unschedulable or has reserved pods, and all pods are ready. The package comment has the rules. Placed
// equals Replicas. It fails for invalid input only, as [Divide] does.
func Reserve(n int32, subsets []Subset, seen []Seen) ([]SubsetShare, error) {
	seen = slices.Clone(seen)
	for i := range seen {
		seen[i].Unschedulable = seen[i].Unschedulable || seen[i].Reserved > 0
	}
	places, err := observe(n, subsets, seen)
	if err != nil {
		return nil, err
	}
	given, waiting := reserveOf(int64(n), places)
	keepReady(int64(n), places, given)

	shares := make([]SubsetShare, len(subsets))
	plain := plainOf(int64(n), places)
	for i := range places {
		reason := rangeReason(subsets[i])
		switch {
		case waiting[i] > 0:
			reason = Reason{Code: SubsetNoAlternative}
		case places[i].closed:
			reason = Reason{Code: SubsetReserved}
		case given[i] > plain[i]:
			reason = Reason{Code: SubsetStandIn}
		}
		shares[i] = SubsetShare{Name: subsets[i].Name, Replicas: int32(given[i]), Placed: int32(given[i]), Reason: reason}
	}
	return shares, nil
}

// reserveOf fills the mins in order, then each subset up to its max, or up to what it has if it is closed. Of a closed
// subset only the healthy pods count against n. The second result is the part of a closed subset above what it has,
// that waits there because no open one may take it.
func reserveOf(n int64, places []place) (given, waiting []int64) {
	given, waiting = make([]int64, len(places)), make([]int64, len(places))
	rest := n
	allocate := func(i int, upTo int64) {
		p := &places[i]
		add := min(max(min(upTo, n)-given[i], 0), max(rest, 0))
		counts := add
		if p.closed {
			counts = min(add, max(p.healthy-given[i], 0))
		}
		given[i] += add
		rest -= counts
	}
	for i := range places {
		allocate(i, places[i].low)
	}
	for i := range places {
		if places[i].closed {
			allocate(i, places[i].replicas)
		} else {
			allocate(i, places[i].high)
		}
	}
	// Nobody may take what is left: at least n pods exist, if the bounds allow it.
	left := n
	for _, g := range given {
		left -= g
	}
	for i := range places {
		waiting[i] = min(max(places[i].high-given[i], 0), max(left, 0))
		given[i] += waiting[i]
		left -= waiting[i]
	}
	return given, waiting
}

// keepReady raises given so that no ready pod goes which n still needs, and no stand-in before as many pods are ready
// in its place. A stand-in that is not ready at the moment stays as well: an update replaces it, or it still starts,
// and to give it up would take one more from those that serve. The first in order keep theirs longest.
func keepReady(n int64, places []place, given []int64) {
	missing := n
	for i := range places {
		missing -= min(places[i].ready, given[i])
	}
	missing = fill(max(missing, 0), given, func(i int) int64 { return places[i].ready })
	fill(missing, given, func(i int) int64 { return places[i].stays })

	// What shrinks counts with all that it keeps, what grows or stays only with its ready pods. Reserved pods do not
	// count.
	missing = n
	for i := range places {
		if p := &places[i]; given[i] < p.replicas {
			missing -= min(given[i], p.serving())
		} else {
			missing -= min(given[i], p.ready)
		}
	}
	fillStandIns(max(missing, 0), given, places, func(i int) bool { return given[i] < places[i].replicas })
}
