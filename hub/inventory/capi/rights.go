package capi

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// program names the ServiceAccount, roles and Lease.
const program = "flotilla-capi"

const (
	topologyGroup = "topology.flotilla.dev"
	capiGroup     = "cluster.x-k8s.io"
	rbacGroup     = "rbac.authorization.k8s.io"
	eventsGroup   = "events.k8s.io"
)

func rule(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups:     []string{group},
		Resources:     strings.Fields(resources),
		Verbs:         strings.Fields(verbs),
		ResourceNames: names,
	}
}

// Rules are what the program may do on the hub. The approver gives rights to members and takes them; this program makes
// the one role of a token for joining, and can give it no right that it does not have itself.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(topologyGroup, "memberclusters", "get list watch create patch delete"),
		// What is left in a member that leaves, and its orders, which go with it.
		rule(topologyGroup, "workloadplacements", "list"),
		rule("work.karmada.io", "works", "list patch delete"),
		rule("coordination.k8s.io", "leases", "delete"),
		rule("", "namespaces", "get create delete"),
		// The role of a token for joining, and what is in it.
		rule(rbacGroup, "clusterroles clusterrolebindings", "get create update"),
		rule("certificates.k8s.io", "certificatesigningrequests", "get create patch delete"),
	}
}

// NamespaceRules are what the program may do in flotilla-system on the hub: make tokens for joining, and lead by a
// Lease. To create cannot be bound to a name.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "serviceaccounts", "get create patch delete"),
		rule("", "serviceaccounts/token", "create"),
		rule("coordination.k8s.io", "leases", "create"),
		rule("coordination.k8s.io", "leases", "get update", program),
		rule("", "events", "create patch"),
		rule(eventsGroup, "events", "create patch"),
	}
}

// ManagementRules are what the program may do where Cluster API runs. Secrets it reads by their names alone: it lists
// none.
func ManagementRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(capiGroup, "clusters machines", "get list watch patch"),
		rule(capiGroup, "clusters/status", "patch"),
		rule(capiGroup, "machinepools", "list"),
		rule("", "secrets", "get"),
		rule("", "events", "create patch"),
		rule(eventsGroup, "events", "create patch"),
	}
}
