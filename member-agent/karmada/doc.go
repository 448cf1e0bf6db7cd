// Package karmada carries out Works that a hub of Karmada wrote, in place of the execution part of Karmada's own agent:
// it applies each manifest, corrects drift, deletes what the hub deletes, and reflects the status. Registration, the
// Lease and the status of the Cluster stay with Karmada's agent, which is started without its controllers execution and
// workStatus.
//
// An object is touched where it carries Karmada's label karmada.io/managed, or where the Work says
// work.karmada.io/conflict-resolution: overwrite; any other object of that name is left alone, and the Work says so.
// Server-side apply sends what the manifest names, and leaves alone what others own beside it.
package karmada
