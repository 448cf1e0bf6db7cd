package division

import (
	"fmt"
	"slices"
)

// Seen is what was seen of one subset's child. All numbers are pods, 0 or more; the zero value is a subset without a
// child.
type Seen struct {
	// Replicas is what the child is asked for now, its spec.replicas: the last decision.
	Replicas int32
	// Ready counts the pods that are ready. More than Replicas are surge pods of a rollout, or go already: they count as
	// Replicas.
	Ready int32
	// Starting counts the pods that have a node and are not ready. In an unschedulable subset they stay: only what finds
	// no node goes elsewhere. Of others it is not needed, all that they have may start.
	Starting int32
	// Bound counts the pods that have a node, ready or not. They are kept before pods that have none yet.
	Bound int32
	// Reserved counts the pods that are kept while others run in their place; only [Reserve] uses it.
	Reserved int32
	// Unschedulable: pods of the subset could not be scheduled, and it is not yet time to try again.
	Unschedulable bool
	// Waiting: the last decision left pods without a node in the subset, because no other one took them. They stay until
	// others have found nodes: an open subset is tried with one pod at a time. [Reserve] does not use it.
	Waiting bool
	// Unsteady: an update may take down more of the ready pods than the limits allow, because its controller has not seen
	// the newest limits. They stay, and no other pod goes because of them; only [Reserve] uses it.
	Unsteady bool
}

// Adaptive divides n over the subsets, in their order, so that pods which one of them cannot schedule run in others,
// and brings them back when it can. seen[i] belongs to subset i; missing ones are subsets without a child. A subset
// without min counts as min 0, one without max as unbounded, also if no subset has any.
//
// The sum is n, or n and a step of at most max(1, n/4 rounded up) while pods return, or less than n if every subset has
// a max. Feeding the answer back as Replicas, and seeing the pods get ready, leads to the shares of [Subsets] with
// ranges once no subset is unschedulable. The package comment has the rules. Placed equals Replicas. It fails for
// invalid input only, as [Divide] does.
func Adaptive(n int32, subsets []Subset, seen []Seen) ([]SubsetShare, error) {
	return adapt(n, subsets, seen, (int64(n)+3)/4) // n 0 has nothing to return
}

// Overflow divides as [Adaptive] does, without the return: what runs elsewhere stays there, as in OpenKruise, and what
// is added goes to the subsets in their order. The sum is never above n.
func Overflow(n int32, subsets []Subset, seen []Seen) ([]SubsetShare, error) {
	return adapt(n, subsets, seen, 0)
}

// adapt divides, with a return of up to step pods more than n.
func adapt(n int32, subsets []Subset, seen []Seen, step int64) ([]SubsetShare, error) {
	places, err := observe(n, subsets, seen)
	if err != nil {
		return nil, err
	}
	if step > 0 {
		markTry(places)
	}
	ideal := idealOf(int64(n), places)
	base, waiting, kept := baseOf(int64(n), step, places, ideal)
	given := slices.Clone(base)
	step -= keepWhileMinsStart(step, places, given)
	if kept > 0 {
		step = min(step, 1) // pods wait already, so that one more tells whether an open subset has room
	}
	step = fill(step, given, func(i int) int64 {
		if places[i].tries > 0 {
			return places[i].exist
		}
		return 0
	})
	step = fill(step, given, func(i int) int64 { return min(places[i].exist, ideal[i]) })
	fill(step, given, func(i int) int64 {
		if places[i].closed || kept > 0 && given[i] > places[i].bound {
			return 0 // or a pod tries it already
		}
		return ideal[i]
	})

	shares := make([]SubsetShare, len(subsets))
	plain := plainOf(int64(n), places)
	for i := range places {
		reason := rangeReason(subsets[i])
		switch {
		case waiting[i] > 0:
			reason = Reason{Code: SubsetNoAlternative}
		case places[i].closed:
			reason = minReason(SubsetUnschedulable, subsets[i])
		case given[i] > base[i]:
			reason = Reason{Code: SubsetReturning}
		case given[i] > plain[i]:
			reason = Reason{Code: SubsetStandIn}
		}
		shares[i] = SubsetShare{Name: subsets[i].Name, Replicas: int32(given[i]), Placed: int32(given[i]), Reason: reason}
	}
	return shares, nil
}

