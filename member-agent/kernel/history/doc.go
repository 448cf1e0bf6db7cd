// Package history owns the question "which revisions of a template does this workload have": it names, builds,
// compares, finds, trims and restores ControllerRevisions. Any owner and any template type can use it; the template is
// what the owner keeps under spec.template.
//
// The rule: a revision stores {"spec":{"template":{…,"$patch":"replace"}}}, its name is "<owner>-<hash>" with the hash
// of those bytes, and two templates are the same revision when they mean the same, not when their bytes agree. What is
// written has the bytes that OpenKruise's managers write, because those do compare bytes.
// Example: a revision written by another Kubernetes version says "creationTimestamp":null and
// "terminationMessagePolicy":"File"; the template in hand says neither. Both are equal, the stored revision (and its
// name, which pods carry as a label) stays, and no rollout starts.
//
// store.go alone talks to an API server.
package history
