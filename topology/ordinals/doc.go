// Package ordinals gives each member cluster its own ordinals of a workload with identities, so that no two pods of one
// workload have the same name in any two clusters.
//
// Each member owns ranges of ordinals, 1,000 at first. It keeps them as long as the workload lives, also while it has
// no replicas: pods that it runs again get the names and the claims that they had. Nobody else gets them, with one
// exception: when a lost member is fenced, so that it runs no pod any more, the ordinals that it ran move to the
// members that replace it. db-2 stays db-2. The rest of its ranges is given up, and a member that returns gets a new
// range.
//
// Ordinals are unique, not contiguous. All numbers of this package are offsets: the user's spec.ordinals.start is added
// when a member's manifest is rendered.
//
// The package is pure.
package ordinals
