// Package credential is how an agent shows its hub who it is: it has a key, asks the hub to sign a certificate for it,
// keeps both in a Secret of the member, and asks again in good time.
//
// The first request is made with the token of `flotilla join`, and waits for a person on the hub. Every later one is
// made with the certificate itself, once two thirds of its life are over, and at once after an outage if it is later
// than that. The key stays: it is what the person accepted. A certificate that ran out during an outage needs a new
// token: run `flotilla join` again; the key is still accepted, so nobody has to be asked.
//
// A hub whose signer signs nothing answers with a token of a ServiceAccount in its place, sealed for the key that asked
// (hub/inventory/registration). It is kept, renewed and given up by the same rules.
//
// Connections are never cut: requests that begin after a rotation are sent over new ones.
package credential
