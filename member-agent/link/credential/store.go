package credential

import (
	"context"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Join is what `flotilla join` wrote into the member.
type Join struct {
	// Name and UID are those of the MemberCluster.
	Name string
	UID  types.UID
	// Server is the URL of the hub's API server, CA what it is known by, in PEM.
	Server, CA string
	// Token is for the first certificate.
	Token   string
	Expires time.Time
}

// Secret returns the Secret with this content, for a namespace of the member.
func (j *Join) Secret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: topology.JoinSecret},
		Type:       corev1.SecretTypeOpaque,
		StringData: map[string]string{
			topology.JoinName: j.Name, topology.JoinUID: string(j.UID), topology.JoinServer: j.Server, topology.JoinCA: j.CA,
			topology.JoinToken: j.Token, topology.JoinExpires: j.Expires.UTC().Format(time.RFC3339),
		},
	}
}

// ReadJoin reads the Secret that `flotilla join` wrote. The error is a NotFound where there is none.
func ReadJoin(ctx context.Context, member client.Reader, namespace, name string) (*Join, error) {
	secret := &corev1.Secret{}
	if err := member.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s/%s, which flotilla join writes: %w", namespace, name, err)
	}
	j := &Join{
		Name: string(secret.Data[topology.JoinName]), UID: types.UID(secret.Data[topology.JoinUID]),
		Server: string(secret.Data[topology.JoinServer]),
		CA:     string(secret.Data[topology.JoinCA]), Token: string(secret.Data[topology.JoinToken]),
	}
	for key, value := range map[string]string{topology.JoinName: j.Name, topology.JoinUID: string(j.UID),
		topology.JoinServer: j.Server} {
		if value == "" {
			return nil, fmt.Errorf("the Secret %s/%s lacks %s: run flotilla join again", namespace, name, key)
		}
	}
	if err := CheckServer(j.Server); err != nil {
		return nil, fmt.Errorf("the Secret %s/%s has no server to ask, run flotilla join again: %w", namespace, name, err)
	}
	// A token without the time counts as expired; the certificate may be good all the same.
	j.Expires, _ = time.Parse(time.RFC3339, string(secret.Data[topology.JoinExpires]))
	return j, nil
}

// CheckServer says what is wrong with the URL of a hub's API server. Over anything but https a token is read by others.
func CheckServer(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("the hub's API server %q is no https URL with a host, such as https://hub.example.org:6443", server)
	}
	return nil
}

// EnsureKey returns the Secret of the member with the agent's key, and makes it if there is none.
func EnsureKey(ctx context.Context, member client.Client, namespace string) (*corev1.Secret, error) {
	name := types.NamespacedName{Namespace: namespace, Name: topology.CredentialSecret}
	secret := &corev1.Secret{}
	err := member.Get(ctx, name, secret)
	if err == nil && len(secret.Data[topology.CredentialKey]) > 0 {
		return secret, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read Secret %s, which has the key of this cluster: %w", name, err)
	}
	key, keyErr := NewKey()
	if keyErr != nil {
		return nil, keyErr
	}
	data := map[string][]byte{topology.CredentialKey: key}
	if err != nil {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name.Name},
			Type:       corev1.SecretTypeOpaque,
			Data:       data,
		}
		err = member.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			err = member.Get(ctx, name, secret) // another one made it in between
		}
	} else {
		secret.Data = data
		err = member.Update(ctx, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("keep a key in Secret %s: %w", name, err)
	}
	return secret, nil
}
