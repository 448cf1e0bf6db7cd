//go:build e2e

package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// TestRolesOfUsers: flotilla-view and flotilla-edit have every kind that users of a namespace have to do with.
func TestRolesOfUsers(t *testing.T) {
	notForUsers := map[string]string{
		"work.karmada.io/works": "they are the orders of a hub to a member, in the namespace of the member",
	}
	notWritten := map[string]string{
		"topology.flotilla.dev/workloadplacements": "the hub writes them",
	}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var seen, written []string
	for _, crd := range all {
		if scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope"); scope != "Namespaced" {
			continue // users of a namespace cannot be bound to it
		}
		resource, group, _ := strings.Cut(crd.GetName(), ".")
		name := group + "/" + resource
		if notForUsers[name] == "" {
			seen = append(seen, name)
			if notWritten[name] == "" {
				written = append(written, name)
			}
		}
	}
	for role, want := range map[string][]string{"flotilla-view": seen, "flotilla-edit": written} {
		slices.Sort(want)
		if diff := cmp.Diff(want, rolesHave(t, role)); diff != "" {
			t.Errorf("%s has other kinds: correct charts/flotilla-crds/templates/roles.yaml, or say in this test why a kind is "+
				"not for users (-want +got):\n%s", role, diff)
		}
	}
}

// rolesHave returns what a role of the chart of definitions has, without subresources, as group/resource.
func rolesHave(t *testing.T, name string) (all []string) {
	t.Helper()
	for _, object := range objectsOf(t, render(t, "flotilla-crds", "")) {
		if object.GetKind() != "ClusterRole" || object.GetName() != name {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if !strings.Contains(resource, "/") {
					all = append(all, rule.APIGroups[0]+"/"+resource)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
