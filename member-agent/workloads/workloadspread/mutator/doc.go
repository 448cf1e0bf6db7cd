// Package mutator gives pods of Deployments, ReplicaSets, StatefulSets and Jobs the subset of their WorkloadSpread when
// they are created. Those workloads are run by Kubernetes' own controllers, which know nothing of subsets, so the pods
// pass the chain of package admission. Workloads of apps.kruise.io need none of this: their controllers stamp the
// subset themselves. A StatefulSet here is one of apps.
//
// Rule: no pod is refused for the sake of its subset. In any doubt the pod starts as it is; the metric
// flotilla_pod_admissions_total counts that and the log says why. While nobody answers, the pods start unspread
// (failure policy Ignore). The controller of WorkloadSpreads corrects later what was not spread: it gives such pods a
// subset by their nodes, and by the deletion cost the workload removes surplus pods first.
//
// # How a pod gets its subset
//
//	scope.go       whose pods the API server sends: those of targets of WorkloadSpreads
//	mutator.go     which WorkloadSpread applies (of two the oldest), and the subset, as package kernel/spread stamps it
//	origin.go      pod → ReplicaSet → Deployment, from the cache. A ReplicaSet that the cache does not have yet is
//	               known by its name: the Deployment's, a hyphen, and the label pod-template-hash. The API server does
//	               not send pods of a ReplicaSet with another name, which a Deployment has adopted: they start unspread.
//	placements.go  how many pods each subset has: those that the cache shows, and those admitted here that it does not
//	               show yet
//	caches.go      what this replica watches, and whether it has listed it
//
// Not spread at admission, but corrected later: pods of a WorkloadSpread with percentages and
// targetFilter.replicasPathList.
//
// Where the cache is known to be behind, the mutator waits, for at most half of the timeout of the webhook: for a
// workload that the cache does not have yet, and on which the subset depends; and for one that has all its pods already
// in the cache, because then it was scaled out, or the pod that this one replaces is gone, and the cache does not show
// it yet. Nothing is written to the status of the WorkloadSpread, so that there is no second writer of it, and a
// hundred pods at once are no hundred conflicts.
//
// # How far it can be wrong
//
// A replica knows the pods that it admitted itself, and those that its cache shows. With several replicas each may fill
// the same place once: a subset is exceeded by at most the pods of that version that the other replicas admitted and
// this one's cache did not show yet, never more than (replicas of the agent - 1) times the cap. A Deployment of 60 that
// two replicas admit in turns, all at once, exceeds a cap of 10 by about 3. With one replica it is never exceeded,
// except when the agent restarts while pods are being created. A pod that is refused after its admission, by a quota
// for example, keeps its place for 30 seconds.
//
// # Example
//
// A Deployment "web" of 10 has the WorkloadSpread {a: 30 %, b: 70 %}: caps 3 and 7. Its ReplicaSet creates ten pods at
// once. The first three admissions find 0, 1 and 2 pods of that ReplicaSet and choose a; the others choose b. A new
// version has a ReplicaSet of its own, so its counts begin at 0 and it is spread 3 and 7 again, while the old pods are
// deleted.
package mutator
