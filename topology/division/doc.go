// Package division divides the replicas of one workload over the cells of a fleet. It is pure: the same input gives the
// same plan, in whatever order the cells come, and every number of the plan carries its reason.
//
// A cell is (subset, cluster) or (subset, cluster, zone). The division has two stages.
//
// # Stage 1: N over the subsets, in the user's order
//
// A percentage p of N is floor(N*p/100 + 0.5), with p an integer from 0 to 100.
//
//	any subset has min or max:   1. in order, give each subset min(min, what is left);
//	                             2. in order, give each subset min(max-min, what is left).
//	                             A subset with replicas counts as min = max = replicas here.
//	otherwise:                   a subset with replicas gets them; the subsets left open share the rest r evenly:
//	                             r/k each, the r%k odd ones go to the largest current number, then the greatest name.
//	replicas that do not fit:    where the numbers of the subsets do not sum to N (33/33/34 % of 10, 50/50 % of 5) they
//	(above N, or all given       are weights: the divisor method below splits N, each tie going to the subset that has
//	and below N)                 the replica now. The reason says so (SumMismatch), and subsets left open get 0.
//
// A subset without any cell: the number that the user fixed (replicas, or min) stays with it and is reported unplaced
// with reason NoCell, because somebody asked for exactly that; what the user left open (no bounds at all, or the part
// between min and max) goes to the other subsets, because nobody asked for that subset in particular. If no open subset
// has a cell, they keep their even shares and all of them are unplaced.
//
// Capacity and health never change stage 1: a subset that is full has unplaced replicas, it does not overflow into a
// neighbour. The Adaptive strategy of UnitedDeployment does that: see [Adaptive] and [Reserve] below.
//
// # Stage 2: a subset's number n over its cells
//
// Bounds of cell i: its room u = min(max, current+capacity), its floor l = min(min, u). A frozen cell has u = min(max,
// current), and its floor is u as long as the other cells can give what has to go.
//
//	c = clamp(current, l, u)                                             what is running stays
//	S = Σc
//	S < n:  s = clamp(round(λ*weight), c, u), with λ so that Σs = n      only cells below their target gain
//	S > n:  s = clamp(round(λ*weight), l, c), with λ so that Σs = n      only cells above their target lose
//
// round is Webster's: half up, and ties at the last seat go to the cell with more room, then by a hash of the cell's
// identity and [Input.Salt]. Comparisons are exact: w/(2s+1) against w'/(2s'+1) in 128-bit integers, no floating point.
// Nothing but Σ|s-current| as small as the bounds allow is ever moved, n+1 gives one cell one more, and n-1 takes it
// from that cell again. If Σu < n, all cells are at u and the rest is reported as unplaced; if Σl > n, the floors
// themselves are filled by weight.
//
// # Groups, bounds and types
//
// [Spread.By] groups the cells of a subset: region, zone, cluster. Each level runs the rule above over sums: a group's
// l and u are those of what is below it, within its own [Bound]; what it has is the sum of what its cells keep. So each
// level has an exact sum and loses only what a bound, health or n forces, and n+1 gives one cell one more. A bound of
// what no group stands for (a cluster's over three zones, or anything over several subsets), and the room of a [Pool],
// is kept afterwards: where the sum is exceeded, the max is divided over its cells as their ceilings, by the same rule,
// those first that have no other place to go; where it is not reached, the min as their floors, each subset and each
// group with a bound up to what its cells beside the bound can give above their own floors; then the subsets are
// divided again. A max always holds. The order of the limits can leave replicas unplaced that another order would have
// placed: compared with all allocations of small cases (up to six cells and seven replicas), 0.6 % of those with bounds
// that cross place one to three fewer than could be, 1.9 % are further below mins than they had to be, and 1.9 % move
// more. Many of these would be mended by moving one replica to another cell, which is not tried. Where limits cross,
// the next division of a plan may go on from it: those are made at once, and the plan that none of the next ones
// betters is taken, by what is placed, what is to be left, and what mins lack. What is there already comes first.
// Bounds of a tree (regions, zones in them, cells in those) never place less, and meet mins that can be met with the
// least that can move; what frozen cells have counts as their min there.
//
// A group's number alone says how it goes over what is below it. As it grows it fills, one after the other: what is
// there of the cells' floors; what frozen cells have; what is there of the groups' floors; the floors; what runs; what
// may run. So n+1 gives one cell one more also where a group's max is below what its frozen cells have and the floors
// of the others.
//
//	""         weights: of the bounds, else of the cells, and 1 for a group
//	Available  the weight is Current+Capacity: what is placed does not change it. Unknown room counts as the least known
//	Compact    one entry after the other up to u: those in use first, then the greatest Current+Capacity; the last gives first
//
// [Spread.MaxSkew] bounds the groups of the first level to a window [w, w+MaxSkew]: the highest one for which what the
// type gives stays above w. It cannot rise above what the smallest group takes, dead ones, those of weight 0 and those
// at their max aside. What runs above the window stays; groups below it get what is new first, those above it give
// first.
//
// Taints: a cell with NoSchedule gets nothing new; one with PreferNoSchedule only what no other takes, also where it
// could meet the min of a group; one with NoExecute is first divided without, and then keeps what no other took,
// whatever the skew and its weight.
//
// The cost is O((cells + moved) log cells) with moved at most the number of cells, whatever n is.
//
// # Adaptive: subsets that cannot schedule their pods
//
// [Adaptive] takes the place of stage 1. It knows of each subset how many replicas it was given, how many pods of those
// are ready (R, at most the replicas), how many others have a node and start (S), and whether it is closed: pods could
// not be scheduled, and it is not yet time to try again.
//
//	ideal:   floors in order: min, but max(R+S, min) for a closed subset;
//	         ceilings in order: max, but nothing more for a closed subset;
//	         what no open subset may take: to the closed ones, in order, up to their max.
//	base:    1. in order, min(R, ideal)                  ready pods in their place
//	         2. in order, R                              ready stand-ins; the last in order lose first
//	         3. in order, the replicas of open subsets   stand-ins that still start, as far as N and the step leave room for
//	            above their ideal                        what exists in its place, and N for the mins of closed subsets
//	         4. floors and ceilings, as for the ideal
//	return:  subsets below their ideal get up to max(1, N/4 rounded up) pods more: first what exists there, then in order
//	         what is new, in open ones
//
// The base sums to N and is the published arithmetic of OpenKruise, min' = max(R, min) and max' = min(R, max) for a
// closed subset, min' = max(R, min) for an open one, where that keeps what runs. The return is ours: OpenKruise leaves
// the pods where they are until N changes. The step is as much as a Deployment adds by default in a rollout. Each pod
// of it that gets ready raises R in its place, so the base takes one from the last stand-in, and the next pod of the
// step comes. So no ready pod goes before its replacement is ready, the sum is never above N plus the step, and since
// each ready pod in its place brings the base nearer to the ideal, it ends there. A step that finds no node closes its
// subset again, and the base never counted on it. All is a function of what is seen now: a controller that starts anew
// goes on where it was, and N, bounds or states may change in the middle of a return.
//
// With k subsets, a subset should stay closed for k times as long as a pod may be unschedulable; else the first ones
// are tried again before the last one was tried at all.
//
// Differences from OpenKruise beside the return, each because the published rule would lose pods:
//
//   - Where floors and ready pods exceed N, ready pods come before floors that are not ready. OpenKruise fills the
//     floors in order, so that a min that was raised, or that cannot be scheduled, takes ready pods from later subsets.
//   - Pods of a closed subset that have a node stay while they start. OpenKruise drops them, so that pods which start
//     for longer than rescheduleCriticalSeconds never get ready in a subset that has room for a part of them.
//   - Stand-ins that still start stay while others are tried. OpenKruise drops what is not ready at each trial, so that
//     pods which start for longer than unschedulableDuration would never get ready.
//   - R is at most the replicas, since surge pods of a rollout are no reason to have more.
//   - What no open subset may take waits in a closed one. OpenKruise asks for fewer than N pods then.
//
// [Overflow] is the same with a step of 0: nothing that runs comes back, and the sum is never above N. The hub uses it,
// with subsets as closed whose cells take no more.
//
// # Reserve: the same, with the pods that wait kept
//
// [Reserve] gives, in order, all mins, and then each subset up to its max, or a closed one what it has. Of a closed
// subset only the replicas without the reserved pods count against N, so others run in place of those that are
// reserved; if those cannot be scheduled either, others once more, up to N for each subset, as published. Differences
// from OpenKruise:
//
//   - A stand-in that is ready stays until a pod in its place is ready: at least min(N, ready) ready pods stay.
//     OpenKruise marks a subset as closed again when it has recovered and grows, and loses the stand-ins where that
//     comes too late.
//   - No subset gets more than N. OpenKruise may ask for its min beside N where all is reserved.
//   - At least N pods are asked for, if the bounds allow it: what no open subset may take waits in a closed one.
//
// Its return has no step: that pods wait beside their stand-ins is what was asked for.
//
// # Worked examples
//
// Adaptive, subsets a (max 2), b (max 2) and c, N = 4, b is closed: a 2, b 0, c 2, all ready. b opens: its ideal is 2,
// c's 0; the step is 1: a 2, b 1, c 2. b's pod is ready: a 2, b 2, c 1; and the next one: a 2, b 2, c 0. Had b's first
// pod found no node: a 2, b 0, c 2.
//
// Divide, N = 12, subset a (replicas 25%) with cells east and west, subset b (open) with cells east, west, south, all
// new and of weight 1. Stage 1: a = floor(12*25/100 + 0.5) = 3, b = 12-3 = 9. Stage 2: a is 2/1 (the odd one by hash),
// b is 3/3/3. Now N = 14: a = 4, so the cell with 1 gets one; b = 10, so one of three equal cells gets one. A fourth
// cell joins b: it gets nothing yet, since nobody loses a running replica for it. N = 18: a = 5, b = 13: the fourth
// cell, furthest below its target, gets all three added replicas: 4/3/3/3.
package division
