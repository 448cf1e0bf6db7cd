// Package rights is what an agent may do in its member.
package rights

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// agentName names the agent's ServiceAccount, roles and bindings in the member.
const agentName = "flotilla-agent"

// webhook is the name of the agent's webhook configurations for pods, as package admission has it.
const webhook = "flotilla-pods"

// templates is the name of the ValidatingWebhookConfiguration for templates, as package serving has it.
const templates = "flotilla-templates"

// deletions is the name of the ValidatingWebhookConfiguration for deletions, as package deletion has it.
const deletions = "flotilla-deletions"

// requests is the name of the MutatingWebhookConfiguration for ContainerRecreateRequests, as their guard has it.
const requests = "flotilla-containerrecreaterequests"

// sidecarSets is the name of the ValidatingWebhookConfiguration for SidecarSets, as package guard has it.
const sidecarSets = "flotilla-sidecarsets"

// nodePulls is the Role in the agent's namespace that lists the copies of pull secrets.
const nodePulls = "flotilla-node-pulls"

const (
	read   = "get list watch"
	change = "create update patch delete"
	write  = read + " " + change
)

// kruise is the group of the workloads, kruisePolicy that of the budgets.
const (
	kruise       = "apps.kruise.io"
	kruisePolicy = "policy.kruise.io"
)

func rule(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups:     []string{group},
		Resources:     strings.Fields(resources),
		Verbs:         strings.Fields(verbs),
		ResourceNames: names,
	}
}

// Rules are what the agent may do in its member, outside of its own namespace, if the hub may bring every kind that
// agents carry.
func Rules() []rbacv1.PolicyRule {
	all, carried := OwnRules(), CarriedRules()
	for _, kind := range slices.Sorted(maps.Keys(carried)) {
		all = append(all, carried[kind]...)
	}
	return all
}

// OwnRules are what the agent may do whatever a hub may bring: what its workload controllers and the conversion of the
// own kinds need.
func OwnRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// Stage 5: workloads, their children and their pods. UnitedDeployments make CloneSets.
		rule(kruise, "clonesets", write),
		// A job is deleted after its ttlSecondsAfterFinished.
		rule(kruise, "broadcastjobs", read+" create delete"),
		rule(kruise, "advancedcronjobs", read),
		// An EphemeralJob is deleted after its ttlSecondsAfterFinished, and loses a finalizer of OpenKruise.
		rule(kruise, "ephemeraljobs", read+" patch delete"),
		rule(kruise, "ephemeraljobs/status", "get update patch"),
		rule("", "pods/ephemeralcontainers", "patch"),
		// PodProbeMarkers are carried out by NodePodProbes, whose status is the node daemon's. A marker loses a finalizer of
		// OpenKruise.
		rule(kruise, "podprobemarkers", read+" patch"),
		rule(kruise, "podprobemarkers/status", "get update patch"),
		rule(kruise, "nodepodprobes", read+" create patch"),
		// Annotations of workloads ask for PersistentPodStates.
		rule(kruise, "persistentpodstates", write),
		rule(kruise, "persistentpodstates/status", "get update patch"),
		// Each node has a NodeImage, which its daemon reports in.
		rule(kruise, "nodeimages", write),
		// A job is deleted after its ttlSecondsAfterFinished. An ImagePullJob loses a finalizer of OpenKruise.
		rule(kruise, "imagelistpulljobs imagepulljobs", read+" create delete"),
		rule(kruise, "imagepulljobs", "patch"),
		rule(kruise, "imagelistpulljobs/status imagepulljobs/status", "get update patch"),
		rule(kruise, "imagelistpulljobs/finalizers imagepulljobs/finalizers", "update"),
		// Requests are marked, end, and are deleted after their ttlSecondsAfterFinished.
		rule(kruise, "containerrecreaterequests", write),
		rule(kruise, "containerrecreaterequests/status", "get update patch"),
		// Barriers of pods whose containers start in an order. They are not read.
		rule("", "configmaps", "create patch"),
		// White lists of kinds, which OpenKruise has in its namespace.
		rule("", "configmaps", "get", "kruise-configuration"),
		// The agent does not start beside an OpenKruise manager, whose Lease shows that it runs.
		rule("coordination.k8s.io", "leases", "get", "kruise-manager"),
		// The hashes of a SidecarSet are annotations on it.
		rule(kruise, "sidecarsets", read+" patch"),
		rule(kruise, "daemonsets statefulsets", read+" patch"), // a restart in place that has stopped says so
		rule(kruise, "resourcedistributions uniteddeployments workloadspreads", read),
		rule(kruise, "advancedcronjobs/status broadcastjobs/status clonesets/status daemonsets/status "+
			"resourcedistributions/status sidecarsets/status statefulsets/status uniteddeployments/status "+
			"workloadspreads/status",
			"get update patch"),
		rule(kruise, "advancedcronjobs/finalizers broadcastjobs/finalizers clonesets/finalizers daemonsets/finalizers "+
			"resourcedistributions/finalizers sidecarsets/finalizers statefulsets/finalizers "+
			"uniteddeployments/finalizers workloadspreads/finalizers", "update"),
		rule(kruisePolicy, "podunavailablebudgets", read),
		rule(kruisePolicy, "podunavailablebudgets/status", "get update patch"),
		rule("apps", "deployments statefulsets controllerrevisions", write),
		rule("apps", "replicasets", read),
		// Whether the pods of a DaemonSet are ready, before a SidecarSet has one created again.
		rule("apps", "daemonsets", "get"),
		rule("apps", "deployments/status statefulsets/status", "get"),
		rule("", "pods", write),
		rule("", "pods/status pods/resize", "get update patch"),
		rule("", "pods/eviction", "create"),
		rule("", "persistentvolumeclaims", write),
		// Pods of Jobs are spread, too. AdvancedCronJobs make Jobs.
		rule("batch", "jobs", read+" create delete"),
		// Which annotations SidecarSets may overwrite.
		rule("", "configmaps", "get", "kruise-configuration"),
		// The agent does not start beside an OpenKruise manager, whose Lease shows that it runs.
		rule("coordination.k8s.io", "leases", "get", "kruise-manager"),
		// Stage 4: the namespaces of what a hub brings. They are never deleted.
		rule("", "namespaces", read+" create patch"),
		// Stage 6: zones and room.
		rule("", "nodes", read),
		rule("", "events", "create patch"),
		rule("events.k8s.io", "events", "create patch"),
		// The webhooks for pods, templates, deletions and SidecarSets, and where objects of our kinds are converted. Those
		// of others must not be touched. The verb create knows no names.
		rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations", read+" create"),
		rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "update patch delete", webhook),
		rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "update", requests),
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "update patch delete", webhook),
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "update", templates, deletions, sidecarSets),
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "delete", deletions),
		rule("apiextensions.k8s.io", "customresourcedefinitions", read),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "patch",
			"advancedcronjobs.apps.kruise.io", "clonesets.apps.kruise.io",
			"containerrecreaterequests.apps.kruise.io", "daemonsets.apps.kruise.io",
			"persistentpodstates.apps.kruise.io", "podunavailablebudgets.policy.kruise.io",
			"resourcedistributions.apps.kruise.io", "sidecarsets.apps.kruise.io", "statefulsets.apps.kruise.io",
			"uniteddeployments.apps.kruise.io", "workloadspreads.apps.kruise.io"),
	}
}

