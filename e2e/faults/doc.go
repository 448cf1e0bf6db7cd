// Command faults runs the controllers of e2e/kinds as a child process behind a proxy that makes the API server look
// bad, kills the child in the middle of its writes, and lets a scripted user change everything meanwhile:
//
//	go run ./e2e/faults -for 30m -seed 7
//
// A recorder with watches of its own, which no fault touches, sees every version of every pod and workload. From that
// log package e2e/judge decides whether a controller ever made an available pod unavailable beyond the limits in
// force, or created pods beyond replicas + maxSurge. After each episode the faults stop: then everything must come to
// rest within a deadline, the status must say what the pods say, and nothing more may be written.
//
// What the user or a pod itself made unavailable is charged to the controller once its watch has delivered that and a
// pass had time to end.
//
// The seed fixes what is drawn, not how the draws meet: processes and the network stay as they are. With -break the
// child is made wrong, and the run must report violations: that proves the checker.
package main
