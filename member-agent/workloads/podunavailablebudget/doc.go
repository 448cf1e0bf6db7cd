// Package podunavailablebudget is the controller of PodUnavailableBudgets in a member. It counts: how many pods of a
// budget are available, how many must stay, and which decisions still hold. Decisions are made by package budgets.
//
//	setup.go      what the controller watches
//	reconcile.go  a pass: gather the pods → count → name the budget on its pods → status
//	mark.go       the annotations of pods that name their budget
//	status.go     the status, which is written only as it was read, since decisions are written there too
package podunavailablebudget
