// Package rights is what the hub may do on its own API server. What the approver may do, and members, is in package
// registration.
package rights

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// program names the hub's ServiceAccount, roles and Service, and with "-webhook" the Secret of its certificate.
const program = "flotilla-hub"

// templates is the name of the ValidatingWebhookConfiguration for templates, as package serving has it.
const templates = "flotilla-templates"

// deletions is the name of the ValidatingWebhookConfiguration for deletions, as package deletion has it.
const deletions = "flotilla-hub-deletions"

const read = "get list watch"

func rule(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups:     []string{group},
		Resources:     strings.Fields(resources),
		Verbs:         strings.Fields(verbs),
		ResourceNames: names,
	}
}

// Rules are what the hub may do outside of its own namespace.
func Rules() []rbacv1.PolicyRule {
	const (
		topology = "topology.flotilla.dev"
		kruise   = "apps.kruise.io"
		budgets  = "policy.kruise.io"
		crds     = "apiextensions.k8s.io"
	)
	return []rbacv1.PolicyRule{
		// Members and policies: it reads them, pins the identity of members, and tells how they are.
		rule(topology, "memberclusters", read+" patch"),
		rule(topology, "memberclusters/status", "patch"),
		rule(topology, "federationpolicies clusterfederationpolicies", read),
		rule(topology, "federationpolicies/status clusterfederationpolicies/status", "patch"),
		// Decisions, and the orders that are made of them.
		rule(topology, "workloadplacements", read+" create update patch delete"),
		rule(topology, "workloadplacements/status", "patch"),
		rule(topology, "workloadplacements/finalizers", "update"),
		rule("work.karmada.io", "works", read+" create patch delete"),
		// Templates that workloads had are kept for rollout undo.
		rule("apps", "controllerrevisions", "get list create patch delete"),
		// What happens in the waves of an update is told on the workload.
		rule("", "events", "create patch"),
		rule("events.k8s.io", "events", "create patch"),
		// What users ask for is theirs; the hub writes its status, and owns a placement by it.
		rule(kruise,
			"advancedcronjobs broadcastjobs clonesets daemonsets imagepulljobs podprobemarkers resourcedistributions "+
				"sidecarsets statefulsets uniteddeployments workloadspreads", read),
		rule(kruise, "advancedcronjobs/status broadcastjobs/status clonesets/status daemonsets/status "+
			"imagepulljobs/status podprobemarkers/status resourcedistributions/status sidecarsets/status "+
			"statefulsets/status uniteddeployments/status", "patch"),
		rule(kruise,
			"advancedcronjobs/finalizers broadcastjobs/finalizers clonesets/finalizers daemonsets/finalizers "+
				"imagepulljobs/finalizers podprobemarkers/finalizers resourcedistributions/finalizers "+
				"sidecarsets/finalizers statefulsets/finalizers uniteddeployments/finalizers", "update"),
		rule(budgets, "podunavailablebudgets", read),
		rule(budgets, "podunavailablebudgets/status", "patch"),
		rule(budgets, "podunavailablebudgets/finalizers", "update"),
		// Jobs are deleted after their ttlSecondsAfterFinished.
		rule(kruise, "broadcastjobs imagepulljobs", "delete"),
		// What goes with a workload is copied to members.
		rule("", "services configmaps secrets serviceaccounts persistentvolumeclaims", read),
		rule("multicluster.x-k8s.io", "serviceexports", read),
		// Each member has a namespace, and a Lease in it. Namespaces are never deleted.
		rule("", "namespaces", read+" create"),
		rule("coordination.k8s.io", "leases", read),
		// Where templates and deletions are checked, and objects of our kinds are converted. The verb create knows no names.
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", read+" create"),
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "update", templates, deletions),
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "delete", deletions),
		// What keeps a namespace that is protected: only metadata is read.
		rule("", "pods", "list"),
		rule(crds, "customresourcedefinitions", read+" patch",
			"advancedcronjobs.apps.kruise.io", "clonesets.apps.kruise.io",
			"containerrecreaterequests.apps.kruise.io", "daemonsets.apps.kruise.io",
			"persistentpodstates.apps.kruise.io", "podunavailablebudgets.policy.kruise.io",
			"resourcedistributions.apps.kruise.io", "sidecarsets.apps.kruise.io", "statefulsets.apps.kruise.io",
			"uniteddeployments.apps.kruise.io", "workloadspreads.apps.kruise.io"),
	}
}

// KarmadaRules are what the hub may do beside that where it takes its members from Karmada (--inventory=karmada): it
// makes and deletes members as Karmada's Clusters come and go, and looks whether Karmada's policies select what it
// places.
func KarmadaRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("cluster.karmada.io", "clusters", read),
		rule("policy.karmada.io", "propagationpolicies clusterpropagationpolicies", read),
		rule("topology.flotilla.dev", "memberclusters", "create delete"),
	}
}

// WorkloadRules are what the hub may do beside that where its own cluster runs no workloads of apps/v1 and batch/v1
// (--hub-runs-workloads=false): it reads those that it copies to members.
func WorkloadRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("apps", "daemonsets deployments replicasets statefulsets", read),
		rule("batch", "cronjobs jobs", read),
	}
}

// ClusterProfileRules are what the hub may do in the namespace of ClusterProfiles, where it publishes its members there
// (--cluster-profiles).
func ClusterProfileRules() []rbacv1.PolicyRule {
	const group = "multicluster.x-k8s.io"
	return []rbacv1.PolicyRule{
		rule(group, "clusterprofiles", read+" create patch delete"),
		rule(group, "clusterprofiles/status", "patch"),
	}
}

// NamespaceRules are what the hub may do in its own namespace: it leads by a Lease, and keeps its certificate in a
// Secret. To create cannot be bound to a name.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", "create"),
		rule("coordination.k8s.io", "leases", "get update", program),
		rule("", "secrets", "create"),
		rule("", "secrets", read+" update", program+"-webhook"),
		rule("", "events", "create patch"),
		rule("events.k8s.io", "events", "create patch"),
	}
}
