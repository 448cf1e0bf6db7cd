// Package pods has the verbs that read or enter pods in members: `flotilla logs`, `exec`, `port-forward`, `top pods`,
// `get pods` and `get events`. They go to the API servers of the members, by contexts of the user's kubeconfig and with
// the user's rights there: the hub cannot reach into members.
//
// fleet.go reaches the members and asks all of them at once, and selectors.go finds the pods of a workload in one of
// them. rows.go makes rows of pods, and position.go decides which lines of a log are new.
package pods
