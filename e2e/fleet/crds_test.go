package fleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestStoredDefinitions compares the definitions that are put into etcd with what an API server makes of the same ones
// when it is asked.
func TestStoredDefinitions(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{Members: []fleet.ClusterSpec{{Name: "east", NoKubelets: true}}})
	read := func(c *fleet.Cluster, install func() error) []apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		if err := install(); err != nil {
			t.Fatal(err)
		}
		client, err := apiextensions.NewForConfig(c.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	hub, east := f.Hub(), f.Member("east")
	stored := read(hub, func() error { return hub.InstallCRDs(t.Context(), crds.FS) })
	applied := read(east, func() error { return east.ApplyCRDs(t.Context(), crds.FS) })
	own := []cmp.Option{
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp", "ManagedFields",
			"Annotations"),
		cmpopts.IgnoreFields(apiextensionsv1.CustomResourceDefinitionCondition{}, "LastTransitionTime"),
		cmpopts.IgnoreTypes(apiextensionsv1.WebhookClientConfig{}), // each names its own cluster's
	}
	if diff := cmp.Diff(applied, stored, own...); diff != "" {
		t.Errorf("applied -, stored +: %.3000s", diff)
	}
	again := read(hub, func() error { return hub.ApplyCRDs(t.Context(), crds.FS) })
	if diff := cmp.Diff(stored, again, own...); diff != "" {
		t.Errorf("to apply what was stored changes it: %.3000s", diff)
	}
}