// markTry takes a pod without a node of the first open subset that has one as the try, if pods wait in closed ones. It
// comes on top, in nobody's place. Further pods without a node are those that an update has just made.
func markTry(places []place) {
	if !slices.ContainsFunc(places, func(p place) bool { return p.waits && p.replicas > p.exist }) {
		return
	}
	for i := range places {
		if p := &places[i]; !p.closed && p.replicas > p.bound {
			p.tries = 1
			return
		}
	}
}

// keepWhileMinsStart raises given by up to step ready pods in whose place the mins of closed subsets come: they stay
// until those that have found a node are ready. It returns by how many it did.
func keepWhileMinsStart(step int64, places []place, given []int64) int64 {
	starting := int64(0)
	for i := range places {
		if p := &places[i]; p.closed {
			starting += max(min(p.low, p.bound)-p.stays, 0)
		}
	}
	starting = min(starting, step)
	return starting - fill(starting, given, func(i int) int64 { return places[i].ready })
}

// place is one subset with its bounds for n and what was seen of it.
type place struct {
	low, high int64 // of the user, low <= high
	replicas  int64 // what it has; no more than high if it is open, because a max that was lowered moves pods
	ready     int64 // how many of replicas are ready, in whose favour others may go
	stays     int64 // how many of replicas are ready; more than ready if these are unsteady
	bound     int64 // how many of replicas have a node
	exist     int64 // how many of replicas work or may get to: those with a node, if it is closed; all, if it is open
	waits     bool  // it is closed, and pods without a node were left in it
	tries     int64 // how many of replicas only try whether it has room
	healthy   int64 // what it has without the reserved pods
	closed    bool
}

// observe checks the input and joins the bounds of each subset with what was seen of it.
func observe(n int32, subsets []Subset, seen []Seen) ([]place, error) {
	if err := validateSubsets(n, subsets); err != nil {
		return nil, err
	}
	places := make([]place, len(subsets))
	for i, s := range subsets {
		b, err := resolveBounds(int64(n), s)
		if err != nil {
			return nil, err
		}
		places[i] = place{low: b.min, high: b.max}
		if i >= len(seen) {
			continue
		}
		if seen[i].Replicas < 0 || seen[i].Ready < 0 || seen[i].Starting < 0 || seen[i].Bound < 0 || seen[i].Reserved < 0 {
			return nil, fmt.Errorf(
				"subset %q: of replicas %d, ready %d, starting %d, bound %d and reserved %d one is negative: use 0 or more",
				s.Name,
				seen[i].Replicas,
				seen[i].Ready,
				seen[i].Starting,
				seen[i].Bound,
				seen[i].Reserved,
			)
		}
		p := &places[i]
		p.closed, p.waits = seen[i].Unschedulable, seen[i].Unschedulable && seen[i].Waiting
		p.replicas = int64(seen[i].Replicas)
		p.healthy = max(p.replicas-int64(seen[i].Reserved), 0)
		if !p.closed {
			p.replicas = min(p.replicas, p.high)
		}
		p.stays = min(int64(seen[i].Ready), p.replicas)
		if !seen[i].Unsteady {
			p.ready = p.stays
		}
		p.bound = min(max(int64(seen[i].Bound), p.stays), p.replicas)
		p.exist = p.replicas
		if p.closed {
			p.exist = min(int64(seen[i].Ready)+int64(seen[i].Starting), p.replicas)
		}
	}
	return places, nil
}

// fill raises given towards upTo, in order, while n is left, and returns what is left.
func fill(n int64, given []int64, upTo func(i int) int64) int64 {
	for i := range given {
		give := min(max(upTo(i)-given[i], 0), n)
		given[i] += give
		n -= give
	}
	return n
}

// fillStandIns raises given towards the replicas of the chosen subsets and returns what is left of n. Pods that have a
// node come first, because an update may have replaced ready ones by them, and among them those of subsets with ready
// pods: these will get ready as those did.
func fillStandIns(n int64, given []int64, places []place, chosen func(i int) bool) int64 {
	for _, most := range []func(*place) int64{
		func(p *place) int64 { return p.works(min(p.bound, p.serving())) },
		func(p *place) int64 { return min(p.bound, p.serving()) },
		func(p *place) int64 { return p.works(p.serving()) },
		(*place).serving,
	} {
		n = fill(n, given, func(i int) int64 {
			if !chosen(i) {
				return 0
			}
			return most(&places[i])
		})
	}
	return n
}

// works returns number, or 0 if no pod of the subset is ready.
func (p *place) works(number int64) int64 {
	if p.stays == 0 {
		return 0
	}
	return number
}

