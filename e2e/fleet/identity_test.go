package fleet_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

func TestIdentities(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{})
	if err := f.Hub().InstallCRDs(t.Context(), crds.FS); err != nil {
		t.Fatal(err)
	}
	hub, err := f.HubIdentity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	east, err := f.MemberIdentity(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.MemberIdentity(t.Context(), "east"); err != nil || again != east {
		t.Errorf("a second time: %q, %v; want %q", again, err, east)
	}
	if err := f.Accept(t.Context(), "east"); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		name, kubeconfig, verb, group, resource, namespace, object string
		want                                                       bool
	}{
		{"the hub writes placements", hub, "patch", "topology.flotilla.dev", "workloadplacements", "shop", "", true},
		{"the hub keeps its certificate", hub, "create", "", "secrets", "flotilla-system", "", true},
		{"the hub makes no Secrets of users", hub, "create", "", "secrets", "shop", "", false},
		{"the hub says where objects are converted", hub, "patch", "apiextensions.k8s.io", "customresourcedefinitions", "",
			"clonesets.apps.kruise.io", true},
		{"the hub changes no kinds of others", hub, "patch", "apiextensions.k8s.io", "customresourcedefinitions", "",
			"jobs.example.org", false},
		{"the hub reads no nodes: it has none", hub, "list", "", "nodes", "", "", false},
		{"a member reads its Works", east, "watch", "work.karmada.io", "works", "karmada-es-east", "", true},
		{"a member makes no Works", east, "create", "work.karmada.io", "works", "karmada-es-east", "", false},
		{"a member reads no Works of another", east, "list", "work.karmada.io", "works", "karmada-es-west", "", false},
		{"a member reads no Works of all", east, "list", "work.karmada.io", "works", "", "", false},
		{"a member reads its MemberCluster", east, "watch", "topology.flotilla.dev", "memberclusters", "", "east", true},
		{"a member reads no MemberCluster of another", east, "get", "topology.flotilla.dev", "memberclusters", "", "west",
			false},
		{"a member reads no Secrets", east, "get", "", "secrets", "karmada-es-east", "", false},
		{"a member reads no workloads of users", east, "list", "apps.kruise.io", "clonesets", "shop", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := clientcmd.BuildConfigFromFlags("", test.kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			reviews := c.AuthorizationV1().SelfSubjectAccessReviews()
			review, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: test.namespace, Verb: test.verb, Group: test.group, Resource: test.resource, Name: test.object,
				}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != test.want {
				t.Errorf("%s %s: allowed %v, want %v", test.verb, test.resource, review.Status.Allowed, test.want)
			}
		})
	}
}
