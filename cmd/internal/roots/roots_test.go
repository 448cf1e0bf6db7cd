package roots

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asks is the variable that makes the test binary say which authorities a program without a choice of its own trusts.
const asks = "FLOTILLA_TEST_ROOTS"

func TestMain(m *testing.M) {
	file := os.Getenv(asks)
	if file == "" {
		os.Exit(m.Run())
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	own := x509.NewCertPool()
	own.AppendCertsFromPEM(data)
	fmt.Printf("none: %t, the system's: %t", pool.Equal(x509.NewCertPool()), pool.Equal(own))
	os.Exit(0)
}

// trusted returns what a process says whose system has the authorities of a file, or none where it is empty.
func trusted(t *testing.T, own, system string) string {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	if system == "" {
		system = none
	}
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), asks+"="+own, "SSL_CERT_FILE="+system, "SSL_CERT_DIR="+none)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestRoots holds that there are authorities where the system has none, and that the system's own come first.
func TestRoots(t *testing.T) {
	own := authority(t)
	if said := trusted(t, own, ""); said != "none: false, the system's: false" {
		t.Errorf("a system without authorities: %s", said)
	}
	if said := trusted(t, own, own); said != "none: false, the system's: true" {
		t.Errorf("a system with one of its own: %s", said)
	}
}

// authority writes the certificate of an authority to a file.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "of this system"}, NotBefore: time.Now(),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true,
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
