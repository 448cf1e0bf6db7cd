package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	hubrights "github.com/flotilla-dev/flotilla/hub/rights"
	"github.com/flotilla-dev/flotilla/member-agent/rights"
)

// Users by which the audit logs tell our programs apart.
const (
	// HubUser is the hub program on the hub's cluster.
	HubUser = "flotilla-hub"
	// ApproverUser is the approver on the hub's cluster.
	ApproverUser = "flotilla-approver"
	// AgentUser is each agent on its own member.
	AgentUser = "flotilla-agent"
)

// MemberUser returns the user name of a member's agent on the hub.
func MemberUser(member string) string { return "flotilla:member:" + member }

// Identity makes a client certificate for the user, without groups, and returns the path of a kubeconfig with it. What
// the user may do is the caller's to say. An identity that was made before is kept.
func (c *Cluster) Identity(user string) (string, error) {
	path := filepath.Join(c.fleet.Dir, "kubeconfigs", c.Name+"-as-"+strings.ReplaceAll(user, ":", "-")+".yaml")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	pki := filepath.Join(c.dir(), "pki")
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		return "", fmt.Errorf("make a certificate for %s: %w", user, err)
	}
	cert, key, err := clientCertificate(ca, user)
	if err != nil {
		return "", fmt.Errorf("make a certificate for %s: %w", user, err)
	}
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]})
	if _, err := c.writeKubeconfig(path, user, caPEM, cert, key); err != nil {
		return "", err
	}
	return path, nil
}

// clientCertificate returns a certificate and its key, both PEM, that authenticate the user for a month: a try-out may
// run for long.
func clientCertificate(ca tls.Certificate, user string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	const serialBits = 120 // X.509 allows 20 bytes; these never clash
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, nil, err
	}
	issuer, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.AddDate(0, 1, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}

// HubIdentity returns a kubeconfig of the hub's cluster for the hub program, with the rights that it needs.
func (f *Fleet) HubIdentity(ctx context.Context) (string, error) { return f.Hub().HubIdentity(ctx) }

// HubIdentity is Fleet.HubIdentity for any cluster.
func (c *Cluster) HubIdentity(ctx context.Context) (string, error) {
	if err := c.grant(ctx, HubUser, "", hubRules()); err != nil {
		return "", err
	}
	if err := c.ensureSystemNamespace(ctx); err != nil {
		return "", err
	}
	if err := c.grant(ctx, HubUser, topology.SystemNamespace, hubrights.NamespaceRules()); err != nil {
		return "", err
	}
	return c.Identity(HubUser)
}

// ApproverIdentity returns a kubeconfig of the hub's cluster for the approver, with the rights that it needs.
func (f *Fleet) ApproverIdentity(ctx context.Context) (string, error) {
	hub := f.Hub()
	if err := hub.ensureSystemNamespace(ctx); err != nil {
		return "", err
	}
	if err := hub.grant(ctx, ApproverUser, "", registration.ApproverRules()); err != nil {
		return "", err
	}
	if err := hub.grant(ctx, ApproverUser, topology.SystemNamespace, registration.ApproverNamespaceRules()); err != nil {
		return "", err
	}
	if err := hub.ensureNamespace(ctx, topology.MembersNamespace); err != nil {
		return "", err
	}
	if err := hub.grant(ctx, ApproverUser, topology.MembersNamespace, registration.ApproverMembersRules()); err != nil {
		return "", err
	}
	return hub.Identity(ApproverUser)
}

// AgentIdentity returns a kubeconfig of the member for its own agent, with the rights that it needs.
func (f *Fleet) AgentIdentity(ctx context.Context, member *Cluster) (string, error) {
	rules := append(rights.Rules(), rule("apps.kruise.io", "*", write), rule("apps", "replicasets", write),
		rule("coordination.k8s.io", "leases", write))
	if err := member.grant(ctx, AgentUser, "", rules); err != nil {
		return "", err
	}
	if err := member.ensureSystemNamespace(ctx); err != nil {
		return "", err
	}
	if err := member.grant(ctx, AgentUser, topology.SystemNamespace, rights.NamespaceRules()); err != nil {
		return "", err
	}
	return member.Identity(AgentUser)
}

