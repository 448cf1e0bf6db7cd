// Package apiserver is what packages need whose tests run against a real API server: a bare one, or a cluster with
// schedulers, controllers and simulated nodes, with our definitions, and managers on it.
package apiserver
