// Package snapshot holds what decisions depend on, outside of a hub.
//
// A [Snapshot] is read by package placement as the hub's cache is, so that a plan and the hub decide by the same code
// from the same objects. It is recorded from a hub ([Record]), read from files ([Read]), or both, one over the other
// ([Snapshot.Put]); [Write] writes it as YAML documents that Read takes.
package snapshot
