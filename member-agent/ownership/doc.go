// Package ownership owns the question which part of a member's object belongs to an order of the hub, and what makes
// that part equal to the order. It is pure.
//
// The rule: the whole content of the object belongs to the order (the spec of a workload or Service, the data of a
// ConfigMap or Secret), and so do the labels and annotations that the order has. Labels and annotations of others stay.
//
// [Replace] writes the content whole, so a field that the order does not have is gone, whoever wrote it. Server-side
// apply cannot promise that: a field that another manager owns, too, stays when the order loses it, and a list in which
// a key stands twice (two environment variables of one name) cannot be applied at all.
//
// What the API server answers is the order after defaults and the member's admission. Its [Digest] is kept; an object
// with another digest was changed by somebody else. What a server assigns on its own is not compared ([assigned]).
package ownership
