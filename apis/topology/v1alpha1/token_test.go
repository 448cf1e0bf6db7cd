package v1alpha1_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestSealedToken holds that a sealed token opens for its key, its request and its user, and for nothing else.
func TestSealedToken(t *testing.T) {
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	now := metav1.NewTime(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	token := &topology.MemberToken{User: "flotilla:member:east:u", Token: "header.secret-claims.signature", From: now,
		Until: metav1.NewTime(now.Add(time.Hour))}
	sealed, err := token.Seal("request", &keys[0].PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(sealed, "secret") {
		t.Errorf("it can be read: %s", sealed)
	}
	got, err := topology.OpenMemberToken(sealed, "request", token.User, keys[0])
	if err != nil {
		t.Fatal(err)
	}
	got.From, got.Until = metav1.NewTime(got.From.UTC()), metav1.NewTime(got.Until.UTC())
	if diff := cmp.Diff(token, got); diff != "" {
		t.Errorf("opened, it is another one (-want +got):\n%s", diff)
	}
	for name, open := range map[string]func() (*topology.MemberToken, error){
		"another key": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken(sealed, "request", token.User, keys[1])
		},
		"another request": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken(sealed, "later", token.User, keys[0])
		},
		"another user": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken(sealed, "request", "flotilla:member:east:v", keys[0])
		},
		"changed": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken("A"+sealed[1:], "request", token.User, keys[0])
		},
		"cut": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken(sealed[:20], "request", token.User, keys[0])
		},
		"no text": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken("%", "request", token.User, keys[0])
		},
		"nothing": func() (*topology.MemberToken, error) {
			return topology.OpenMemberToken("", "request", token.User, keys[0])
		},
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s: it opens: %+v", name, got)
		}
	}
}
