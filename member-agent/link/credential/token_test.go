package credential

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// jwtOf returns a token that says whose it is. Nobody signed it.
func jwtOf(subject string) string {
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return text(`{"alg":"none"}`) + "." + text(fmt.Sprintf(`{"sub":%q}`, subject)) + "." + text("signature")
}

// TestOpenToken holds that an answer is taken if it is a token of the member's own ServiceAccount, sealed for this
// request, and no other.
func TestOpenToken(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	private, err := parseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	join := &Join{Name: "east", UID: "u"}
	from := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name, user, token string
		says              string
	}{
		{"as it has to be", topology.MemberUser("east", "u"), jwtOf(topology.MemberAccount("east")), ""},
		{"of another member's ServiceAccount", topology.MemberUser("east", "u"), jwtOf(topology.MemberAccount("west")),
			"not of"},
		{"the one for joining", topology.MemberUser("east", "u"), jwtOf(topology.JoinUser("east")), "not of"},
		{"of nobody", topology.MemberUser("east", "u"), jwtOf(""), "not of"},
		{"no JWT", topology.MemberUser("east", "u"), "token", "no JWT"},
		{"a JWT without claims", topology.MemberUser("east", "u"), "a.%.c", "claims"},
		{"for an earlier member of that name", topology.MemberUser("east", "old"), jwtOf(topology.MemberAccount("east")),
			"open the sealed token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sealed, err := (&topology.MemberToken{User: tc.user, Token: tc.token, From: metav1.NewTime(from),
				Until: metav1.NewTime(from.Add(time.Hour))}).Seal("request", &private.PublicKey)
			if err != nil {
				t.Fatal(err)
			}
			have, data, err := openToken(sealed, "request", join, key)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("it says %v, want %q", err, tc.says)
				}
				return
			}
			if err != nil || have.token != tc.token || have.user != tc.user || !have.from.Equal(from) ||
				!have.until.Equal(from.Add(time.Hour)) || have.kind() != "token" {
				t.Fatalf("%+v, %v", have, err)
			}
			// It is read again by the next process.
			again, err := readToken(data)
			if err != nil || *again != *have {
				t.Errorf("read again it is %+v, %v; want %+v", again, err, have)
			}
		})
	}
	if _, err := readToken([]byte(`{}`)); err == nil {
		t.Error("an empty token is taken")
	}
}

// TestTransportShowsTokens holds that requests carry the latest token and the caller's request stays as it is, and that
// a certificate takes the place of a token.
func TestTransportShowsTokens(t *testing.T) {
	shown := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		shown <- r.Header.Get("Authorization")
	}))
	defer server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	transport := NewTransport()
	for _, token := range []string{"first", "second", ""} {
		var err error
		want := ""
		if token != "" {
			want, err = "Bearer "+token, transport.UseToken(server.URL, ca, token)
		} else {
			err = transport.use(configFor(server.URL, ca), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := <-shown; got != want || request.Header.Get("Authorization") != "" {
			t.Errorf("shown is %q, want %q; the caller's request has %v", got, want, request.Header)
		}
	}
	transport.CloseIdleConnections()
}
