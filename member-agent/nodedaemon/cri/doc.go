// Package cri finds the container runtime of a node by its socket and connects to it. It knows containerd, CRI-O and
// cri-dockerd, and takes the endpoint of any other that serves CRI v1.
package cri
