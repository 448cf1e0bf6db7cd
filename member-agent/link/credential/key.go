package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// NewKey returns a key in PEM.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// Fingerprint returns the fingerprint of a key in PEM.
func Fingerprint(key []byte) (string, error) {
	private, err := parseKey(key)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return "", fmt.Errorf("encode the public key: %w", err)
	}
	return topology.KeyFingerprint(der), nil
}

func parseKey(key []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, errors.New("the key is no PEM")
	}
	private, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	return private, nil
}

// NewRequest returns a certificate request in PEM for the agent of a MemberCluster.
func NewRequest(key []byte, name string, uid types.UID) ([]byte, error) {
	private, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: topology.MemberUser(name, uid), Organization: []string{topology.MemberOrganisation}},
	}, private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// certificate is what the agent knows of its certificate, or of the token that stands for one where the hub signs none.
type certificate struct {
	user   string
	from   time.Time
	until  time.Time
	serial string
	// token is empty for a certificate.
	token string
}

// kind names it to people.
func (c *certificate) kind() string {
	if c.token != "" {
		return "token"
	}
	return "certificate"
}

// readCertificate reads the first certificate in PEM, which has to be for the key.
func readCertificate(data, key []byte) (*certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the certificate is no PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	private, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	if public, ok := parsed.PublicKey.(*ecdsa.PublicKey); !ok || !private.PublicKey.Equal(public) {
		return nil, errors.New("the certificate is for another key")
	}
	return &certificate{
		user: parsed.Subject.CommonName, from: parsed.NotBefore, until: parsed.NotAfter, serial: parsed.SerialNumber.String(),
	}, nil
}

// sameRequest tells whether a request in PEM asks for what we would ask for: the same user and key.
func sameRequest(data, key []byte, user string) bool {
	block, rest := pem.Decode(data)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return false
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.Subject.CommonName != user {
		return false
	}
	private, err := parseKey(key)
	if err != nil {
		return false
	}
	public, ok := request.PublicKey.(*ecdsa.PublicKey)
	return ok && private.PublicKey.Equal(public)
}
