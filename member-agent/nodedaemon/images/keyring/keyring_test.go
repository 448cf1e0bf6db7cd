package keyring

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func file(registries ...string) *corev1.Secret {
	var all []string
	for _, r := range registries {
		all = append(all, fmt.Sprintf(`%q:{"username":%q,"password":"p"}`, r, r))
	}
	return secret(`{"auths":{` + strings.Join(all, ",") + `}}`)
}

func secret(content string) *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(content)}}
}

func TestKeysMatchAsTheyDoForKubelets(t *testing.T) {
	for _, row := range []struct {
		image string
		keys  []string
		want  string // the keys that match, in their order
	}{
		{"registry.example/web:1", []string{"registry.example"}, "registry.example"},
		{"registry.example/web:1", []string{"https://registry.example"}, "https://registry.example"},
		{"registry.example/web:1", []string{"https://registry.example/v2/"}, "https://registry.example/v2/"},
		{"registry.example/web:1", []string{"other.example"}, ""},
		{"registry.example:5000/web:1", []string{"registry.example", "registry.example:5000"}, "registry.example:5000"},
		{"registry.example/web:1", []string{"registry.example:5000"}, ""},
		{"a.registry.example/web:1", []string{"*.registry.example", "registry.example"}, "*.registry.example"},
		{"a.b.registry.example/web:1", []string{"*.registry.example"}, ""},
		{"a.b.registry.example/web:1", []string{"*.*.registry.example"}, "*.*.registry.example"},
		{"prefix-a.example/web:1", []string{"prefix-*.example"}, "prefix-*.example"},
		{"registry.example/team/web:1", []string{"registry.example", "registry.example/team", "registry.example/other"},
			"registry.example/team registry.example"},
		{"registry.example/team/web@sha256:ab", []string{"registry.example/team/web"}, "registry.example/team/web"},
		{"nginx:1", []string{"https://index.docker.io/v1/"}, "https://index.docker.io/v1/"},
		{"nginx", []string{"docker.io"}, "docker.io"},
		{"library/nginx:1", []string{"index.docker.io"}, "index.docker.io"},
		{"docker.io/team/web:1", []string{"index.docker.io/team"}, "index.docker.io/team"},
		{"nginx:1", []string{"registry.example"}, ""},
		{"localhost/web:1", []string{"localhost"}, "localhost"},
		{"registry.example/web:1", []string{"*"}, ""},
	} {
		var k Keyring
		if err := k.Add(file(row.keys...)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, auth := range k.For(row.image) {
			got = append(got, auth.Username)
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s with the keys %v: %v, want %s", row.image, row.keys, got, row.want)
		}
	}
}

func TestFormsOfCredentials(t *testing.T) {
	both := base64.StdEncoding.EncodeToString([]byte("u:p:q"))
	for content, want := range map[string][4]string{
		`{"auths":{"r.example":{"auth":"` + both + `"}}}`:                               {"u", "p:q", "", ""},
		`{"auths":{"r.example":{"auth":"` + strings.TrimRight(both, "=") + `"}}}`:       {"u", "p:q", "", ""},
		`{"auths":{"r.example":{"username":"u","password":"p"}}}`:                       {"u", "p", "", ""},
		`{"auths":{"r.example":{"username":"u","identitytoken":"t"}}}`:                  {"u", "", "t", ""},
		`{"auths":{"r.example":{"registrytoken":"t"}},"credsStore":"desktop"}`:          {"", "", "", "t"},
		`{"auths":{"r.example":{"auth":"` + both + `","username":"x","password":"y"}}}`: {"u", "p:q", "", ""},
	} {
		var k Keyring
		if err := k.Add(secret(content)); err != nil {
			t.Fatal(err)
		}
		found := k.For("r.example/web:1")
		if len(found) != 1 {
			t.Fatalf("%s has %d credentials", content, len(found))
		}
		if a := found[0]; [4]string{a.Username, a.Password, a.IdentityToken, a.RegistryToken} != want {
			t.Errorf("%s is %v, want %v", content, a, want)
		}
	}
}

func TestSecretsOfTheOldType(t *testing.T) {
	var k Keyring
	err := k.Add(&corev1.Secret{Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"r.example":{"username":"u","password":"p"}}`)}})
	if err != nil || len(k.For("r.example/web:1")) != 1 {
		t.Errorf("%d credentials (%v)", len(k.For("r.example/web:1")), err)
	}
}

func TestMessagesDoNotShowSecrets(t *testing.T) {
	for _, bad := range []*corev1.Secret{
		secret(`{"auths":{"r.example":{"auth":"hidden!"}}}`),
		secret(`{"auths":{"r.example":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("hidden")) + `"}}}`),
		secret(`hidden`), secret(`{"auths":{"":{"auth":"hidden"}}}`),
		{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"x": []byte("hidden")}}, secret(""),
	} {
		var k Keyring
		err := k.Add(bad)
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v for %s", err, bad.Data)
		}
	}
}

// TestOneBadEntry: the others of the Secret work, whatever the order.
func TestOneBadEntry(t *testing.T) {
	for range 20 {
		var k Keyring
		err := k.Add(secret(`{"auths":{"a.example":{"username":"a"},"b.example":{"auth":"bad!"},` +
			`"c.example":{"username":"c"},"":{"username":"x"}}}`))
		if err == nil || err.Error() != `"" is no registry, auth of b.example: it is no base64` {
			t.Fatal(err)
		}
		for registry, want := range map[string]int{"a.example": 1, "b.example": 0, "c.example": 1} {
			if got := len(k.For(registry + "/web:1")); got != want {
				t.Fatalf("%d credentials for %s", got, registry)
			}
		}
	}
}
