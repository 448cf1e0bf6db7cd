// Command hostile gives Flotilla malformed and hostile objects of all its kinds, and wants no panic, no answer of the
// kind 5xx and bounded memory:
//
//	go run ./e2e/hostile                        a million in this process, 20 000 to a real API server with hub and agent
//	go run ./e2e/hostile -n 50000 -server 0     in this process alone
//	go run ./e2e/hostile -seed 7 -n 1 -skip 41  one that was found, again
//
// In this process an object goes through what it would meet: decoding, conversion as the webhook does it, the hub's
// decision about two workloads in a world where it stands beside well-meant objects, what people are told about that,
// the manifests of the members, the sums, and on the member's side the order and its report. Definitions and rules of
// validation do not stand before that: what an older definition lets through must not harm either.
//
// At the real API server the definitions and the rules are there, and hub, agent and their webhooks run: the answers
// are counted, and at the end the programs must have panicked at nothing, be the processes that they were, and still
// carry out a workload.
package main
