// Package order owns the question "which pod first". It is pure: a rule gives a pod a rank, and rules are chained from
// the most to the least important; ties end with the name, so the order never depends on the order of the input. Ranks
// are worked out once for each pod, so ordering 10 000 pods takes milliseconds.
//
// The rule when pods are removed, as published: not assigned to a node, then Pending, Unknown, Running, not available,
// not ready, lower deletion cost, in a more crowded place, ready for a shorter time, more restarts, newer. Example: two
// ready pods alone on their nodes, with deletion costs 10 and -5: the one with -5 goes.
//
// The rule when pods are updated, as published: by priorityStrategy, then the least healthy first; then scatterStrategy
// spreads its pods over the whole update; pods whose update is being prepared come before all.
// Example: of ten pods three match a scatter term: they are the 1st, the 6th and the 10th to be updated, in however
// many passes that happens.
package order
