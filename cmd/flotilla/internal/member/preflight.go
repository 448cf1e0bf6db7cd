package member

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

// oldest is the oldest Kubernetes that hub and members run on: the first with validation rules in
// CustomResourceDefinitions for all.
const oldest = "1.30.0"

// longestName is that of a MemberCluster, as its type says.
const longestName = 52

// checkName says what is wrong with a name, before anything is dialled.
func checkName(name string) error {
	if len(name) > longestName || !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(name) {
		return console.Usagef(
			"the name %q is not a DNS label of at most %d characters (a-z, 0-9, -): choose another one",
			name,
			longestName,
		)
	}
	return nil
}

// surroundings are what joining depends on.
type surroundings struct {
	name string
	// hubVersion and memberVersion are those of the API servers.
	hubVersion, memberVersion string
	// hubID and memberID are the identities of the clusters.
	hubID, memberID string
	// noCRDs: the hub does not serve MemberClusters.
	noCRDs  bool
	members []topology.MemberCluster
	// joined is what an earlier join wrote into the cluster, nil if nothing that can be read.
	joined *credential.Join
	// forbidden are what the user may not do, as parts of a sentence.
	forbidden []string
}

// lookAround reads what joining depends on, and writes nothing. It errs where a cluster does not answer.
func lookAround(ctx context.Context, hub, member *side, name string) (*surroundings, error) {
	s := &surroundings{name: name}
	for _, of := range []struct {
		side        *side
		what        string
		version, id *string
	}{{hub, "the hub", &s.hubVersion, &s.hubID}, {member, "the cluster that joins", &s.memberVersion, &s.memberID}} {
		asked, err := discovery.NewDiscoveryClientForConfig(of.side.config)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", of.what, err)
		}
		info, err := asked.ServerVersion()
		if err != nil {
			return nil, fmt.Errorf(
				"%s at %s does not answer; check its context and that its API server runs: %w",
				of.what,
				of.side.config.Host,
				err,
			)
		}
		*of.version = info.GitVersion
		system := &corev1.Namespace{}
		if err := of.side.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			return nil, fmt.Errorf("read the identity of %s, the uid of its namespace kube-system: %w", of.what, err)
		}
		*of.id = string(system.UID)
	}
	list := &topology.MemberClusterList{}
	err := hub.client.List(ctx, list)
	if s.noCRDs = meta.IsNoMatchError(err) || apierrors.IsNotFound(err); err != nil && !s.noCRDs {
		return nil, fmt.Errorf("list MemberClusters of the hub: %w", err)
	}
	s.members = list.Items
	// What cannot be read is written anew.
	s.joined, _ = credential.ReadJoin(ctx, member.client, topology.SystemNamespace, topology.JoinSecret)
	s.forbidden, err = forbidden(ctx, hub, member)
	return s, err
}

// right is one thing that joining does.
type right struct{ verb, group, resource, subresource, namespace string }

// forbidden returns what the user may not do of all that joining does.
func forbidden(ctx context.Context, hub, member *side) ([]string, error) {
	const rbac = "rbac.authorization.k8s.io"
	var all []string
	for _, of := range []struct {
		side *side
		on   string
		need []right
	}{
		{hub, "on the hub", []right{
			{"create", topology.GroupVersion.Group, "memberclusters", "", ""}, {"create", "", "namespaces", "", ""},
			{"create", "", "serviceaccounts", "", topology.SystemNamespace},
			{"create", "", "serviceaccounts", "token", topology.SystemNamespace},
			{"create", rbac, "clusterroles", "", ""}, {"create", rbac, "clusterrolebindings", "", ""},
		}},
		{member, "in the cluster that joins", []right{
			{"create", "", "namespaces", "", ""}, {"create", "", "serviceaccounts", "", topology.SystemNamespace},
			{"create", "", "secrets", "", topology.SystemNamespace}, {"create", rbac, "clusterroles", "", ""},
			{"create", rbac, "clusterrolebindings", "", ""},
		}},
	} {
		asked, err := kubernetes.NewForConfig(of.side.config)
		if err != nil {
			return nil, fmt.Errorf("ask what you may do %s: %w", of.on, err)
		}
		for _, n := range of.need {
			review, err := asked.AuthorizationV1().
				SelfSubjectAccessReviews().
				Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: n.verb, Group: n.group, Resource: n.resource, Subresource: n.subresource, Namespace: n.namespace,
					}},
				}, metav1.CreateOptions{})
			if err != nil {
				return nil, fmt.Errorf("ask what you may do %s: %w", of.on, err)
			}
			if !review.Status.Allowed {
				resource := strings.TrimSuffix(n.resource+"/"+n.subresource, "/")
				all = append(all, fmt.Sprintf("you may not %s %s %s: use a context of an administrator", n.verb, resource, of.on))
			}
		}
	}
	return all, nil
}

