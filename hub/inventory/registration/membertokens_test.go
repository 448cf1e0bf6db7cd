package registration_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// memberTokens is the life of a member on a hub whose signer signs nothing: it shows tokens, with the same rights and
// no others.
func memberTokens(t *testing.T, h *hub) {
	clk := clocktesting.NewFakeClock(time.Now())
	token := h.token("east")
	if err := h.client.Patch(h.ctx, h.member("east"),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"credential":"Token"}}`))); err != nil {
		t.Fatal(err)
	}
	a := h.agentFor(token, clk)
	ticking, stop := context.WithCancel(h.ctx)
	defer stop()
	go func() {
		for ticking.Err() == nil {
			clk.Step(time.Second)
			<-time.After(20 * time.Millisecond)
		}
	}()
	h.accept("east")
	a.reads()
	secret := a.secret()
	if len(secret.Data[topology.CredentialToken]) == 0 || len(secret.Data[topology.CredentialCertificate]) > 0 {
		t.Errorf("the Secret has a token of %d bytes, and a certificate of %d", len(secret.Data[topology.CredentialToken]),
			len(secret.Data[topology.CredentialCertificate]))
	}
	request := &certificatesv1.CertificateSigningRequest{}
	if err := h.client.Get(h.ctx, types.NamespacedName{Name: topology.JoinObject("east")}, request); err != nil ||
		len(request.Status.Conditions)+len(request.Status.Certificate) > 0 {
		t.Errorf("the request was approved, too: %+v, %v", request.Status, err)
	}

	// Its rights are those of a certificate, by the API server's own answers.
	agent, err := kubernetes.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	h.expectDenials(t, agent, rulesAllow(map[string][]rbacv1.PolicyRule{"": registration.MemberRules("east"),
		"karmada-es-east": registration.NamespaceRules("east")}))

	// After two thirds of its life it is renewed, with itself; the key stays. By the hub's clock, the other one lives on.
	clk.Step(25 * 24 * time.Hour)
	h.eventually("the token is renewed", func() string {
		if slices.Equal(a.secret().Data[topology.CredentialToken], secret.Data[topology.CredentialToken]) {
			return "it is the old one"
		}
		return ""
	})
	stop()
	if !slices.Equal(a.secret().Data[topology.CredentialKey], secret.Data[topology.CredentialKey]) {
		t.Error("the key changed")
	}
	a.reads()

	// The membership ends: every token that it ever had is void.
	if err := registration.Revoke(h.ctx, h.client, "east"); err != nil {
		t.Fatal(err)
	}
	if err := h.client.Get(h.ctx, types.NamespacedName{Namespace: topology.MembersNamespace,
		Name: topology.MemberObject("east")}, &corev1.ServiceAccount{}); !apierrors.IsNotFound(err) {
		t.Errorf("its ServiceAccount: %v", err)
	}
	h.eventually("its tokens are void", func() string {
		err := a.client.Get(h.ctx, types.NamespacedName{Name: "east"}, &topology.MemberCluster{})
		if !apierrors.IsUnauthorized(err) {
			return fmt.Sprintf("it reads: %v", err) // the API server remembers for some seconds who a token was of
		}
		return ""
	})
}
