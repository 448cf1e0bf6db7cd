// Package lifecycle owns the published states of a pod's life, the hooks that hold a pod in them, and the mark that
// makes a held pod not ready. It is pure.
//
// The rule: a caller says what it wants with a pod (Delete, Update, Keep) and gets a Step: the state to write, the mark
// to set or take away, and whether it may go on now. The answer depends on nothing but the pod as it is, so it does not
// matter whether the outside acts before or after our write, and a pod taken over from OpenKruise goes on where it
// stood. A label of an unknown state counts as none. A hook blocks while any of its labels or finalizers is on the pod,
// and holds (is complete) when all are; that is how OpenKruise lets two parties share a hook. An empty hook does
// neither.
//
//	state            Delete              Update (in place)             Keep
//	none, Normal     blocked: P.Delete   blocked: P.Update             stays
//	PreparingNormal  blocked: P.Delete   blocked: P.Update             when preNormal holds, or there is none and the pod is
//	                                                                   scheduled: Normal, or Updating if an update in place
//	                                                                   has not arrived and there is inPlaceUpdate
//	PreparingUpdate  blocked: P.Delete   blocked: waits                called off: Normal when inPlaceUpdate holds or there
//	                                                                   is none, else Updated
//	Updating         blocked: P.Delete   blocked: P.Update             when done: Normal if inPlaceUpdate holds or there is
//	                                                                   none, else Updated
//	Updated          blocked: P.Delete   blocked: P.Update             Normal when inPlaceUpdate holds or there is none
//	PreparingDelete  blocked: waits      pulled back first, see Keep   pulled back: PreparingNormal with a preNormal hook,
//	                                                                   else Normal
//
// Where nothing blocks, Delete proceeds without a write. Update proceeds with Updating, or with Normal if there is no
// inPlaceUpdate hook; a pod that still waits for preNormal proceeds and stays PreparingNormal, so that preNormal is not
// jumped over. A pod whose earlier update in place is not done yet, called off or pulled back, goes to Updating.
// A pod that somebody named for deletion must not be given to Keep: to pull back is the caller's choice.
//
// Deliberate differences from OpenKruise: a pod of a workload without preNormal is Normal from its creation, and one
// without an inPlaceUpdate hook stays Normal while it is updated; this spares a write per pod for a state that nobody
// waits for. A pod that is Updated may be updated again before its hook is complete again. A pod pulled back loses its
// mark.
//
// The mark is the condition KruisePodReady, which is also a readiness gate. Its message is a JSON list of its writers,
// and it is True only when the list is empty; the entries of others are kept byte for byte. Gates of a running pod
// cannot be changed: a hook that is added later can mark a pod only if podready.InjectGate changed it when it was
// created. OpenKruise injects the gate into all its pods. A pod without the gate cannot be marked: its hooks hold, but
// it stays ready meanwhile.
//
// Example: preDelete has the label drain=wanted and markPodNotReady; pod web-a has the label and is surplus. Delete
// answers PreparingDelete with the mark, and waits. The outside drains web-a and removes the label: Delete answers
// Proceed.
package lifecycle
