package fleet

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// converterAnnotation names the program that converts the objects of a CustomResourceDefinition.
const converterAnnotation = "topology.flotilla.dev/converter"

// convertedHere returns a CustomResourceDefinition as the program that serves the cluster leaves it: it names
// WebhookAddress, and the authority that is in the program's Secret. The program then has nothing to change, which
// would take the API server seconds: it checks all rules of a definition anew.
func (c *Cluster) convertedHere(ctx context.Context, crd *unstructured.Unstructured) (*unstructured.Unstructured,
	error) {
	if _, found, err := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook"); err != nil || !found {
		return crd, err
	}
	program := AgentProgram
	if c == c.fleet.Hub() {
		program = HubProgram
	}
	bundle, err := c.authority(ctx, program+"-webhook")
	if err != nil {
		return nil, err
	}
	crd = crds.WithConversion(crd, admissionregistrationv1.WebhookClientConfig{
		URL: new("https://" + c.WebhookAddress() + crds.ConversionPath), CABundle: bundle,
	})
	annotations := crd.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[converterAnnotation] = program
	crd.SetAnnotations(annotations)
	return crd, nil
}

// authority returns what the Secret of a webhook server says is to be trusted; a Secret that is not there is made.
func (c *Cluster) authority(ctx context.Context, secret string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	if _, err := client.CoreV1().Namespaces().Apply(ctx, applycorev1.Namespace(topology.SystemNamespace),
		applied()); err != nil {
		return nil, fmt.Errorf("apply namespace %s: %w", topology.SystemNamespace, err)
	}
	secrets := client.CoreV1().Secrets(topology.SystemNamespace)
	have, err := secrets.Get(ctx, secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		var data map[string][]byte
		if data, err = servingCertificate(secret); err != nil {
			return nil, fmt.Errorf("make a certificate for %s: %w", secret, err)
		}
		have, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret},
			Type: corev1.SecretTypeTLS, Data: data}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("have Secret %s/%s: %w", topology.SystemNamespace, secret, err)
	}
	return have.Data["ca.crt"], nil
}

// servingCertificate returns the data of a Secret as our webhook servers keep it: an authority, and a certificate of it
// for loopback, both valid for a year.
func servingCertificate(name string) (map[string][]byte, error) {
	const keyBits = 2048
	caKey, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		"ca.key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(caKey)}),
		corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}, nil
}
