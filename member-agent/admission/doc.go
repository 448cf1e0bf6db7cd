// Package admission is the chain through which new pods of a member pass. It knows no kind: each kind hands in a
// Mutator, and member-agent/setup.go lists them in the order in which they change a pod.
//
//	chain.go          the endpoint, on every replica: one decode of the pod, the mutators in order, one JSON patch
//	scope.go          which pods a mutator is asked about, and what happens to them while nobody answers
//	entries.go        pure: scopes → entries, that is which pods the API server sends, each of them once
//	configuration.go  entries → the webhooks of the one MutatingWebhookConfiguration, which reconcile.go keeps
//
// # Rules
//
// A pod that no object of ours selects is neither delayed nor refused: the API server evaluates the conditions itself
// and does not send such a pod. Conditions never fail, so that no failure policy applies to a pod of others. Where
// there is nothing to select, there is no configuration.
//
// While nobody answers, the API server follows the failure policy of the entry: selected pods start unchanged after
// Timeout (Ignore), or are refused (Fail). A request that the chain cannot answer is a failed call, so the same policy
// applies to it.
//
// Mutators read caches and memory; they make no request. A wait for a cache is shorter than the Timeout.
//
// # Entries
//
// An API server evaluates matchConditions over the pod and the request. They do not see the labels of the namespace,
// which only the namespaceSelector of a webhook selects. So there is one entry per failure policy and distinct
// namespaceSelector. Its condition is that any of its scopes selects the pod, and that no earlier entry takes it.
//
// Example: a scope under Fail selects pods with tier=web in namespaces with env=prod, another one under Ignore selects
// pods with app=db in all namespaces.
//
//	Fail    env in (prod)     tier=web
//	Ignore  env in (prod)     app=db, and not tier=web
//	Ignore  env notin (prod)  app=db
package admission
