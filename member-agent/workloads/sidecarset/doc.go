// Package sidecarset is the controller of SidecarSets: it keeps their revisions, and brings new images to running pods.
// New pods get their sidecars at admission, by package mutator.
//
//	setup.go      what the controller watches
//	reconcile.go  a pass: gather, plan, apply, report
//	scope.go      what a pass knows, and what is remembered between passes
//	gather.go     what a pass reads, and what keeps a SidecarSet from being carried out
//	missing.go    pods that were created without their sidecars
//	permit.go     what budgets and workloads say of the pods of the plan
//	recreate.go   pods that are evicted, so that their workloads create them again
//	revisions.go  ControllerRevisions in the namespace of the agent
//	status.go     the status and the conditions
//	federated.go  what a hub grants, and what a report says
//
// The pure parts are packages of their own: revision, marks, inject and rollout. Package guard refuses names that
// collide.
package sidecarset
