// Package sidecarset is the controller of SidecarSets: it keeps their revisions, and brings new images to running pods.
// New pods get their sidecars at admission, by package mutator.
//
//	setup.go      what the controller watches
//	reconcile.go  a pass: gather, plan, apply, report
//	gather.go     what a pass reads, and what keeps a SidecarSet from being carried out
//	revisions.go  ControllerRevisions in the namespace of the agent
//	status.go     the status and the conditions
//	federated.go  what a hub grants, and what a report says
//
// The pure parts are packages of their own: revision, marks, inject, expr and rollout.
package sidecarset
