package orphans

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestEachOrphanHasItsCommands(t *testing.T) {
	short := strings.NewReplacer("KUBECTL", "kubectl --context east", "LABEL", topology.LabelHub)
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"CloneSet.apps.kruise.io shop/web", []string{
			"adopt it: flotilla adopt cloneset/web -n shop --from east",
			"delete it: KUBECTL -n shop delete cloneset.apps.kruise.io web",
			"keep it without the hub: KUBECTL -n shop label cloneset.apps.kruise.io web LABEL-",
		}},
		{"UnitedDeployment shop/web", []string{ // of an agent that names no groups
			"adopt it: flotilla adopt uniteddeployment/web -n shop --from east",
			"delete it: KUBECTL -n shop delete uniteddeployment web",
			"keep it without the hub: KUBECTL -n shop label uniteddeployment web LABEL-",
		}},
		{"StatefulSet.apps shop/db", []string{
			"delete it: KUBECTL -n shop delete statefulset.apps db",
			"keep it without the hub: KUBECTL -n shop label statefulset.apps db LABEL-",
		}},
		{"ConfigMap shop/settings.v2", []string{
			"delete it: KUBECTL -n shop delete configmap settings.v2",
			"keep it without the hub: KUBECTL -n shop label configmap settings.v2 LABEL-",
		}},
		{"ClusterRole.rbac.authorization.k8s.io reader", []string{
			"delete it: KUBECTL delete clusterrole.rbac.authorization.k8s.io reader",
			"keep it without the hub: KUBECTL label clusterrole.rbac.authorization.k8s.io reader LABEL-",
		}},
		{"CloneSet.apps.kruise.io shop/web (hub 0b5a-old)", []string{
			"hand it over to this hub: KUBECTL -n shop label cloneset.apps.kruise.io web LABEL=hub-1 --overwrite",
			"delete it: KUBECTL -n shop delete cloneset.apps.kruise.io web",
			"keep it without the hub: KUBECTL -n shop label cloneset.apps.kruise.io web LABEL-",
		}},
		{"CloneSet.example.com shop/web", []string{
			"delete it: KUBECTL -n shop delete cloneset.example.com web",
			"keep it without the hub: KUBECTL -n shop label cloneset.example.com web LABEL-",
		}},
		{"ConfigMap shop/x; rm -rf ~", nil},
		{"ConfigMap shop/$(reboot)", nil},
		{"ConfigMap shop/-A", nil},
		{"ConfigMap shop/a/b", nil},
		{"ConfigMap shop/web\n", nil},
		{"ConfigMap", nil},
		{"", nil},
	} {
		var want []string
		for _, command := range tc.want {
			want = append(want, short.Replace(command))
		}
		if diff := cmp.Diff(want, Commands("east", tc.text, "hub-1")); diff != "" {
			t.Errorf("%q: %s", tc.text, diff)
		}
	}
}

func TestMessageNamesOrphansAndWhatToDo(t *testing.T) {
	abc := []string{"ConfigMap shop/a", "ConfigMap shop/b", "ConfigMap shop/c"}
	for name, tc := range map[string]struct {
		count     int32
		names     []string
		want, not string // separated by |
	}{
		"one":                   {1, abc[:1], "an object in MemberCluster east|shop/a|delete configmap a", "more|clusters"},
		"three":                 {3, abc, "3 objects|shop/c|for the first: delete it|flotilla get clusters east", "more"},
		"more than are named":   {20, append(abc, "ConfigMap shop/d"), "20 objects|shop/c and 17 more", "shop/d"},
		"none is named":         {2, nil, "2 objects", "for the first"},
		"a name is not a name":  {1, []string{"`reboot`"}, "`reboot`|remove the label", "kubectl"},
		"fewer than it counted": {0, abc[:1], "0 objects", "more"},
	} {
		m := &topology.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "east"},
			Status:     topology.MemberClusterStatus{Orphaned: tc.count, Orphans: tc.names},
		}
		got := Message(m, "hub-1")
		for _, want := range strings.Split(tc.want, "|") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
		for _, not := range strings.Split(tc.not, "|") {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q has %q", name, got, not)
			}
		}
	}
}
