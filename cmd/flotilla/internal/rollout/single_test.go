package rollout

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorsOfASingleCluster: the verbs are for clusters with an agent and no hub too, where their errors stay.
func TestErrorsOfASingleCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/leases/flotilla-agent") {
			_, _ = w.Write([]byte(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Status", "reason": "NotFound", "code": 404}`))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: one, contexts: [{name: one, context: {cluster: one}}], ` +
		`clusters: [{name: one, cluster: {server: "` + server.URL + `"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	verbs := append(NewCommand().Commands(), NewRestartCommand())
	for _, verb := range verbs {
		if verb.HasParent() {
			verb.Parent().RemoveCommand(verb)
		}
		verb.SetArgs([]string{"clone/web", "--kubeconfig", file, "-n", "shop"})
		verb.SilenceErrors, verb.SilenceUsage = true, true
		err := verb.ExecuteContext(t.Context())
		if err == nil || strings.Contains(err.Error(), "reaches") {
			t.Errorf("%s: %v", verb.Name(), err)
		}
	}
	if len(verbs) < 11 {
		t.Errorf("only %d verbs", len(verbs))
	}
}
