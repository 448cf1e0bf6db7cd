// Package serving is the one TLS server of flotilla-agent and flotilla-hub. API servers call it:
//
//	/convert              to convert objects of older versions
//	/validate-templates   to validate the pod templates of workloads; writes pass while it is unavailable (Ignore)
//
// The agent's admission handlers are registered on it too.
//
// Rule: whoever runs, serves. The certificate is no file: it lies in a Secret, every replica reads it through the API
// and writes it where it is missing or due, and the first write wins. What API servers trust (caBundle) is written by
// the leader alone, and only where it is different.
//
// A certificate is renewed when a quarter of its life is left. A new authority is first added to what is trusted and
// signs its first certificate later, so nobody meets a certificate that he does not trust yet.
//
// Example: two agents start on an empty cluster. Both find no Secret flotilla-system/flotilla-agent-webhook and create
// one; the second is told that it exists, reads it, and both serve the same certificate. The leader writes its
// authority into spec.conversion of the CustomResourceDefinitions. Nine months later one of the two writes a new
// certificate of the same authority, and the other serves it as soon as its watch says so; nothing else changes.
//
// The library cert-controller makes the authorities and judges certificates. Its rotator as a whole does not fit: it
// waits for a mounted file and ends the program without one, needs a Secret that somebody made before, knows no
// addresses in certificates (only names), replaces an authority and its certificate in one step, and reads the clock
// itself.
package serving