// MemberIdentity returns a kubeconfig of the hub's cluster for the agent of a member: it reads its own Works and
// MemberCluster, writes their status, and keeps its Lease; nothing of other members. The member's namespace is made.
func (f *Fleet) MemberIdentity(ctx context.Context, member string) (string, error) {
	return f.Hub().MemberIdentity(ctx, member)
}

// MemberIdentity is Fleet.MemberIdentity for any cluster that is a hub.
func (c *Cluster) MemberIdentity(ctx context.Context, member string) (string, error) {
	user := MemberUser(member)
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return "", fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	namespace := work.NamespacePrefix + member
	_, err = client.CoreV1().Namespaces().Apply(ctx, applycorev1.Namespace(namespace), applied())
	if err != nil {
		return "", fmt.Errorf("apply namespace %s: %w", namespace, err)
	}
	if err := c.grant(ctx, user, namespace, memberNamespaceRules()); err != nil {
		return "", err
	}
	if err := c.grant(ctx, user, "", memberRules(member)); err != nil {
		return "", err
	}
	return c.Identity(user)
}

func applied() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
}

// grant gives the user the rules: in namespace, or everywhere if that is empty, and returns when the API server goes by
// them. They replace what was granted before. The roles' names are the fleet's own, since the approver of the hub
// writes those that are named after members.
func (c *Cluster) grant(ctx context.Context, user, namespace string, rules []rbacv1.PolicyRule) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	subject := applyrbacv1.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.UserKind).WithName(user)
	name := "fleet:" + user
	ref := applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithName(name)
	rbac := client.RbacV1()
	if namespace == "" {
		role := applyrbacv1.ClusterRole(name).WithRules(policyRules(rules)...)
		if _, err = rbac.ClusterRoles().Apply(ctx, role, applied()); err == nil {
			binding := applyrbacv1.ClusterRoleBinding(name).WithSubjects(subject).WithRoleRef(ref.WithKind("ClusterRole"))
			_, err = rbac.ClusterRoleBindings().Apply(ctx, binding, applied())
		}
	} else {
		role := applyrbacv1.Role(name, namespace).WithRules(policyRules(rules)...)
		if _, err = rbac.Roles(namespace).Apply(ctx, role, applied()); err == nil {
			binding := applyrbacv1.RoleBinding(name, namespace).WithSubjects(subject).WithRoleRef(ref.WithKind("Role"))
			_, err = rbac.RoleBindings(namespace).Apply(ctx, binding, applied())
		}
	}
	if err != nil {
		return fmt.Errorf("grant %s its rights on %s: %w", user, c.Name, err)
	}
	return c.awaitRights(ctx, client, user, namespace, rules)
}

// awaitRights returns when the API server allows the user the first of what each rule says: its authorizer learns of
// roles and bindings by watches, a little later than they are written.
func (c *Cluster) awaitRights(ctx context.Context, client kubernetes.Interface, user, namespace string,
	rules []rbacv1.PolicyRule) error {
	const patience = 2 * time.Minute // milliseconds on a quiet machine
	lacks := ""
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		for i := range rules {
			resource, sub, _ := strings.Cut(rules[i].Resources[0], "/")
			question := &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: rules[i].Verbs[0], Group: rules[i].APIGroups[0], Resource: resource, Subresource: sub,
			}
			if names := rules[i].ResourceNames; len(names) > 0 {
				question.Name = names[0]
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
				ResourceAttributes: question}}
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return false, err
			}
			if !answer.Status.Allowed {
				lacks = fmt.Sprintf("it may not %s %s", question.Verb, rules[i].Resources[0])
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the rights of %s on %s: %w: %s", user, c.Name, err, lacks)
	}
	return nil
}