// obstacles are what is in the way, a sentence each. It is pure.
func (s *surroundings) obstacles() []string {
	var all []string
	least := version.MustParseGeneric(oldest)
	for _, of := range []struct{ what, version string }{{"the hub", s.hubVersion},
		{"the cluster that joins", s.memberVersion}} {
		if v, err := version.ParseGeneric(of.version); err != nil || v.LessThan(least) {
			all = append(
				all,
				fmt.Sprintf(
					"%s runs Kubernetes %s; Flotilla needs %s or newer: upgrade it",
					of.what,
					of.version,
					strings.TrimSuffix(oldest, ".0"),
				),
			)
		}
	}
	if s.hubID == s.memberID {
		all = append(
			all,
			fmt.Sprintf(
				"both contexts are the cluster %s: the hub cannot be its own member; name another cluster with --context",
				s.hubID,
			),
		)
	}
	if s.noCRDs {
		all = append(
			all,
			`the hub has no MemberClusters: install Flotilla there, its CustomResourceDefinitions first ("kubectl apply --server-side -f apis/crds")`,
		)
	}
	for i := range s.members {
		m := &s.members[i]
		id := m.Spec.ClusterID
		if id == "" {
			id = m.Status.ClusterID
		}
		switch {
		case m.Name == s.name && m.DeletionTimestamp != nil:
			all = append(all, fmt.Sprintf("MemberCluster %s is being deleted: wait until it is gone", m.Name))
		case m.Name == s.name && id != "" && id != s.memberID:
			all = append(
				all,
				fmt.Sprintf(
					"the name %s is taken by the cluster %s, and this one is %s: choose another name, or give that one up with "+
						"flotilla leave %s",
					m.Name,
					id,
					s.memberID,
					m.Name,
				),
			)
		case m.Name != s.name && id == s.memberID:
			all = append(
				all,
				fmt.Sprintf(
					"this cluster (%s) is the member %s already: use that name, or take it out with flotilla leave %s",
					s.memberID,
					m.Name,
					m.Name,
				),
			)
		}
	}
	return append(all, s.forbidden...)
}

// takesPart tells whether the member is accepted and Ready.
func (s *surroundings) takesPart() bool {
	for i := range s.members {
		if m := &s.members[i]; m.Name == s.name {
			return m.Spec.Accepted && m.Spec.KeyFingerprint != "" &&
				meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady)
		}
	}
	return false
}

// moved tells what an agent that runs already does not take up of this join before it is restarted, empty for nothing.
// It is pure.
func (s *surroundings) moved(join *credential.Join) string {
	if s.joined == nil {
		return ""
	}
	var all []string
	for _, of := range []struct{ what, before, now string }{{"the name", s.joined.Name, join.Name},
		{"the hub", s.joined.Server, join.Server}} {
		if of.before != of.now {
			all = append(all, fmt.Sprintf("%s %s, not %s", of.what, of.now, of.before))
		}
	}
	if s.joined.CA != join.CA {
		all = append(all, "another authority of the hub")
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf(
		`An earlier join told its agent otherwise; it is %s now. If the agent runs already, restart it, with the chart by
  kubectl --namespace %s rollout restart deployment/flotilla-agent
`,
		strings.Join(all, ", and "),
		topology.SystemNamespace,
	)
}

// inTheWay is the error of a join that was not begun.
func inTheWay(name string, obstacles []string) error {
	return fmt.Errorf("%s cannot join; nothing was written:\n  - %s", name, strings.Join(obstacles, "\n  - "))
}
