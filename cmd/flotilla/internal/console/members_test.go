package console

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestMemberContexts holds by which context a member is reached, and what is said where there is none.
func TestMemberContexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: one, cluster: {server: "https://one.example:6443"}}, {name: two, cluster: {server: "https://two.example:6443"}}],
contexts: [{name: east, context: {cluster: one}}, {name: kind-west, context: {cluster: two}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, member, flag, host, kubecontext, says string
	}{
		{name: "its own name", member: "east", host: "https://one.example:6443", kubecontext: "east"},
		{name: "the flag", member: "west", flag: "west=kind-west", host: "https://two.example:6443",
			kubecontext: "kind-west"},
		{name: "the flag before the name", member: "east", flag: "east=kind-west", host: "https://two.example:6443",
			kubecontext: "kind-west"},
		{name: "none", member: "west", says: "no context reaches member west: your kubeconfig has none of that name; name " +
			"one with --member-context west=CONTEXT (it has east, kind-west)"},
		{name: "one that there is not", member: "west", flag: "west=far",
			says: `your kubeconfig has no context "far" for member west; it has east, kind-west`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var hub Hub
			var members Members
			cmd := &cobra.Command{Use: "verb"}
			hub.AddFlags(cmd)
			members.AddFlags(cmd, &hub)
			args := []string{"--kubeconfig", file}
			if test.flag != "" {
				args = append(args, "--member-context", test.flag)
			}
			if err := cmd.Flags().Parse(args); err != nil {
				t.Fatal(err)
			}
			cfg, kubecontext, err := members.Config(test.member)
			if test.says != "" {
				if err == nil || err.Error() != test.says {
					t.Errorf("says %v, want %s", err, test.says)
				}
				return
			}
			if err != nil || cfg.Host != test.host || kubecontext != test.kubecontext {
				t.Errorf("%v by %q (%v), want %s by %q", cfg, kubecontext, err, test.host, test.kubecontext)
			}
		})
	}
}

// failing is a reader that does not read.
type failing struct {
	client.Reader
	err error
}

func (f failing) Get(context.Context, types.NamespacedName, client.Object, ...client.GetOption) error {
	return f.err
}

// TestVerify holds that a context is not taken for a member that it does not reach, and that a hub that is away keeps
// nobody from looking.
func TestVerify(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: topology.MemberClusterSpec{ClusterID: "one"}}).Build()
	cluster := func(id string) client.Reader {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(id)}}).Build()
	}
	away := failing{err: errors.New("connection refused")}
	for _, test := range []struct {
		name         string
		hub, reached client.Reader
		member       string
		says, talks  string
	}{
		{"the member", hub, cluster("one"), "east", "", ""},
		{"another cluster", hub, cluster("two"), "east",
			"the context c reaches another cluster than member east (id two, and the hub knows one)", ""},
		{"no such member", hub, cluster("one"), "south", "the hub has no member south", ""},
		{"a hub that is away", away, cluster("two"), "east", "",
			"The hub was not asked whether the context c is member east: connection refused"},
		{"a member that is away", hub, away, "east", "reach member east by the context c: connection refused", ""},
		{"an identity that you may not read", hub, failing{err: apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)}, "east", "", "You may not read the identity"},
	} {
		t.Run(test.name, func(t *testing.T) {
			talk := &strings.Builder{}
			err := Verify(t.Context(), test.hub, test.reached, test.member, "c", talk)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("says %v, want %q", err, test.says)
			}
			if (talk.Len() == 0) != (test.talks == "") || !strings.Contains(talk.String(), test.talks) {
				t.Errorf("talks %q, want %q", talk, test.talks)
			}
		})
	}
}
