package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/inventory/profiles"
)

// TestClusterProfiles follows the profile of a member from its first day to its last.
func TestClusterProfiles(t *testing.T) {
	t.Parallel() // most of its time is waiting
	installFile(t, "testdata/clusterprofile-definition.yaml")
	const namespace = "profiles-of-members"
	if _, err := namespaceOf(t, namespace); err != nil {
		t.Fatal(err)
	}
	must(t, hub.CheckInventory(apiServers.of(t), hub.InventoryAgent, namespace))
	f := newFleet(t, map[string][]string{"profiled": {"a", "b"}}, func(o *hub.Options) { o.ClusterProfiles = namespace })
	key := client.ObjectKey{Namespace: namespace, Name: "profiled"}
	read := func() (*profiles.Profile, *unstructured.Unstructured, error) {
		u, p := profiles.Object(), &profiles.Profile{}
		if err := f.client.Get(f.ctx, key, u); err != nil {
			return nil, nil, err
		}
		return p, u, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p)
	}
	value := func(p *profiles.Profile, name string) string {
		for _, property := range p.Status.Properties {
			if property.Name == name {
				return property.Value
			}
		}
		return ""
	}
	f.eventually("the profile says that the member is healthy", func() error {
		p, _, err := read()
		if err != nil {
			return err
		}
		healthy := len(p.Status.Conditions) == 2 && p.Status.Conditions[0].Type == profiles.ConditionControlPlaneHealthy &&
			p.Status.Conditions[0].Status == metav1.ConditionTrue &&
			p.Status.Conditions[1].Type == profiles.ConditionJoined && p.Status.Conditions[1].Status == metav1.ConditionTrue
		if !healthy || value(p, profiles.PropertyID) != "profiled" ||
			value(p, profiles.PropertyClusterID) != "id-of-profiled" ||
			value(p, profiles.PropertyZone+"a") != `{"nodes":3,"ready":3}` ||
			p.Labels[profiles.LabelManager] != profiles.Manager || p.Spec.ClusterManager.Name != profiles.Manager ||
			p.Spec.DisplayName != "profiled" {
			return fmt.Errorf("profile %+v", p)
		}
		return nil
	})

	// What others write stays, and at rest nothing is written.
	f.quiet()
	_, u, err := read()
	must(t, err)
	must(t, f.client.Status().Patch(f.ctx, u, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"accessProviders":[{"name":"kubeconfig"}]}}`))))
	for _, wrote := range f.quiet() {
		if strings.Contains(wrote, namespace) {
			t.Errorf("at rest the hub wrote %s", wrote)
		}
	}
	member := &topology.MemberCluster{}
	must(t, f.client.Get(f.ctx, client.ObjectKey{Name: "profiled"}, member))
	base := member.DeepCopy()
	member.Status.KubernetesVersion, member.Status.Region, member.Status.ZoneNames, member.Status.Nodes = "v1.36.3",
		"north", "a,b", "6/6"
	must(t, f.client.Status().Patch(f.ctx, member, client.MergeFrom(base)))
	f.eventually("the profile follows", func() error {
		p, u, err := read()
		if err != nil {
			return err
		}
		others, _, _ := unstructured.NestedSlice(u.Object, "status", "accessProviders")
		if p.Status.Version.Kubernetes != "v1.36.3" || value(p, profiles.PropertyRegion) != "north" ||
			value(p, profiles.PropertyZones) != "a,b" || value(p, profiles.PropertyNodes) != "6/6" || len(others) != 1 {
			return fmt.Errorf("profile %+v", u.Object)
		}
		return nil
	})

	// A profile of another manager is not ours to delete.
	foreign := profiles.Object()
	foreign.SetNamespace(namespace)
	foreign.SetName("foreign")
	foreign.SetLabels(map[string]string{profiles.LabelManager: "somebody"})
	must(t, f.client.Create(f.ctx, foreign))
	must(t, f.client.Delete(f.ctx, member))
	f.eventually("the profile goes with the member", func() error {
		_, _, err := read()
		if err == nil {
			return errors.New("it stands")
		}
		return client.IgnoreNotFound(err)
	})
	must(t, f.client.Get(f.ctx, client.ObjectKeyFromObject(foreign), foreign))
	must(t, f.client.Delete(f.ctx, foreign))
}

// TestServiceExports holds that an export goes to members beside its Service, without the status that the hub's own
// cluster gave it, and that a policy for exports says so as long as the hub has no definition of them.
func TestServiceExports(t *testing.T) {
	t.Parallel() // most of its time is waiting
	undefine(t, "serviceexports.multicluster.x-k8s.io")
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"b"}})
	f.policy("exports", func(p *topology.FederationPolicySpec) {
		p.Workloads = []topology.WorkloadSelector{{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "ServiceExport"},
			{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet"}}
	})
	f.eventually("the policy tells of the definition", func() error {
		return f.policyIs("exports", topology.PolicyKindNotServed,
			"names ServiceExport of multicluster.x-k8s.io/v1alpha1, which the hub's API server does not serve")
	})
	f.cloneSet("beside", 2)
	f.placed("CloneSet", "beside", map[string]int32{"east": 1, "west": 1})
	installFile(t, "testdata/serviceexport-definition.yaml")
	f.eventually("the hub takes the definition up", func() error {
		return f.policyIs("exports", topology.PolicyInForce, "")
	})
	export := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "multicluster.x-k8s.io/v1alpha1",
		"kind": "ServiceExport"}}
	export.SetNamespace(f.namespace)
	export.SetName("web")
	export.SetLabels(map[string]string{"app": "web"})
	must(t, f.client.Create(f.ctx, export))
	export.Object["status"] = map[string]any{"conditions": []any{}}
	must(t, f.client.Status().Update(f.ctx, export))
	f.eventually("both members have it", func() error {
		for _, member := range []string{"east", "west"} {
			manifest := f.works("ServiceExport", "web")[member]
			if manifest == nil {
				return fmt.Errorf("%s has none", member)
			}
			if text := fmt.Sprint(manifest); manifest["status"] != nil ||
				manifest["apiVersion"] != "multicluster.x-k8s.io/v1alpha1" || !strings.Contains(text, "app:web") {
				t.Fatalf("%s is to have %s", member, text)
			}
		}
		return nil
	})
	must(t, f.client.Delete(f.ctx, export))
	f.eventually("it goes from both", func() error {
		if left := f.works("ServiceExport", "web"); len(left) > 0 {
			return fmt.Errorf("left %v", left)
		}
		return nil
	})
}

// undefine takes away a definition that an earlier run of the test left, and waits until the API server knows nothing
// of it.
func undefine(t *testing.T, definition string) {
	t.Helper()
	c, err := apiextensions.NewForConfig(apiServers.of(t))
	must(t, err)
	err = c.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), definition, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	must(t, err)
	plural, group, _ := strings.Cut(definition, ".")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(deadline); ; {
		if groups, err := c.Discovery().ServerPreferredResources(); err == nil &&
			!slices.ContainsFunc(groups, func(list *metav1.APIResourceList) bool {
				return strings.HasPrefix(list.GroupVersion, group+"/") &&
					slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
						return r.Name == plural
					})
			}) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the API server still serves %s", definition)
		}
	}
}

// namespaceOf makes a namespace, if it is not there.
func namespaceOf(t *testing.T, name string) (*corev1.Namespace, error) {
	t.Helper()
	c, err := client.New(apiServers.of(t), client.Options{})
	must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return namespace, nil
}
