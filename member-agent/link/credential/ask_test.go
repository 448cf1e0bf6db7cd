package credential

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestRefusedToken holds what a person reads in the agent's log whose hub refuses the token for joining: why that can
// be, and the next command.
func TestRefusedToken(t *testing.T) {
	for what, tc := range map[string]struct {
		answer *apierrors.StatusError
		says   []string
	}{
		"used or revoked": {apierrors.NewUnauthorized("Unauthorized"),
			[]string{"was revoked, or is used", "flotilla join east again"}},
		"for another name": {apierrors.NewForbidden(schema.GroupResource{}, "flotilla-join-east", nil),
			[]string{"is not for the name east", "flotilla join east again"}},
		"the hub is in trouble": {apierrors.NewInternalError(http.ErrAbortHandler),
			[]string{"read the request flotilla-join-east on the hub: "}},
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer token" {
					t.Errorf("asked with %q", r.Header.Get("Authorization"))
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(tc.answer.ErrStatus.Code))
				_ = json.NewEncoder(w).Encode(tc.answer.ErrStatus)
			}))
			defer server.Close()
			now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
			join := &Join{
				Name: "east", UID: "u", Token: "token", Expires: now.Add(time.Hour), Server: server.URL,
				CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
			}
			secret := join.Secret(topology.SystemNamespace)
			secret.Data = map[string][]byte{}
			for key, value := range secret.StringData { // as an API server does
				secret.Data[key] = []byte(value)
			}
			m := New(Config{
				Member:    fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(secret).Build(),
				Namespace: topology.SystemNamespace, JoinSecret: topology.JoinSecret,
				Clock: clocktesting.NewFakeClock(now), Log: logr.Discard(),
			})
			_, err := m.look(t.Context())
			for _, want := range tc.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it says %v, want %q", err, want)
				}
			}
		})
	}
}