// CarriedRules are what the agent may do beside OwnRules for stage 4, by the Kind.group that it carries for a hub. A
// kind without rules is one that the workload controllers make themselves.
func CarriedRules() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"AdvancedCronJob.apps.kruise.io":               {rule(kruise, "advancedcronjobs", change)},
		"BroadcastJob.apps.kruise.io":                  {rule(kruise, "broadcastjobs", change)},
		apps.CloneSetKind.GroupKind().String():         {},
		"ConfigMap":                                    {rule("", "configmaps", write)},
		"CronJob.batch":                                {rule("batch", "cronjobs", write)},
		"DaemonSet.apps":                               {rule("apps", "daemonsets", write)},
		"DaemonSet.apps.kruise.io":                     {rule(kruise, "daemonsets", change)},
		"Deployment.apps":                              {},
		"ImagePullJob.apps.kruise.io":                  {rule(kruise, "imagepulljobs", change)},
		"Job.batch":                                    {rule("batch", "jobs", change)},
		"PersistentVolumeClaim":                        {},
		"PodProbeMarker.apps.kruise.io":                {rule(kruise, "podprobemarkers", change)},
		"PodUnavailableBudget.policy.kruise.io":        {rule(kruisePolicy, "podunavailablebudgets", change)},
		"ReplicaSet.apps":                              {rule("apps", "replicasets", change)},
		"ResourceDistribution.apps.kruise.io":          {rule(kruise, "resourcedistributions", change)},
		"Secret":                                       {rule("", "secrets", write)},
		"Service":                                      {rule("", "services", write)},
		"ServiceAccount":                               {rule("", "serviceaccounts", write)},
		"ServiceExport.multicluster.x-k8s.io":          {rule("multicluster.x-k8s.io", "serviceexports", write)},
		"SidecarSet.apps.kruise.io":                    {rule(kruise, "sidecarsets", change)},
		"StatefulSet.apps":                             {},
		"StatefulSet.apps.kruise.io":                   {rule(kruise, "statefulsets", change)},
		apps.UnitedDeploymentKind.GroupKind().String(): {rule(kruise, "uniteddeployments", change)},
		"WorkloadSpread.apps.kruise.io":                {rule(kruise, "workloadspreads", change)},
	}
}

// DistributionRules are what the agent may do beside OwnRules to carry out ResourceDistributions. They are a role of
// their own, bound only where that is asked for: with them the agent can read every Secret.
func DistributionRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("", "configmaps secrets", write)}
}

// PullSecretRules are what the agent may do beside OwnRules to copy the Secrets of ImagePullJobs for the daemons of
// nodes. They are a role of their own, bound only where that is asked for: with them the agent can read every Secret
// whose name it knows.
func PullSecretRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("", "secrets", "get")}
}

// NamespaceRules are what the agent may do in its own namespace: it leads by a Lease, and keeps Secrets, which are what
// it shows the hub, its copies of Works and the certificate of its webhook.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", write),
		rule("", "secrets", write),
		// Which copies of pull secrets the daemons of nodes may read. The verb create knows no names.
		rule("rbac.authorization.k8s.io", "roles", "create"),
		rule("rbac.authorization.k8s.io", "roles", "get update", nodePulls),
	}
}

// Objects returns the agent's ServiceAccount in the namespace, and the roles and bindings that give it its rights.
func Objects(namespace string) []client.Object {
	in := metav1.ObjectMeta{Namespace: namespace, Name: agentName}
	out := metav1.ObjectMeta{Name: agentName}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: agentName}}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: in},
		&rbacv1.ClusterRole{ObjectMeta: out, Rules: Rules()},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: out,
			Subjects:   subjects,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agentName},
		},
		&rbacv1.Role{ObjectMeta: in, Rules: NamespaceRules()},
		&rbacv1.RoleBinding{
			ObjectMeta: in,
			Subjects:   subjects,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: agentName},
		},
	}
}
