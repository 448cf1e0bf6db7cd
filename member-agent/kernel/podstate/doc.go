// Package podstate owns the question "is this pod ready, is it available, and how many are". It is pure: the caller
// passes the time.
//
// The rule: a pod is available when it is running, Ready since at least minReadySeconds, and carries no label with the
// prefix unavailable-pod.kruise.io/. Example: Ready since 12:00:00 and minReadySeconds 10: at 12:00:04 it is ready, not
// available, and the caller should look again in 6 s.
package podstate
