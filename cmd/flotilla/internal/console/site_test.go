package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/wording"
)

const (
	memberPath = "/apis/topology.flotilla.dev/v1alpha1/memberclusters"
	systemPath = "/api/v1/namespaces/kube-system"
	agentLease = "/apis/coordination.k8s.io/v1/namespaces/flotilla-system/leases/flotilla-agent"
	hubLease   = "/apis/coordination.k8s.io/v1/namespaces/flotilla-system/leases/flotilla-hub"
)

// cluster is a server that has these objects, by path. A path with an empty text is forbidden.
func cluster(t *testing.T, objects map[string]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text, known := objects[r.URL.Path]
		status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure}
		switch {
		case known && text != "":
			_, _ = w.Write([]byte(text))
			return
		case known:
			status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
		default:
			status.Code, status.Reason = http.StatusNotFound, metav1.StatusReasonNotFound
		}
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestNotTheHub holds what is said in a cluster that is not the hub, and which context is named.
func TestNotTheHub(t *testing.T) {
	const none = `{"items": []}`
	id := func(uid string) string {
		return `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "` + uid + `"}}`
	}
	const held = `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}`
	members := &topology.MemberClusterList{Items: []topology.MemberCluster{{}}}
	members.Items[0].Name, members.Items[0].Spec.ClusterID = "east", "id-east"
	list, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	hub := cluster(t, map[string]string{memberPath: string(list), systemPath: id("id-hub")})
	members.Items[0].Name, members.Items[0].Spec.ClusterID = "north", "id-north"
	if list, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	other := cluster(t, map[string]string{memberPath: string(list), systemPath: id("id-other")})
	east := cluster(t, map[string]string{memberPath: none, systemPath: id("id-east"), agentLease: held})
	lost := cluster(t, map[string]string{memberPath: none, systemPath: id("id-lost"), agentLease: held})
	for _, tc := range []struct {
		name, current string
		others        map[string]string
		want          string
	}{
		{"the hub", hub, map[string]string{"east": east}, ""},
		{"a member", east, map[string]string{"prod": hub},
			`context "here" reaches member east, not the hub; the hub is context "prod": add --context prod`},
		{"a member of another hub", lost, map[string]string{"a": east, "the-hub": hub},
			`context "here" reaches a member, not the hub; name the hub with --context or --kubeconfig`},
		{"a member with the hubs of two fleets", east, map[string]string{"a-hub": other, "prod": hub},
			`context "here" reaches member east, not the hub; the hub is context "prod": add --context prod`},
		{"a member whose id may not be read",
			cluster(t, map[string]string{memberPath: none, systemPath: "", agentLease: held}),
			map[string]string{"the-hub": hub}, `context "here" reaches a member, not the hub; ` +
				`context "the-hub" reaches a hub: if it is yours, add --context the-hub`},
		{"a member alone", east, nil,
			`context "here" reaches a member, not the hub; name the hub with --context or --kubeconfig`},
		{"a cluster without Flotilla", cluster(t, map[string]string{systemPath: id("id-bare")}),
			map[string]string{"hub": hub},
			`context "here" reaches a cluster without Flotilla; context "hub" reaches a hub: if it is yours, ` +
				`add --context hub`},
		{"a cluster with the definitions alone, whose id may not be read",
			cluster(t, map[string]string{memberPath: none}),
			map[string]string{"hub": hub},
			`context "here" reaches a cluster in which no hub runs; context "hub" reaches a hub: if it is yours, ` +
				`add --context hub`},
		{"the same, which may become the hub of another fleet",
			cluster(t, map[string]string{memberPath: none, systemPath: id("id-new")}), map[string]string{"hub": hub}, ""},
		{"the same, and no other", cluster(t, map[string]string{memberPath: none}), nil, ""},
		{"a hub without members", cluster(t, map[string]string{memberPath: none, hubLease: held}),
			map[string]string{"hub": hub}, ""},
		{"members may not be read", cluster(t, map[string]string{memberPath: ""}), map[string]string{"hub": hub}, ""},
		{"Leases may not be read", cluster(t, map[string]string{memberPath: none, hubLease: ""}),
			map[string]string{"hub": hub}, ""},
		{"no answer", "http://127.0.0.1:1", map[string]string{"hub": hub}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			verb, h := verbIn(t, tc.current, tc.others)
			err := h.NotTheHub(t.Context())
			if got := message(err); got != tc.want || wording.Wrong(got) != "" {
				t.Errorf("got %q, want %q (%s)", got, tc.want, wording.Wrong(got))
			}
			// The verb fails by itself, and says where it is instead.
			want := tc.want
			if want == "" {
				want = "own error"
			}
			if got := message(verb.RunE(verb, nil)); got != want {
				t.Errorf("the verb says %q, want %q", got, want)
			}
			h.AnyCluster = true
			if got := message(verb.RunE(verb, nil)); got != "own error" {
				t.Errorf("a verb for any cluster says %q", got)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// verbIn returns a verb that connects and fails, with a kubeconfig whose current context is "here".
func verbIn(t *testing.T, current string, others map[string]string) (*cobra.Command, *Hub) {
	t.Helper()
	contexts, clusters := []string{}, []string{}
	add := func(name, server string) {
		contexts = append(contexts, `{name: "`+name+`", context: {cluster: "`+name+`", user: ""}}`)
		clusters = append(clusters, `{name: "`+name+`", cluster: {server: "`+server+`"}}`)
	}
	add("here", current)
	for name, server := range others {
		add(name, server)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: here, contexts: [" + strings.Join(contexts, ", ") +
		"], clusters: [" + strings.Join(clusters, ", ") + "]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Hub{}
	verb := &cobra.Command{Use: "verb", RunE: func(*cobra.Command, []string) error {
		if _, err := h.Client(); err != nil {
			return err
		}
		return errors.New("own error")
	}}
	h.AddFlags(verb)
	verb.SetContext(t.Context())
	if err := verb.Flags().Parse([]string{"--kubeconfig", file}); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Flags(), " --kubeconfig "+file; got != want {
		t.Errorf("flags %q, want %q", got, want)
	}
	return verb, h
}

// TestFlags holds which flags commands to copy have, and that the context that is current is one of them once it is
// pinned.
func TestFlags(t *testing.T) {
	raw := contextsNamed("hub")
	raw.CurrentContext = "hub"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*raw, file); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("{apiVersion: v1, kind: Config}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
		errs bool
	}{
		{[]string{"--kubeconfig", file}, " --kubeconfig " + file + " --context hub", false},
		{[]string{"--kubeconfig", file, "--context", "other"}, " --kubeconfig " + file + " --context other", false},
		{[]string{"--kubeconfig", file, "--server", "https://hub:6443", "--token", "secret", "--cluster", "c", "--user",
			"u", "--as", "a b", "--as-group", "g", "--as-group", "h", "--insecure-skip-tls-verify", "-n", "shop"},
			" --kubeconfig " + file + " --context hub --cluster c --user u --server https://hub:6443 --as 'a b' " +
				"--as-group g --as-group h --insecure-skip-tls-verify", false},
		{[]string{"--kubeconfig", none, "--server", "https://hub:6443"}, "", true},
		{[]string{"--kubeconfig", none, "--token", "secret"}, "", true},
	} {
		h, verb := &Hub{}, &cobra.Command{Use: "verb"}
		h.AddFlags(verb)
		if err := verb.Flags().Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		if err := h.Pin(); (err != nil) != tc.errs {
			t.Errorf("%v: %v", tc.args, err)
		}
		if got := h.Flags(); !tc.errs && got != tc.want {
			t.Errorf("%v: the flags are %q, want %q", tc.args, got, tc.want)
		}
	}
}

// TestCandidates holds that contexts whose user needs a program are not asked, and that few are.
func TestCandidates(t *testing.T) {
	raw := contextsNamed("here", "b", "a", "my-hub", "c", "d", "e", "f", "g", "h")
	raw.Contexts["a"].AuthInfo = "login"
	if got := strings.Join(candidates(raw, "here"), " "); got != "my-hub b c d e f g h" {
		t.Errorf("candidates are %s", got)
	}
}

func contextsNamed(names ...string) *clientcmdapi.Config {
	raw := clientcmdapi.NewConfig()
	raw.AuthInfos["login"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "login"}}
	for _, name := range names {
		raw.Contexts[name] = clientcmdapi.NewContext()
	}
	return raw
}
