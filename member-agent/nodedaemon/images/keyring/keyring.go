// Package keyring finds the credentials for an image in Secrets, by the rules of the kubelet: the key of a credential
// is a registry, with * in parts of its host, and may have the beginning of a path.
package keyring

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dockerHub is the registry of images without one, as keys name it.
const dockerHub = "index.docker.io"

// Keyring has credentials by registry.
type Keyring struct {
	entries []entry
}

type entry struct {
	host, path string
	auth       *runtimeapi.AuthConfig
}

// auths are the credentials in a file of docker login.
type auths map[string]credential

// credential is what such a file has of a registry.
type credential struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Add adds the credentials of a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. It errs if
// the Secret is of another type or some of its content cannot be read, and adds the rest; its message has nothing of
// the content but registries.
func (k *Keyring) Add(secret *corev1.Secret) error {
	found, err := read(secret)
	if err != nil {
		return err
	}
	var wrong []error
	for _, registry := range slices.Sorted(maps.Keys(found)) {
		e, err := found[registry].entry(registry)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		k.entries = append(k.entries, e)
	}
	// The longest path first, so that the most exact key is tried first.
	slices.SortStableFunc(k.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(b.host, a.host), cmp.Compare(b.path, a.path),
			cmp.Compare(a.auth.Username, b.auth.Username))
	})
	return joined(wrong)
}

// joined returns the errors as one on a line, nil for none.
func joined(all []error) error {
	if len(all) == 0 {
		return nil
	}
	texts := make([]string, len(all))
	for i, err := range all {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, ", "))
}

// entry returns the credential for a registry.
func (c credential) entry(registry string) (entry, error) {
	host, prefix, err := parse(registry)
	if err != nil {
		return entry{}, err
	}
	auth := &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken,
		RegistryToken: c.RegistryToken}
	if c.Auth != "" {
		if auth.Username, auth.Password, err = decode(c.Auth); err != nil {
			return entry{}, fmt.Errorf("auth of %s: %w", registry, err)
		}
	}
	return entry{host: host, path: prefix, auth: auth}, nil
}

// read returns the credentials of a Secret.
func read(secret *corev1.Secret) (auths, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var file struct {
			Auths auths `json:"auths"`
		}
		if err := json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file); err != nil {
			return nil, fmt.Errorf("its key %s is no JSON of docker login", corev1.DockerConfigJsonKey)
		}
		return file.Auths, nil
	case corev1.SecretTypeDockercfg:
		var found auths
		if err := json.Unmarshal(secret.Data[corev1.DockerConfigKey], &found); err != nil {
			return nil, fmt.Errorf("its key %s is no JSON of docker login", corev1.DockerConfigKey)
		}
		return found, nil
	default:
		return nil, fmt.Errorf("its type is %q: make it of type %s", secret.Type, corev1.SecretTypeDockerConfigJson)
	}
}

// decode returns the name and the password of base64 of both with a colon between.
func decode(auth string) (username, password string, err error) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(auth))
	if err != nil {
		// Some tools leave the padding out.
		data, err = base64.RawStdEncoding.DecodeString(strings.TrimSpace(auth))
	}
	if err != nil {
		return "", "", errors.New("it is no base64")
	}
	username, password, ok := strings.Cut(string(data), ":")
	if !ok {
		return "", "", errors.New("it is no name and password with a colon between")
	}
	return username, strings.Trim(password, "\x00"), nil
}

// parse returns the host, with its port, and the path of a key.
func parse(registry string) (host, prefix string, err error) {
	text := registry
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		text = "https://" + text
	}
	at, err := url.Parse(text)
	if err != nil || at.Host == "" {
		return "", "", fmt.Errorf("%q is no registry", registry)
	}
	prefix = at.Path
	for _, version := range []string{"/v1/", "/v2/", "/v1", "/v2"} {
		if prefix == version || strings.HasSuffix(version, "/") && strings.HasPrefix(prefix, version) {
			prefix = strings.TrimPrefix(prefix, strings.TrimSuffix(version, "/"))
			break
		}
	}
	return at.Host, strings.Trim(prefix, "/"), nil
}

// For returns the credentials to try for an image, the most exact first; none for a registry without any. The image may
// have a tag or a digest.
func (k *Keyring) For(image string) []*runtimeapi.AuthConfig {
	host, rest := split(image)
	var found []*runtimeapi.AuthConfig
	for _, e := range k.entries {
		if matchesHost(e.host, host) && matchesPath(e.path, rest) {
			found = append(found, e.auth)
		}
	}
	return found
}

// split returns the registry and the path of an image.
func split(image string) (host, rest string) {
	first, rest, ok := strings.Cut(image, "/")
	switch {
	case !ok:
		return dockerHub, image
	case first == "docker.io" || first == dockerHub:
		return dockerHub, rest
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		return dockerHub, image
	}
	return first, rest
}

// matchesHost reports whether the host of a key is that of an image. Each part between dots of the key may have *;
// ports must be the same.
func matchesHost(key, host string) bool {
	if key == "docker.io" || key == "registry-1.docker.io" {
		key = dockerHub
	}
	keyName, keyPort, _ := strings.Cut(key, ":")
	name, port, _ := strings.Cut(host, ":")
	keyParts, parts := strings.Split(keyName, "."), strings.Split(name, ".")
	if keyPort != port || len(keyParts) != len(parts) {
		return false
	}
	for i, part := range keyParts {
		if ok, err := path.Match(part, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// matchesPath reports whether the path of an image begins with that of a key.
func matchesPath(key, rest string) bool { return strings.HasPrefix(rest, key) }
