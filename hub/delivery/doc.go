// Package delivery turns a placement into Works, one for each member that has cells of it: stage 3 of the hub (see
// package hub).
//
// render is pure: the user's object and a member's cells in, the manifest of that member out. The rest compares the
// Works that there are with those that there should be, and writes the differences in parallel over the members.
//
// # When it acts
//
// Only on a placement that answers the generation of the user's object in the cache: a manifest never mixes a new
// template with old numbers. A placement that is frozen (no policy, bad input) therefore changes no Work once the
// user's object moved on.
//
// # Deletion
//
// A placement that is deleted takes its Works with it when the user's object is gone or withdrawn, and is let go as
// soon as every Work has a deletion timestamp; a member that never answers keeps its own Work waiting and nothing
// else. A placement that somebody deleted by hand while its workload stands is let go without touching the Works: the
// next decision adopts them.
package delivery
