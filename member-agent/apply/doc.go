// Package apply makes the member objects stand as the hub's Works say. For each Work: gather what the Work asks and what
// stands in the member (gather.go), decide (plan.go, pure), carry it out (execute.go), and leave the outcome for the
// report (outcome.go). It is woken by changes of Works and by changes of the member objects themselves, so that drift is
// repaired at once; where nothing differs it sends nothing.
//
// What was carried out is kept as a copy in the member (member-agent/copies). An order that is new waits while the hub has not
// answered the session (hold.go); an order that was carried out is kept up always.
//
// Objects that do not carry the hub's mark are never touched, and an object is deleted only on a Work that was seen with
// a deletion timestamp, by this process or, as the copy says, by one before. The object of a Work that vanished otherwise
// is left as it stands and named to the hub.
package apply
