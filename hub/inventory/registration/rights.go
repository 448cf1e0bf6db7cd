package registration

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// requestVerbs are what may be done to the one request of a given name. To create it means to apply it: an object that
// is posted has no name yet when the rights to it are looked up.
func requestVerbs() []string { return []string{"create", "delete", "get", "patch"} }

func rule(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

// JoinRules are all that a token for joining may do.
func JoinRules(member string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(topology.GroupVersion.Group, "memberclusters", member, "get"),
		rule("certificates.k8s.io", "certificatesigningrequests", topology.JoinObject(member), requestVerbs()...),
	}
}

// MemberRules are what a member's agent may do outside of its namespace.
func MemberRules(member string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(topology.GroupVersion.Group, "memberclusters", member, "get", "list", "watch"),
		rule(topology.GroupVersion.Group, "memberclusters/status", member, "patch"),
		rule("certificates.k8s.io", "certificatesigningrequests", topology.MemberObject(member), requestVerbs()...),
	}
}

// NamespaceRules are what a member's agent may do in its namespace. It patches Works to take away its own finalizer.
func NamespaceRules(member string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(work.GroupVersion.Group, "works", "", "get", "list", "watch", "patch"),
		rule(work.GroupVersion.Group, "works/status", "", "patch"),
		rule("coordination.k8s.io", "leases", member, "create", "get", "patch"),
	}
}

// memberRole names the roles of members, and joinRole those of tokens for joining.
func memberRole(member string) string { return "flotilla:member:" + member }
func joinRole(member string) string   { return "flotilla:join:" + member }

// namespaceRole names the role in a member's namespace.
const namespaceRole = "flotilla:member"

// MemberObjects returns the roles and bindings of an accepted member, for its user, and for its ServiceAccount if it
// shows tokens: the rights are the same.
func MemberObjects(m *topology.MemberCluster, tokens bool) []client.Object {
	subjects := []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: topology.MemberUser(m.Name, m.UID)},
	}
	if tokens {
		subjects = append(
			subjects,
			rbacv1.Subject{
				Kind:      rbacv1.ServiceAccountKind,
				Namespace: topology.MembersNamespace,
				Name:      topology.MemberObject(m.Name),
			},
		)
	}
	return append(clusterRole(m, memberRole(m.Name), MemberRules(m.Name), subjects...),
		&rbacv1.Role{ObjectMeta: owned(m, wire.MemberNamespace(m.Name), namespaceRole), Rules: NamespaceRules(m.Name)},
		&rbacv1.RoleBinding{
			ObjectMeta: owned(m, wire.MemberNamespace(m.Name), namespaceRole), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: namespaceRole},
		})
}

// joinObjects returns the role and binding of a token for joining.
func joinObjects(m *topology.MemberCluster) []client.Object {
	subject := rbacv1.Subject{
		Kind:      rbacv1.ServiceAccountKind,
		Namespace: topology.SystemNamespace,
		Name:      topology.JoinObject(m.Name),
	}
	return clusterRole(m, joinRole(m.Name), JoinRules(m.Name), subject)
}

func clusterRole(
	m *topology.MemberCluster,
	name string,
	rules []rbacv1.PolicyRule,
	subjects ...rbacv1.Subject,
) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: owned(m, "", name), Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: owned(m, "", name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	}
}

// owned returns the metadata of an object that goes with the member.
func owned(m *topology.MemberCluster, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{topology.LabelMember: m.Name},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: topology.GroupVersion.String(), Kind: "MemberCluster", Name: m.Name, UID: m.UID,
		}},
	}
}
