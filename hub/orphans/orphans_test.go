package orphans

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestEachOrphanHasItsCommands(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"CloneSet.apps.kruise.io shop/web", []string{
			"adopt it: flotilla adopt cloneset/web -n shop --from east",
			"delete it: kubectl --context east -n shop delete cloneset.apps.kruise.io web",
			"keep it without the hub: kubectl --context east -n shop label cloneset.apps.kruise.io web topology.flotilla.dev/hub-",
		}},
		{"UnitedDeployment shop/web", []string{ // of an agent that names no groups
			"adopt it: flotilla adopt uniteddeployment/web -n shop --from east",
			"delete it: kubectl --context east -n shop delete uniteddeployment web",
			"keep it without the hub: kubectl --context east -n shop label uniteddeployment web topology.flotilla.dev/hub-",
		}},
		{"StatefulSet.apps shop/db", []string{
			"delete it: kubectl --context east -n shop delete statefulset.apps db",
			"keep it without the hub: kubectl --context east -n shop label statefulset.apps db topology.flotilla.dev/hub-",
		}},
		{"ConfigMap shop/settings.v2", []string{
			"delete it: kubectl --context east -n shop delete configmap settings.v2",
			"keep it without the hub: kubectl --context east -n shop label configmap settings.v2 topology.flotilla.dev/hub-",
		}},
		{"ClusterRole.rbac.authorization.k8s.io reader", []string{
			"delete it: kubectl --context east delete clusterrole.rbac.authorization.k8s.io reader",
			"keep it without the hub: kubectl --context east label clusterrole.rbac.authorization.k8s.io reader topology.flotilla.dev/hub-",
		}},
		{"CloneSet.apps.kruise.io shop/web (hub 0b5a-old)", []string{
			"hand it over to this hub: kubectl --context east -n shop label cloneset.apps.kruise.io web topology.flotilla.dev/hub=hub-1 --overwrite",
			"delete it: kubectl --context east -n shop delete cloneset.apps.kruise.io web",
			"keep it without the hub: kubectl --context east -n shop label cloneset.apps.kruise.io web topology.flotilla.dev/hub-",
		}},
		{"CloneSet.example.com shop/web", []string{
			"delete it: kubectl --context east -n shop delete cloneset.example.com web",
			"keep it without the hub: kubectl --context east -n shop label cloneset.example.com web topology.flotilla.dev/hub-",
		}},
		{"ConfigMap shop/x; rm -rf ~", nil},
		{"ConfigMap shop/$(reboot)", nil},
		{"ConfigMap shop/-A", nil},
		{"ConfigMap shop/a/b", nil},
		{"ConfigMap shop/web\n", nil},
		{"ConfigMap", nil},
		{"", nil},
	} {
		if diff := cmp.Diff(tc.want, Commands("east", tc.text, "hub-1")); diff != "" {
			t.Errorf("%q: %s", tc.text, diff)
		}
	}
}

func TestMessageNamesOrphansAndWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		count int32
		names []string
		want  []string
		not   []string
	}{
		"one":                   {1, []string{"ConfigMap shop/a"}, []string{"an object in MemberCluster east", "ConfigMap shop/a", "delete configmap a"}, []string{"more", "get clusters"}},
		"three":                 {3, []string{"ConfigMap shop/a", "ConfigMap shop/b", "ConfigMap shop/c"}, []string{"3 objects", "shop/c", "for the first: delete it", "flotilla get clusters east"}, []string{"more"}},
		"more than are named":   {20, []string{"ConfigMap shop/a", "ConfigMap shop/b", "ConfigMap shop/c", "ConfigMap shop/d"}, []string{"20 objects", "shop/c and 17 more"}, []string{"shop/d"}},
		"none is named":         {2, nil, []string{"2 objects"}, []string{"for the first"}},
		"a name is not a name":  {1, []string{"`reboot`"}, []string{"`reboot`", "remove the label"}, []string{"kubectl"}},
		"fewer than it counted": {0, []string{"ConfigMap shop/a"}, []string{"0 objects"}, []string{"more"}},
	} {
		m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: topology.MemberClusterStatus{Orphaned: tc.count, Orphans: tc.names}}
		got := Message(m, "hub-1")
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
		for _, not := range tc.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q has %q", name, got, not)
			}
		}
	}
}
