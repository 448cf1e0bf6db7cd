// Package apply carries out the hub's Works in the member. For each Work it gathers the order and the object in the
// member (gather.go), decides (plan.go, pure), executes (execute.go), and stores the outcome for the report
// (outcome.go). Events of Works and of the member objects wake it, so that drift is corrected at once. If nothing
// differs, it sends no request.
//
// The member keeps a copy of each Work that was carried out (member-agent/copies). A new order waits until the hub has
// answered the session. An order that was carried out is enforced always.
//
// Objects without the hub's label are never changed. An object is deleted only if its Work was seen with a deletion
// timestamp, by this process or, as the copy says, by an earlier one. The object of a Work that disappeared without one
// stays as it is, and is named to the hub.
package apply
