package fleet

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// TestKubeconfigsOfSeveralClusters holds that the files of several clusters can stand in one KUBECONFIG, each with its
// own credentials.
func TestKubeconfigsOfSeveralClusters(t *testing.T) {
	rules := &clientcmd.ClientConfigLoadingRules{}
	for _, name := range []string{"hub", "east"} {
		path := filepath.Join(t.TempDir(), name)
		if _, err := (&Cluster{Name: name}).writeKubeconfig(path, "admin", nil, []byte("certificate of "+name),
			[]byte("key")); err != nil {
			t.Fatal(err)
		}
		rules.Precedence = append(rules.Precedence, path)
	}
	config, err := rules.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hub", "east"} {
		user := config.Contexts[name].AuthInfo
		if got := config.AuthInfos[user]; string(got.ClientCertificateData) != "certificate of "+name {
			t.Errorf("context %s has the %s", name, got)
		}
	}
}
