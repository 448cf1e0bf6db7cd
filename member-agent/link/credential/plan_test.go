package credential

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestPlan(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	join := &Join{Name: "east", UID: "u", Token: "t", Expires: now.Add(time.Hour)}
	spent := &Join{Name: "east", UID: "u", Token: "t", Expires: now.Add(-time.Hour)}
	user := topology.MemberUser("east", "u")
	lives := func(before, after time.Duration) *certificate {
		return &certificate{user: user, from: now.Add(-before), until: now.Add(after)}
	}
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name   string
		join   *Join
		have   *certificate
		want   step
		advice string
	}{
		{"nothing is there", join, nil, step{ask: token}, ""},
		{"the token is spent before anybody accepted", spent, nil, step{}, "flotilla join east again"},
		{"a new certificate", join, lives(0, 30*day), step{use: true, due: now.Add(time.Duration(0.70 * float64(30*day)))},
			""},
		{"one in its last third", join, lives(21*day, 9*day), step{use: true, ask: itself}, ""},
		{"one in its last third, after the token", spent, lives(25*day, 5*day), step{use: true, ask: itself}, ""},
		{"one in its last second, after an outage", spent, lives(30*day, time.Second), step{use: true, ask: itself}, ""},
		{"one that ran out, with a new token", join, lives(31*day, -day), step{ask: token}, ""},
		{"one that ran out", spent, lives(31*day, -day), step{use: true}, "expired at"},
		{"one of an earlier MemberCluster, with a new token", join,
			&certificate{user: "flotilla:member:east:old", from: now, until: now.Add(day)}, step{ask: token}, ""},
		{"one of an earlier MemberCluster", spent, &certificate{user: "flotilla:member:east:old", from: now,
			until: now.Add(day)}, step{}, "joined as " + user},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := plan(now, tc.join, tc.have, 0.5)
			if (got.advice == "") != (tc.advice == "") || !strings.Contains(got.advice, tc.advice) {
				t.Errorf("it advises %q, want %q", got.advice, tc.advice)
			}
			if got.advice = ""; got != tc.want {
				t.Errorf("plan is %+v, want %+v", got, tc.want)
			}
		})
	}
	t.Run("a fleet does not renew at once", func(t *testing.T) {
		first, last := plan(now, join, lives(0, 30*day), 0).due, plan(now, join, lives(0, 30*day), 1).due
		if last.Sub(first) < day || last.After(now.Add(23*day)) {
			t.Errorf("from %s to %s", first, last)
		}
	})
}

// TestRequest holds what is asked for: one subject, and nothing else.
func TestRequest(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := NewRequest(key, "east", "u")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got := request.Subject.String(); got != "CN=flotilla:member:east:u,O=flotilla:members" ||
		len(request.Extensions) > 0 {
		t.Errorf("subject %s, extensions %v", got, request.Extensions)
	}
	fingerprint, err := Fingerprint(key)
	if err != nil || fingerprint != topology.KeyFingerprint(request.RawSubjectPublicKeyInfo) {
		t.Errorf("fingerprint %s, %v", fingerprint, err)
	}
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if !sameRequest(data, key, topology.MemberUser("east", "u")) ||
		sameRequest(data, other, topology.MemberUser("east", "u")) || sameRequest(data, key, "x") ||
		sameRequest(nil, key, "x") {
		t.Error("a request is taken for another one")
	}
}

// TestOutcome holds that a request that failed is refused, wherever the condition stands.
func TestOutcome(t *testing.T) {
	is := func(kind certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	approved, denied, failed := is(certificatesv1.CertificateApproved), is(certificatesv1.CertificateDenied),
		is(certificatesv1.CertificateFailed)
	for name, tc := range map[string]struct {
		conditions []certificatesv1.CertificateSigningRequestCondition
		refused    certificatesv1.RequestConditionType
		approved   bool
	}{
		"none":     {nil, "", false},
		"approved": {[]certificatesv1.CertificateSigningRequestCondition{approved}, "", true},
		"denied":   {[]certificatesv1.CertificateSigningRequestCondition{denied}, certificatesv1.CertificateDenied, false},
		"approved, and then the signer failed": {
			[]certificatesv1.CertificateSigningRequestCondition{approved, failed}, certificatesv1.CertificateFailed, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{}
			csr.Status.Conditions = tc.conditions
			refusal, ok := outcome(csr)
			if ok != tc.approved || (refusal == nil) != (tc.refused == "") || refusal != nil && refusal.Type != tc.refused {
				t.Errorf("outcome is %+v, %v", refusal, ok)
			}
		})
	}
}

func TestCheckServer(t *testing.T) {
	for server, good := range map[string]bool{
		"https://hub.example.org:6443": true, "https://10.0.0.1": true, "https://[::1]:6443/path": true,
		"": false, "hub.example.org:6443": false, "hub.example.org": false, "http://hub.example.org": false,
		"https://": false, "https://:6443": false, "https://a b": false,
	} {
		if err := CheckServer(server); (err == nil) != good {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// TestTransportWaits holds that a request before the first certificate waits as long as its context, and no longer.
func TestTransportWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub.invalid", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := NewTransport().RoundTrip(request)
	if response != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no certificate of the hub yet") {
		t.Errorf("it says %v", err)
	}
}