// serving is how many of the replicas serve, or did before an update took them down: all but, in a closed subset,
// reserved ones that are not ready and those without a node, which may find none.
func (p *place) serving() int64 {
	if p.closed {
		return max(min(p.healthy, p.bound), p.stays)
	}
	return p.replicas - p.tries
}

// plainOf is the division that knows of bounds only.
func plainOf(n int64, places []place) []int64 {
	shares := make([]int64, len(places))
	n = fill(n, shares, func(i int) int64 { return places[i].low })
	fill(n, shares, func(i int) int64 { return places[i].high })
	return shares
}

// floor is what a subset has before others are filled: its min, and what has a node if it is closed.
func (p *place) floor() int64 {
	if p.closed {
		return max(p.exist, p.low)
	}
	return p.low
}

// idealOf is where the pods are to be in the end, given which subsets are closed. All have their mins first. A closed
// one is to have its floor, and no more while another may take them.
func idealOf(n int64, places []place) []int64 {
	shares := make([]int64, len(places))
	n = fill(n, shares, func(i int) int64 { return places[i].low })
	n = fill(n, shares, func(i int) int64 { return places[i].floor() })
	n = fill(n, shares, func(i int) int64 {
		if places[i].closed {
			return 0
		}
		return places[i].high
	})
	fill(n, shares, func(i int) int64 { return places[i].high })
	return shares
}

// baseOf divides n without moving what works; step is how many pods more may exist while pods return. The second result
// is the part of a closed subset that waits there because no open one may take it, the third how many wait as before
// although an open one may have room.
func baseOf(n, step int64, places []place, ideal []int64) (base, waiting []int64, kept int64) {
	base, waiting = make([]int64, len(places)), make([]int64, len(places))
	// The min of a closed subset comes first: the pod that waits there is how the subset is tried again. Without it the
	// subset would open when its time is over, get a pod, and lose it again.
	n = fill(n, base, func(i int) int64 {
		if !places[i].closed {
			return 0
		}
		return min(places[i].low, ideal[i])
	})
	// Ready pods in their place come next, then the stand-ins, so that the last in order lose.
	n = fill(n, base, func(i int) int64 { return min(places[i].ready, ideal[i]) })
	n = fill(n, base, func(i int) int64 { return places[i].ready })
	// Stand-ins that still start, or that an update replaces, are kept too, if all that exists in its place fits beside
	// them into what may exist while pods return. Else pods that start for longer than a subset stays closed would never
	// get ready anywhere.
	starting, inPlace := n, int64(0)
	for i := range places {
		if p := &places[i]; p.closed || p.replicas <= ideal[i] {
			inPlace += max(min(p.exist, ideal[i])-base[i], 0)
		}
	}
	starting = max(min(starting, starting+step-inPlace), 0)
	n -= starting - fillStandIns(
		starting,
		base,
		places,
		func(i int) bool { return !places[i].closed && places[i].replicas > ideal[i] },
	)
	// The rest is divided as if nothing ran.
	n = fill(n, base, func(i int) int64 { return places[i].low })
	n = fill(n, base, func(i int) int64 { return places[i].floor() })
	n, kept = keepWaiting(n, base, waiting, places)
	n = fill(n, base, func(i int) int64 {
		if places[i].closed {
			return 0
		}
		return places[i].high
	})
	before := slices.Clone(base)
	fill(n, base, func(i int) int64 { return places[i].high })
	for i := range base {
		waiting[i] += base[i] - before[i]
	}
	return base, waiting, kept
}

// keepWaiting raises base by pods that wait in closed subsets, less those that have found nodes in open ones. So pods
// are not deleted in one subset and made in another again and again while all lack room. It returns what is left of n
// and how many it kept, which it adds to waiting.
func keepWaiting(n int64, base, waiting []int64, places []place) (left, kept int64) {
	if !slices.ContainsFunc(places, func(p place) bool { return p.waits }) {
		return n, 0
	}
	n = fill(n, base, func(i int) int64 {
		if places[i].closed {
			return 0
		}
		return places[i].bound
	})
	before := slices.Clone(base)
	left = fill(n, base, func(i int) int64 {
		if places[i].waits {
			return min(places[i].replicas, places[i].high)
		}
		return 0
	})
	for i := range base {
		waiting[i] = base[i] - before[i]
	}
	return left, n - left
}

// minReason is a reason that names the user's min, if there is one.
func minReason(code string, s Subset) Reason {
	if s.Min == nil {
		return Reason{Code: code}
	}
	return Reason{code, map[string]string{"min": s.Min.String()}}
}
