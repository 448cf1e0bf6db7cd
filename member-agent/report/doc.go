// Package report tells the hub what became of each order: whether the object was applied, its status, the newest order
// that was carried out, and what the member uses of the shares that it was granted. build.go and pace.go are pure: what
// a report says, and when it leaves. One report leaves at once, then at most one per Work and second, and none while
// nothing changed. That an order is followed, and that all is done that it asked for, does not wait for that second:
// the hub grants to others what it lowered, or what is not used any more.
package report
