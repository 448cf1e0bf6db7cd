// Package budgets decides about operations on pods under PodUnavailableBudgets, on every replica of the agent.
//
//	known.go    the PodUnavailableBudgets of the cluster, once their CustomResourceDefinition is there
//	members.go  the pods of a budget, and the number of pods that there are to be
//	keeper.go   decisions, each of which is one write of a status
//	review.go   the guard: which operation a request is, and the answer
//	relate.go   the annotations by which a new pod names its budget
//	scope.go    which requests the API server sends
//	metrics.go  how many requests were refused
//
// Reads come from caches. Two things are requests: the write of a decision, and the read of a budget after a conflict.
package budgets
