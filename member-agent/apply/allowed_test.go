package apply

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// TestAllowed holds what an agent refuses, and that it says so in one sentence with the object, the reason and what to
// do.
func TestAllowed(t *testing.T) {
	all, err := Allow(Carried(), nil)
	if err != nil {
		t.Fatal(err)
	}
	some, err := Allow([]string{"CloneSet", "ConfigMap"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	here, err := Allow([]string{"CloneSet"}, []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	there, err := Allow([]string{"CloneSet"}, []string{"shop", "team-*"})
	if err != nil {
		t.Fatal(err)
	}
	kruise, apps := schema.GroupVersion{Group: "apps.kruise.io", Version: "v1beta1"},
		schema.GroupVersion{Group: "apps", Version: "v1"}
	core, batch, rbac := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "batch", Version: "v1"},
		schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	for _, tc := range []struct {
		allowed Allowed
		kind    schema.GroupVersionKind
		says    []string // nothing where it is admitted
	}{
		{Allowed{}, rbac.WithKind("ClusterRoleBinding"), nil},
		{all, kruise.WithKind("CloneSet"), nil},
		{all, kruise.WithKind("StatefulSet"), nil},
		{all, apps.WithKind("StatefulSet"), nil}, // of both groups
		{all, apps.WithKind("Deployment"), nil},
		{all, apps.WithKind("ControllerRevision"), []string{"ControllerRevision.apps"}},
		{all, batch.WithKind("CronJob"), nil},
		{some, apps.WithKind("Deployment"), []string{"Deployment x/y", "--allow-kinds"}},
		{all, core.WithKind("Secret"), nil},
		{all, core.WithKind("Pod"), []string{"Pod", "it carries AdvancedCronJob, BroadcastJob, CloneSet, ConfigMap"}},
		{all, rbac.WithKind("ClusterRoleBinding"), []string{"ClusterRoleBinding.rbac.authorization.k8s.io", "x/y"}},
		{some, kruise.WithKind("CloneSet"), nil},
		{some, core.WithKind("Secret"), []string{"Secret", "x/y", "--allow-kinds"}},
		{here, kruise.WithKind("CloneSet"), nil},
		{here, core.WithKind("ConfigMap"), []string{"ConfigMap", "--allow-kinds"}},
		{there, kruise.WithKind("CloneSet"), []string{"CloneSet x/y", `namespace "x"`, "shop, team-*", "--allow-namespaces"}},
	} {
		why := tc.allowed.refuses(&Order{Ref: objects.Ref{GroupVersionKind: tc.kind,
			NamespacedName: types.NamespacedName{Namespace: "x", Name: "y"}}})
		if (why == "") != (len(tc.says) == 0) {
			t.Errorf("%s: %q", tc.kind, why)
		}
		for _, want := range tc.says {
			if !strings.Contains(why, want) {
				t.Errorf("%s: %q does not say %q", tc.kind, why, want)
			}
		}
	}
	if _, err := Allow([]string{"CloneSet", "Pod"}, nil); err == nil || !strings.Contains(err.Error(), `"Pod"`) ||
		!strings.Contains(err.Error(), "WorkloadSpread") {
		t.Errorf("%v", err)
	}
}

// TestAllowedNamespaces holds how namespaces are named, and that a wrong name is refused before the agent starts.
func TestAllowedNamespaces(t *testing.T) {
	for _, tc := range []struct {
		list     string
		admitted []string
		refused  []string
	}{
		{"", []string{"kube-system", "shop"}, nil},
		{"*", []string{"kube-system", "shop"}, nil},
		{"shop", []string{"shop"}, []string{"shop-2", "sho", "", "kube-system"}},
		{"team-*,shop", []string{"team-a", "team-", "shop"}, []string{"team", "steam-a", "shop-2"}},
	} {
		var list []string
		if tc.list != "" {
			list = strings.Split(tc.list, ",")
		}
		allowed, err := Allow(Carried(), list)
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range tc.admitted {
			if !allowed.admits(namespace) {
				t.Errorf("%q refuses %q", tc.list, namespace)
			}
		}
		for _, namespace := range tc.refused {
			if allowed.admits(namespace) {
				t.Errorf("%q admits %q", tc.list, namespace)
			}
		}
	}
	for _, wrong := range []string{"", "Shop", "a*b", "-x", "team-**", "shop/web", strings.Repeat("x", 64)} {
		if _, err := Allow(Carried(), []string{wrong}); err == nil || !strings.Contains(err.Error(), `"`+wrong+`"`) ||
			!strings.Contains(err.Error(), "team-*") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestAllowedNamespacesRefuseClusterScopedObjects(t *testing.T) {
	beacon := schema.GroupVersionKind{Group: "apps.example.com", Version: "v1", Kind: "Beacon"}
	order := &Order{Ref: objects.Ref{GroupVersionKind: beacon, NamespacedName: types.NamespacedName{Name: "lamp"}}}
	why := Allowed{Namespaces: []string{"shop"}}.refuses(order)
	if !strings.Contains(why, "into shop alone, and it has no namespace; remove --allow-namespaces") {
		t.Errorf("it says %q", why)
	}
	if why := (Allowed{}).refuses(order); why != "" {
		t.Errorf("without a list it says %q", why)
	}
}
