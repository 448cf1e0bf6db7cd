// Package audit reads the audit log of a Kubernetes API server and counts its mutating requests by who sent them, what
// they did and to which resource. Tests of a steady state and benchmarks use it.
//
// It expects the format of `--audit-log-format=json` (one event per line) and looks at the stage ResponseComplete only,
// so that a request counts once, whatever the audit policy writes beside it. A watch counts when it begins, if the
// policy writes that (ResponseStarted) and omits its end: the end of one that an API server takes with it is never
// written. [ReadRequests] is for those who ask what may have happened: it has requests without an answer too.
package audit
