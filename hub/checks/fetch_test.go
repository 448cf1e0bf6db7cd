package checks

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// answering serves what the tests ask for.
func answering() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/errors", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte(`{"errors": 3, "data": {"result": [{"value": [1, "0.25"]}]}}`))
	})
	mux.HandleFunc("/text", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("all is well")) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/errors", http.StatusFound)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10+1)) })
	mux.HandleFunc("/full", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10)) })
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	return mux
}

// TestFetch: what is answered is judged by the expression, and what is no answer does not hold.
func TestFetch(t *testing.T) {
	server := httptest.NewServer(answering())
	defer server.Close()
	for name, tt := range map[string]struct {
		path, expression, timeout string
		unmet                     string // a part of it, "" where it holds
	}{
		"by its number":         {path: "/errors"},
		"a field":               {path: "/errors", expression: "json.errors < 5"},
		"as Prometheus answers": {path: "/errors", expression: "double(json.data.result[0].value[1]) <= 0.25"},
		"too many": {path: "/errors", expression: "json.errors < 3",
			unmet: "/errors answered 200: json.errors < 3 is false"},
		"a field that is not": {path: "/errors", expression: "json.warnings < 3", unmet: "no such key: warnings"},
		"text":                {path: "/text", expression: "text.contains('well') && json == null"},
		"not found":           {path: "/nothing", unmet: "/nothing answered 404: status == 200 is false"},
		"wanted":              {path: "/nothing", expression: "status == 404"},
		"a redirect": {path: "/away", unmet: "/away answered 302: status == 200 is false; redirects are not " +
			"followed"},
		"too large":                {path: "/large", unmet: "answered more than 64 KiB"},
		"just not":                 {path: "/full", expression: "size(text) == 65536"},
		"too slow":                 {path: "/hangs", timeout: "1s", unmet: "it takes longer than its timeout"},
		"broken off":               {path: "/breaks", unmet: "did not answer"},
		"a query is not shown":     {path: "/nothing?token=secret", unmet: "/nothing answered 404"},
		"no expression":            {path: "/errors", expression: "json.", unmet: "its expression is not valid"},
		"what is no true or false": {path: "/errors", expression: "json.errors", unmet: "is no true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fetch(t.Context(), &topology.WaveHTTP{URL: server.URL + tt.path, Expression: tt.expression,
				Timeout: tt.timeout}, true)
			if tt.unmet == "" && got.unmet != "" || !strings.Contains(got.unmet, tt.unmet) ||
				strings.Contains(got.unmet+got.says, "secret") || got.says == "" {
				t.Errorf("%+v, want %q", got, tt.unmet)
			}
		})
	}
}

// TestFetchTLS: a certificate has to be of an authority that is trusted.
func TestFetchTLS(t *testing.T) {
	server := httptest.NewTLSServer(answering())
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, tt := range map[string]struct {
		ca    []byte
		unmet string
	}{
		"named":       {ca, ""},
		"not trusted": {nil, "certificate signed by unknown authority"},
		"no PEM":      {[]byte("x"), "its caBundle has no certificate; correct the policy"},
	} {
		got := fetch(t.Context(), &topology.WaveHTTP{URL: server.URL + "/errors", CABundle: tt.ca}, true)
		if tt.unmet == "" && got.unmet != "" || !strings.Contains(got.unmet, tt.unmet) {
			t.Errorf("%s: %+v, want %q", name, got, tt.unmet)
		}
	}
}

// TestFetchRefuses: the hub's own machine is not asked, by number or by name.
func TestFetchRefuses(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1.2.3", "0.0.0.0"} {
		if got := fetch(t.Context(), &topology.WaveHTTP{URL: "http://" + host + port}, false); !strings.Contains(got.unmet,
			"did not answer") {
			t.Errorf("%s: %+v", host, got)
		}
	}
	if asked {
		t.Error("the hub's own machine was asked")
	}
	if got := fetch(t.Context(), &topology.WaveHTTP{URL: server.URL}, false); !strings.Contains(got.unmet,
		"--checks-reach-local") {
		t.Errorf("it does not say why: %+v", got)
	}
}
