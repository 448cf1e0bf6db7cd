// Package ephemeraljob is the controller of EphemeralJobs: ephemeral containers in pods that run already.
//
//	reconcile.go  the phases: gather, decide, apply, report
//	plan.go       pure: the job and the pods that it selects → the pods that get the containers, the counters, the end
//	apply.go      adds containers to pods; deletes the job after its time to live
//	status.go     the status
//
// A pod has containers of the job if the environment of one of its ephemeral containers has KRUISE_EJOB_ID with the UID
// of the job. So a job of the same name that was created again adds its containers again, and a restart of the agent
// adds none twice.
//
// Example: 3 pods, parallelism 2. The two oldest pods get the containers. When those of one have ended, the third does.
package ephemeraljob
