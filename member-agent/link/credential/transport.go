package credential

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Transport sends requests to the hub with the latest certificate or token. Before there is one, requests wait for it,
// as long as their contexts last. It is safe for concurrent use.
type Transport struct {
	mu      sync.Mutex
	current *http.Transport
	token   string // empty with a certificate
	ready   chan struct{}
}

// NewTransport returns a transport that has no certificate yet.
func NewTransport() *Transport { return &Transport{ready: make(chan struct{})} }

// Use lets the requests that begin from now on use a certificate. What is under way goes on over the old connections,
// which close once they are idle.
func (t *Transport) Use(server, ca string, key, certificate []byte) error {
	config := configFor(server, ca)
	config.CertData, config.KeyData = certificate, key
	return t.use(config, "")
}

// UseToken is Use for a token.
func (t *Transport) UseToken(server, ca, token string) error {
	return t.use(configFor(server, ca), token)
}

func configFor(server, ca string) *rest.Config {
	return &rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca)}}
}

func (t *Transport) use(config *rest.Config, token string) error {
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return fmt.Errorf("use the certificate for the hub: %w", err)
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12} // the authorities of the machine
	}
	next := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: secure, Proxy: http.ProxyFromEnvironment})
	t.mu.Lock()
	before := t.current
	t.current, t.token = next, token
	t.mu.Unlock()
	if before == nil {
		close(t.ready)
		return nil
	}
	before.CloseIdleConnections()
	return nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-t.ready:
	case <-request.Context().Done():
		if request.Body != nil {
			_ = request.Body.Close() // nothing was sent
		}
		return nil, fmt.Errorf("this cluster has no certificate of the hub yet: %w", request.Context().Err())
	}
	t.mu.Lock()
	current, token := t.current, t.token
	t.mu.Unlock()
	if token != "" {
		request = request.Clone(request.Context()) // the caller's is not to be changed
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return current.RoundTrip(request)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
}
