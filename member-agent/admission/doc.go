// Package admission gives pods of Deployments, ReplicaSets, StatefulSets and Jobs the subset of their WorkloadSpread when they are
// created. Those workloads are run by Kubernetes' own controllers, which know nothing of subsets, so the API server has to ask.
// Workloads of apps.kruise.io need none of this: their controllers stamp the subset themselves.
//
// Rule: no pod is refused for the sake of its subset, and none that no WorkloadSpread is for waits. The API server asks about
// pods of targeted workloads only, and not at all where there are none (configuration.go, conditions.go). Whoever answers admits
// every pod; in any doubt the pod starts as it is, which the metric flotilla_pod_admissions_total and a line in the log tell.
// While nobody answers, pods of targets start unspread, after two seconds at most. The controller of WorkloadSpreads puts right
// later what was not spread: it gives such pods a subset by their nodes, and by the deletion cost the workload removes the ones
// too many first.
//
// # How a pod gets its subset
//
//	handler.go   which WorkloadSpread holds (of two the oldest), and its answer; every replica of the agent answers
//	workload.go  pod → ReplicaSet → Deployment, from the cache. A ReplicaSet that the cache does not have yet is known by its
//	             name: the Deployment's, a hyphen, and the label pod-template-hash. One that is called otherwise, because a
//	             Deployment has adopted it, is not asked about: its pods start unspread.
//	book.go      how many pods each subset has: those that the cache shows, and those admitted here that it does not show yet
//	patch.go     the answer: what package kernel/spread stamps, and nothing else
//
// Not spread at admission, but put right later: pods of a WorkloadSpread with percentages and targetFilter.replicasPathList.
//
// The handler reads caches and memory; it makes no request. Where its cache is seen to be behind it waits, a second at most: for a
// workload that the cache does not have yet, and on which the subset depends; and for one that has all its pods already in the
// cache, for then it was scaled out, or the pod that this one replaces has gone, and the cache does not show it yet. Nothing is written to the status of the WorkloadSpread, so that admission is no
// second writer of it, and a hundred pods at once are no hundred conflicts.
//
// # How far it can be wrong
//
// A replica knows the pods that it admitted itself, and those that its cache shows. With several replicas each may fill the same
// place once: a subset is exceeded by at most the pods of that version that the other replicas admitted and this one's cache did
// not show yet, never more than (replicas of the agent - 1) times the cap. A Deployment of 60 that two replicas admit in turns,
// all at once, exceeds a cap of 10 by about 3. With one replica it is
// never exceeded, except when the agent starts anew with pods on their way. A pod that is refused after its admission, by a quota
// for example, keeps its place for 30 seconds.
//
// # Example
//
// A Deployment "web" of 10 has the WorkloadSpread {a: 30 %, b: 70 %}: caps 3 and 7. Its ReplicaSet creates ten pods at once. The first
// three admissions find 0, 1 and 2 pods on the page of that ReplicaSet and get a; the others get b. A new version has a
// ReplicaSet of its own, so its page is empty and it is spread 3 and 7 again, while the old pods go.
package admission