func policyRules(rules []rbacv1.PolicyRule) []*applyrbacv1.PolicyRuleApplyConfiguration {
	out := make([]*applyrbacv1.PolicyRuleApplyConfiguration, 0, len(rules))
	for _, rule := range rules {
		out = append(out, applyrbacv1.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return out
}

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources),
		Verbs: strings.Fields(verbs)}
}

const (
	read  = "get list watch"
	write = "get list watch create update patch delete"
)

func hubRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(topology.GroupVersion.Group, "memberclusters federationpolicies clusterfederationpolicies workloadplacements",
			write),
		rule(topology.GroupVersion.Group,
			"memberclusters/status federationpolicies/status clusterfederationpolicies/status workloadplacements/status "+
				"memberclusters/finalizers workloadplacements/finalizers", "get update patch"),
		rule(work.GroupVersion.Group, "works", write+" deletecollection"),
		rule(work.GroupVersion.Group, "works/status", "get update patch"),
		// The hub sets a finalizer on the user's objects, and their status.
		rule("apps.kruise.io", "*", read+" update patch"),
		rule("policy.kruise.io", "*", read+" update patch"),
		rule("apps", "*", read),
		rule("apps", "controllerrevisions", "create patch delete"),
		rule("", "namespaces", read+" create patch"),
		rule("", "podtemplates", "create"), // templates are checked by a dry run
		rule("", "services configmaps secrets serviceaccounts persistentvolumeclaims", read),
		rule("batch", "jobs cronjobs", read),
		rule("", "events", "create patch"),
		rule("events.k8s.io", "events", "create patch"),
		rule("coordination.k8s.io", "leases", write),
		rule("apiextensions.k8s.io", "customresourcedefinitions", read),
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", read+" create update delete"),
		rule("", "pods", "list"), // of a namespace that is protected
		conversionRule(),
	}
}

// ensureSystemNamespace makes the namespace that --leader-election-namespace is by default.
func (c *Cluster) ensureSystemNamespace(ctx context.Context) error {
	return c.ensureNamespace(ctx, topology.SystemNamespace)
}

func (c *Cluster) ensureNamespace(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	if _, err := client.CoreV1().Namespaces().Apply(ctx, applycorev1.Namespace(name), applied()); err != nil {
		return fmt.Errorf("apply namespace %s of %s: %w", name, c.Name, err)
	}
	return nil
}

// conversionRule lets a program say in our CustomResourceDefinitions where their objects are converted.
func conversionRule() rbacv1.PolicyRule {
	ours := rule("apiextensions.k8s.io", "customresourcedefinitions", "patch")
	ours.ResourceNames = []string{"advancedcronjobs.apps.kruise.io", "clonesets.apps.kruise.io",
		"containerrecreaterequests.apps.kruise.io", "daemonsets.apps.kruise.io",
		"persistentpodstates.apps.kruise.io", "podunavailablebudgets.policy.kruise.io",
		"resourcedistributions.apps.kruise.io", "sidecarsets.apps.kruise.io", "statefulsets.apps.kruise.io",
		"uniteddeployments.apps.kruise.io", "workloadspreads.apps.kruise.io"}
	return ours
}

func memberRules(member string) []rbacv1.PolicyRule {
	own := rule(topology.GroupVersion.Group, "memberclusters", read+" update patch")
	status := rule(topology.GroupVersion.Group, "memberclusters/status", "get update patch")
	own.ResourceNames, status.ResourceNames = []string{member}, []string{member}
	return []rbacv1.PolicyRule{own, status, rule(topology.GroupVersion.Group, "memberclusters", "create")}
}

func memberNamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(work.GroupVersion.Group, "works", read),
		// The finalizer of a Work is the agent's to take away.
		rule(work.GroupVersion.Group, "works", "update patch"),
		rule(work.GroupVersion.Group, "works/status", "get update patch"),
		rule(corev1.GroupName, "events", "create patch"),
		rule("coordination.k8s.io", "leases", "get list watch create update patch"),
	}
}
