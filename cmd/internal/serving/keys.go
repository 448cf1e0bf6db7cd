package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret's data, beside corev1.TLSCertKey and corev1.TLSPrivateKeyKey.
const (
	// caCert holds every authority that is trusted, PEM, the newest first: it is the caBundle.
	caCert = "ca.crt"
	// caKey is the key of the newest authority.
	caKey = "ca.key"
)

const (
	// backdate is by how much a certificate is valid before it was made: clocks differ.
	backdate = time.Hour
	// settle is for how long a new authority is trusted before it signs: caBundles are written within seconds, and an
	// API server that was away comes back within minutes.
	settle = 10 * time.Minute
)

// life says how long certificates are valid.
type life struct{ authority, certificate time.Duration }

// keys are what the Secret holds, parsed.
type keys struct {
	authorities []*x509.Certificate // the newest first
	bundle      []byte              // the same, PEM
	caKey       *rsa.PrivateKey
	// served is the certificate with its key; nil if it cannot be read, for the reason broken.
	served *tls.Certificate
	broken error
}

// verdict is what is to be done about the Secret.
type verdict struct {
	// keys are what can be served now; nil if nothing can.
	keys *keys
	// data is what the Secret is to hold instead; nil means it is right.
	data map[string][]byte
	// why says what was wrong, for the log.
	why string
	// again is when to look next.
	again time.Time
}

// judge decides what the Secret is to hold at the time: data is what it holds, nil if there is none; hosts are the
// names and addresses that the certificate must have. It fails only if no key can be made.
func (l life) judge(name string, data map[string][]byte, hosts []string, now time.Time) (verdict, error) {
	k, err := parseKeys(data)
	if err == nil && !validAt(k.authorities[0], now) {
		err = errors.New("the authority is not valid now")
	}
	if err != nil {
		return l.remake(name, nil, err, hosts, now, err.Error())
	}
	unusable := k.trusted(hosts, now)
	if now.After(renewal(k.authorities[0])) {
		return l.remake(name, k, unusable, hosts, now, "an authority in its last quarter")
	}
	if unusable != nil {
		// Another replica may be asked by another name, during an update of the program: what it put there stays.
		if k.trusted(nil, now) == nil {
			hosts = union(hosts, hostsOf(k.served.Leaf))
		}
		return l.resign(k, hosts, now, unusable.Error())
	}
	due, settled := renewal(k.served.Leaf), k.authorities[0].NotBefore.Add(backdate+settle)
	if now.After(due) && !now.Before(settled) {
		return l.resign(k, hosts, now, "a certificate in its last quarter")
	}
	again := renewal(k.authorities[0])
	if due.Before(again) {
		again = due
	}
	if again.Before(settled) && now.Before(settled) {
		again = settled
	}
	return verdict{keys: k, again: again}, nil
}

// remake returns a Secret with a new authority. Without an old one it signs at once. Else those of old that are valid
// stay trusted, and the certificate stays; where that cannot be used, a new one is signed by the authority that is
// known already.
func (l life) remake(
	name string,
	old *keys,
	unusable error,
	hosts []string,
	now time.Time,
	why string,
) (verdict, error) {
	maker := &rotator.CertRotator{CAName: name, CAOrganization: "flotilla"}
	made, err := maker.CreateCACert(now.Add(-backdate), now.Add(l.authority))
	if err != nil {
		return verdict{}, fmt.Errorf("make an authority for the server's certificate: %w", err)
	}
	data := map[string][]byte{caCert: made.CertPEM, caKey: made.KeyPEM}
	v := verdict{data: data, why: why, again: now}
	switch {
	case old == nil:
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], err = l.sign(made.Cert, made.Key, hosts, now)
	case unusable != nil:
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], err = l.sign(old.authorities[0], old.caKey, hosts, now)
	default:
		v.keys = old
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], err = encode(old.served)
	}
	if old != nil {
		for _, authority := range old.authorities {
			if validAt(authority, now) {
				data[caCert] = append(data[caCert], pemOf("CERTIFICATE", authority.Raw)...)
			}
		}
	}
	return v, err
}

// resign returns the Secret with a new certificate of the newest authority. What is valid is served until that is
// written.
func (l life) resign(k *keys, hosts []string, now time.Time, why string) (verdict, error) {
	v := verdict{why: why, again: now, data: map[string][]byte{
		caCert: k.bundle, caKey: pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.caKey)),
	}}
	if k.trusted(nil, now) == nil {
		v.keys = k
	}
	var err error
	v.data[corev1.TLSCertKey], v.data[corev1.TLSPrivateKeyKey], err = l.sign(k.authorities[0], k.caKey, hosts, now)
	return v, err
}

// sign returns a certificate of the authority for the hosts and its key, both PEM. The library's own has names alone.
func (l life) sign(
	authority *x509.Certificate,
	by *rsa.PrivateKey,
	hosts []string,
	now time.Time,
) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key for the server: %w", err)
	}
	const serialBits = 120 // X.509 allows 20 bytes; these never clash
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate for the server: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: authority.Subject.CommonName + "-server"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(l.certificate),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(authority.NotAfter) {
		template.NotAfter = authority.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), by)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate for the server: %w", err)
	}
	return encode(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
}

// trusted returns nil if the certificate is valid for every host at the time, by one of the authorities. Without hosts
// it asks for those that the certificate has.
func (k *keys) trusted(hosts []string, now time.Time) error {
	if k.broken != nil {
		return k.broken
	}
	certPEM, keyPEM, err := encode(k.served)
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		hosts = hostsOf(k.served.Leaf)
	}
	for _, host := range hosts {
		err = errors.New("no authority")
		for _, authority := range k.authorities {
			if _, err = rotator.ValidCert(pemOf("CERTIFICATE", authority.Raw), certPEM, keyPEM, host, &k.served.Leaf.ExtKeyUsage,
				now); err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("the certificate does not serve %s: %w", host, err)
		}
	}
	return nil
}

// parseKeys reads the data of the Secret. It fails without an authority and its key; a certificate can be made anew.
func parseKeys(data map[string][]byte) (*keys, error) {
	if len(data) == 0 {
		return nil, errors.New("there is no certificate yet")
	}
	k := &keys{bundle: data[caCert]}
	for rest := data[caCert]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s of the Secret is broken: %w", caCert, err)
		}
		k.authorities = append(k.authorities, authority)
	}
	if len(k.authorities) == 0 {
		return nil, fmt.Errorf("%s of the Secret holds no certificate", caCert)
	}
	block, _ := pem.Decode(data[caKey])
	if block == nil {
		return nil, fmt.Errorf("%s of the Secret holds no key", caKey)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s of the Secret is broken: %w", caKey, err)
	}
	if !key.PublicKey.Equal(k.authorities[0].PublicKey) {
		return nil, fmt.Errorf("%s of the Secret is not the key of its %s", caKey, caCert)
	}
	k.caKey = key
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		k.broken = fmt.Errorf("%s and %s of the Secret: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		return k, nil
	}
	k.served = &pair
	return k, nil
}

// renewal is when the last quarter of a certificate's life begins.
func renewal(c *x509.Certificate) time.Time {
	const quarters = 4
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / quarters)
}

func validAt(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// hostsOf returns the names and addresses of a certificate.
func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// encode returns the certificate and its key, PEM.
func encode(c *tls.Certificate) (certPEM, keyPEM []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key of the server: %w", err)
	}
	return pemOf("CERTIFICATE", c.Certificate[0]), pemOf("PRIVATE KEY", der), nil
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
