package capi

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestConfigOf holds that a kubeconfig is used only if it runs no program and reads no file here, and that what is
// wrong with one is said.
func TestConfigOf(t *testing.T) {
	with := func(user clientcmdapi.AuthInfo, cluster clientcmdapi.Cluster) []byte {
		cluster.Server = "https://east.example.org:6443"
		data, err := clientcmd.Write(clientcmdapi.Config{
			Clusters:  map[string]*clientcmdapi.Cluster{"east": &cluster},
			AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": &user},
			Contexts:  map[string]*clientcmdapi.Context{"c": {Cluster: "east", AuthInfo: "admin"}}, CurrentContext: "c",
		})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	none := clientcmdapi.Cluster{}
	for _, test := range []struct {
		name, says string
		data       []byte
	}{
		{"with a token", "", with(clientcmdapi.AuthInfo{Token: "t"}, none)},
		{"empty", `nothing under the key "value"`, nil},
		{"no YAML", "it is no kubeconfig", []byte("{")},
		{"something else", "it names no cluster", []byte("apiVersion: v1\nkind: Config\n")},
		{"a program", `the program "aws"`, with(clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "aws",
			APIVersion: "client.authentication.k8s.io/v1"}}, none)},
		{"a plugin", `the plugin "gcp"`, with(clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}}, none)},
		{"a file with a token", "authenticated by a file",
			with(clientcmdapi.AuthInfo{TokenFile: "/var/run/secrets/token"}, none)},
		{"a file with a certificate", "authenticated by a file",
			with(clientcmdapi.AuthInfo{ClientCertificate: "/etc/a.crt"}, none)},
		{"a file with a key", "authenticated by a file", with(clientcmdapi.AuthInfo{ClientKey: "/etc/a.key"}, none)},
		{"a file with an authority", "certificate-authority-data",
			with(clientcmdapi.AuthInfo{Token: "t"}, clientcmdapi.Cluster{CertificateAuthority: "/etc/ca.crt"})},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := configOf(test.data)
			if test.says == "" {
				if err != nil || cfg.Host != "https://east.example.org:6443" || cfg.Timeout != answerWithin {
					t.Errorf("%+v, %v", cfg, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v does not say %q", err, test.says)
			}
		})
	}
}
