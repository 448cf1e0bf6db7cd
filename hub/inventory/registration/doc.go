// Package registration lets clusters become members, and none but those that a person accepted. It runs as a program of
// its own, `flotilla-hub approver`: the controllers that place workloads cannot approve certificates nor give rights.
//
// # Joining
//
//  1. `flotilla token create NAME` (token.go) reserves the name: a MemberCluster that is not accepted, and a
//     ServiceAccount made for that name alone. Its token lasts an hour. All that it may do is to read that
//     MemberCluster, and to make one CertificateSigningRequest, whose name is given (rights.go). It lists nothing, and
//     reads and writes nothing of others.
//  2. The agent makes a key and the request.
//  3. `flotilla accept NAME` (accept.go) looks at the request, and pins the key's fingerprint and the id of the cluster
//     in MemberCluster.spec. Until then nothing is approved: a stolen token yields a pending request, and no more.
//  4. The approver (judge.go) approves the request if everything of it is as it has to be: its name, who made it, the
//     subject, the key, the usages, and that it asks for nothing else. It gives the user of the certificate the rights
//     of that member.
//
// Where the hub's signer does not answer, or the MemberCluster says so, the answer is a token of a ServiceAccount of
// the member, sealed for the key (answer.go). All that goes for certificates goes for tokens: who may ask, for which
// key, and with which rights.
//
// The user is flotilla:member:<name>:<uid of the MemberCluster>. The agent renews its certificate by itself; the key
// stays, for it is what was accepted. When the MemberCluster is deleted, the rights go at once, and with them all that
// its credentials are good for. One that is accepted no longer gets no more certificates, and keeps its rights until it
// is deleted: its workloads leave it, which its agent has to carry out.
package registration
