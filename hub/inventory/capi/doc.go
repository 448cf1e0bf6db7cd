// Package capi makes members of the clusters of Cluster API. It runs in a program of its own, flotilla-capi: it holds
// the kubeconfigs of clusters, which neither the hub nor the approver need.
//
// # A Cluster with the label topology.flotilla.dev/join=true
//
//  1. It gets a finalizer, and each of its Machines the pre-terminate hook. The name is checked first: a member that
//     somebody made by hand is never taken over (plan.go).
//  2. Its kubeconfig is read from the Secret <name>-kubeconfig each time (kubeconfig.go): a new one counts at once, and
//     nothing is kept open.
//  3. The MemberCluster is made, with the labels of the Cluster and its region (apply.go).
//  4. What flotilla join writes is written into the cluster, and the MemberCluster is accepted with the key that was
//     made there and the id that was read there: who holds the kubeconfig needs nobody to compare fingerprints. The
//     agent then asks, and the approver answers, as ever.
//  5. The agent's objects and the CustomResourceDefinitions are applied (the interface Cluster, which cmd/flotilla-capi
//     fulfils).
//  6. Failure domains become zones: nodes whose Machine has one, and that no cloud provider gave a zone, get the label.
//
// # A Cluster that is deleted, or loses the label
//
// Its member is drained, within the limits of its workloads and for no longer than the Cluster's drain timeout; then it
// leaves, the hooks and the finalizer go, and Cluster API goes on (leave.go). Cluster API deletes the Machines of a
// deleted Cluster at once, whatever finalizers the Cluster has: the finalizer alone would hold an empty name. Its
// runtime hook BeforeClusterDelete needs a feature gate, a webhook, and a ClusterClass. The pre-terminate hook is an
// annotation that every Machine of every provider honours, also while the Cluster is deleted, where the pre-drain hook
// is not looked at. A Machine that is deleted while its Cluster stays is let go at once.
//
// # A member that is not heard of
//
// Once a Machine or MachinePool of it had a node, and no Machine is left and no MachinePool, nothing runs there: the
// member is fenced, as flotilla fence does (machines.go).
package capi
