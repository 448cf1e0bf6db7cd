// Package daemons plays flotilla-node on the simulated nodes of a member. What a daemon does next are the plans of the
// real one; the container runtime, the registry, the containers that are probed and the kubelet that starts a stopped
// container again are simulated. A daemon can be killed at any time: it forgets what it remembered, and what the
// runtime did stays.
package daemons
