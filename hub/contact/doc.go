// Package contact tells since when the hub is in contact with its API server. A hub that was cut off knows nothing of
// the members' Leases: it has to listen again before it judges anyone. By the versions of what is stored, and by the
// Lease of the election, a replica notices that the API server was put back to an older state, and ends to begin anew.
package contact
