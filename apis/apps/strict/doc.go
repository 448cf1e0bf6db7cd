// Package strict finds what a Go type of Kubernetes does not take of a JSON value, with the path and the value of each.
package strict
