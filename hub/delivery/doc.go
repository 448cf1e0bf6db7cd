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
// If the user's object is gone or withdrawn, the Works of a deleted placement are deleted, and its finalizer is removed
// as soon as every Work has a deletion timestamp: a member that never answers holds its own Work alone. In a foreground
// deletion the finalizer stays until the Works are gone, except those of members that are not Ready. A placement that a
// person deleted while its workload exists loses its finalizer, and its Works stay: the next decision adopts them.
package delivery
