// Package capi holds clusters of Cluster API, with its own CustomResourceDefinitions on a real API server, to what
// docs/tasks/cluster-api.md says of them (make capi). Providers are played by the test: it writes kubeconfigs, and lets
// deleted Machines go as Cluster API does.
package capi
