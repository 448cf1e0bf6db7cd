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
// A subset without any cell: the number that the user fixed (replicas, or min) stays with it and is reported unplaced with
// reason NoCell, because somebody asked for exactly that; what the user left open (no bounds at all, or the part between
// min and max) goes to the other subsets, because nobody asked for that subset in particular. If no open subset has a
// cell, they keep their even shares and all of them are unplaced.
//
// Capacity and health never change stage 1: a subset that is full has unplaced replicas, it does not overflow into a
// neighbour. (The Adaptive strategy of UnitedDeployment, which does that, is not part of this package yet.)
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
// Nothing but Σ|s-current| as small as the bounds allow is ever moved, n+1 gives one cell one more, and n-1 takes it from
// that cell again. If Σu < n, all cells are at u and the rest is reported as unplaced; if Σl > n, the floors themselves
// are filled by weight. Stage 2 is flat inside a subset: a level of zones would run the same rule over sums of l and u.
//
// The cost is O((cells + moved) log cells) with moved at most the number of cells, whatever n is.
//
// # Worked example
//
// N = 12, subset a (replicas 25%) with cells east and west, subset b (open) with cells east, west, south, all new and of
// weight 1. Stage 1: a = floor(12*25/100 + 0.5) = 3, b = 12-3 = 9. Stage 2: a is 2/1 (the odd one by hash), b is 3/3/3.
// Now N = 14: a = 4, so the cell with 1 gets one; b = 10, so one of three equal cells gets one. A fourth cell joins b: it
// gets nothing yet, since nobody loses a running replica for it. N = 18: a = 5, b = 13: the fourth cell, furthest below
// its target, gets all three added replicas: 4/3/3/3.
package division
