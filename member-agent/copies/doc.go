// Package copies is the member's own memory of its orders. For each Work that the agent carries out it keeps a Secret
// in the agent's namespace of the member, which owns nothing and is owned by nothing, so that an agent that is
// restarted while its hub is away still knows what is to stand, and goes on repairing it. A Work may carry a Secret, so
// a copy is one.
//
// A copy is written after its order was carried out, and before a deletion; it says what the Work said, without its
// status. It is written when the order changed and at no other time, and goes when the Work is finished. One more
// Secret has the standing: which cluster the hub had pinned under this name when it was heard last. Copies are orders
// only for that cluster.
//
// codec.go turns a Work into the Secret and back and is pure; store.go reads them once and writes them.
package copies
