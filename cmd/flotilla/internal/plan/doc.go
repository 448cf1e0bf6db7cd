// Package plan is the verb `flotilla plan`: what the hub would do, by the hub's own code, without doing it; and
// `flotilla snapshot`, which records what decisions depend on.
package plan
