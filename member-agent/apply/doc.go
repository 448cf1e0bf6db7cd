// Package apply makes the member objects stand as the hub's Works say. For each Work: gather what the Work asks and what
// stands in the member (gather.go), decide (plan.go, pure), carry it out (execute.go), and leave the outcome for the
// report (outcome.go). It is woken by changes of Works and by changes of the member objects themselves, so that drift is
// repaired at once; where nothing differs it sends nothing.
//
// Objects that do not carry the hub's mark are never touched, and an object is deleted only on a Work that was seen with
// a deletion timestamp.
package apply
