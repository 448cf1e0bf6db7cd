// Package pods has the verbs that reach into a member: `flotilla logs` and `flotilla exec`. They go to the member's API
// server, by a context of the user's kubeconfig and with the user's rights there: the hub cannot reach into members.
package pods
