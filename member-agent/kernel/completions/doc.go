// Package completions owns the question "on which nodes does a job run now, and how does it end", for a job that runs
// one pod to its end on each node. It is pure: the time, which nodes fit and what checks found are given.
//
// The rule. Each node that fits gets a pod, while fewer than Parallelism pods are active. A pod that has ended stays
// and counts, also on a node that does not fit any more: its node is not touched again. A pod that has not started on a
// node that does not fit is deleted. All counts are those of the listed pods.
//
// A failed pod fails the job (FailFast), is counted (Continue) or halts it (Pause). A halted job creates no pods until
// a person resumes it; then failures up to that moment count no more.
//
// With batches, nodes go by their order and then by their names. Pods carry the number of their batch, so a batch is
// what has its number. Nodes that join later are in a later batch, and a node that goes makes room for no other one.
// The next batch begins when the pods of this one have ended and the soak after that is over. What checks find before
// halts the job. A resumed job goes on with the next batch, and so does one whose batch is promoted.
//
// A job in several clusters follows the order of a hub: that says how many nodes may be touched, when the next batch
// begins and when the job ends. Checks, failures, halts and the deadline stay those of the cluster.
//
// The job is complete when each node has a pod that has ended and the last batch has soaked. A job without nodes is not
// complete. Completed and failed jobs stay so.
//
// Example: nodes a to e, batches of 2, soak 10m: pods on a and b. 10m after both have succeeded, pods on c and d. A
// check finds after 3m that another pod on c restarted: the job halts, and e is never touched unless a person resumes
// the job.
package completions
