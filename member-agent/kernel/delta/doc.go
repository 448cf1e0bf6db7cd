// Package delta owns the question "how many": how many pods to create, remove and update of which revision, given what
// exists and the limits. It is pure. Which pods these are is package order's answer.
//
// The rule: let N be replicas, P the pods that stay on the old revision. The aim is P old and N−P new pods. In one
// pass, and in this order, the pods that somebody asked to delete go, then pods beyond N, then pods move from the
// revision that has too many to the one that has too few, and what is missing is created. A pod that is available may
// be taken away only while more than N − maxUnavailable are; pods that are unavailable cost nothing, but no more than
// maxUnavailable (and the surge that exists) pods of the revision that pods move to may be unavailable at a time. Surge
// exists only for pods that must be recreated: an update in place needs none, unless maxUnavailable is 0.
//
// Example: N 10, P 0, maxSurge 3, maxUnavailable 0, 10 old pods available, recreated: 3 new ones are created. When
// these are available there are 13, 3 above what must be: 3 old ones go and 3 new ones are created in the same pass.
package delta
