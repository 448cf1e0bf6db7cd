package console

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestCompletions holds what is offered of a hub's objects.
func TestCompletions(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	web := wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"}
	placed := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: web.Placement().Name}}
	placed.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: web.Kind, Name: "web"}
	placed.Spec.Cells = []topology.Cell{
		{Cluster: "west", Zone: "b", Subset: "rest"}, {Cluster: "east", Zone: "b", Subset: "zone-b"},
		{Cluster: "east", Zone: "a", Subset: "zone-a"}, {Cluster: "south", Subset: "rest"},
	}
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(placed,
		&apps.CloneSet{ObjectMeta: at("shop", "api")}, &apps.CloneSet{ObjectMeta: at("else", "api")},
		&apps.CloneSet{ObjectMeta: at("else", "own")},
		&apps.UnitedDeployment{ObjectMeta: at("shop", "web")}).Build()
	zone := func(c topology.Cell) string { return c.Zone }
	for _, test := range []struct {
		name string
		read func(client.Reader) ([]string, error)
		want string
	}{
		{"workloads of a namespace", func(c client.Reader) ([]string, error) { return workloads(t.Context(), c, "shop") },
			"clone/api ud/web"},
		{"workloads of all", func(c client.Reader) ([]string, error) { return workloads(t.Context(), c, "") },
			"clone/api clone/own ud/web"},
		{"zones, each once", func(c client.Reader) ([]string, error) { return cells(t.Context(), c, web, zone) }, "a b"},
		{"nothing of what is not placed", func(c client.Reader) ([]string, error) {
			return cells(t.Context(), c, wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "api"},
				zone)
		}, ""},
	} {
		if got, err := test.read(c); err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q (%v), want %q", test.name, got, err, test.want)
		}
	}
}

// TestCompletionsOfFlags holds that contexts come from the kubeconfig that is named, and that a hub that cannot be
// reached offers nothing, without a word.
func TestCompletionsOfFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, contexts: [{name: west, context: {}}, {name: hub, context: {}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]struct {
		names     []string
		directive cobra.ShellCompDirective
	}{
		"context":   {[]string{"hub", "west"}, cobra.ShellCompDirectiveNoFileComp},
		"namespace": {nil, cobra.ShellCompDirectiveError},
	} {
		var h Hub
		cmd := &cobra.Command{Use: "verb"}
		h.AddFlags(cmd)
		if err := cmd.Flags().Parse([]string{"--kubeconfig", file, "--context", "none"}); err != nil {
			t.Fatal(err)
		}
		complete, ok := cmd.GetFlagCompletionFunc(flag)
		if !ok {
			t.Fatalf("--%s is not completed", flag)
		}
		if names, directive := complete(cmd, nil, ""); !slices.Equal(names, want.names) || directive != want.directive {
			t.Errorf("--%s: %q, %d; want %q, %d", flag, names, directive, want.names, want.directive)
		}
	}
}
