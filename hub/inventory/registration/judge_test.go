package registration

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	eastUID = types.UID("3c1b9c0a-0000-4000-8000-00000000ea57")
	eastID  = "5e1f0000-0000-4000-8000-00000000c1d0"
)

// keys that the tests use: the one that was accepted, and another one.
type keys struct{ good, other *ecdsa.PrivateKey }

func newKeys(t testing.TB) keys {
	t.Helper()
	var made [2]*ecdsa.PrivateKey
	for i := range made {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = key
	}
	return keys{made[0], made[1]}
}

func fingerprintOf(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return topology.KeyFingerprint(der)
}

// requestPEM makes a certificate request of a template and a key.
func requestPEM(t testing.TB, template *x509.CertificateRequest, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func goodTemplate() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: MemberSubject("east", eastUID)}
}

// world is a request and the member that it is for.
type world struct {
	t      testing.TB
	keys   keys
	csr    *certificatesv1.CertificateSigningRequest
	member *topology.MemberCluster
}

// firstRequest is the request that an accepted member's agent makes with its token; nextRequest the one of a renewal.
func firstRequest(t testing.TB, k keys) *world {
	w := &world{t: t, keys: k}
	w.csr = &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: topology.JoinObject("east"),
			Annotations: map[string]string{topology.AnnotationClusterID: eastID}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: topology.MemberSigner, Username: topology.JoinUser("east"),
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:flotilla-system",
				"system:authenticated"},
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			ExpirationSeconds: new(int32(3600)), Request: requestPEM(t, goodTemplate(), k.good),
		},
	}
	w.member = &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: eastUID}}
	w.member.Spec.Accepted, w.member.Spec.ClusterID, w.member.Spec.KeyFingerprint = true, eastID, fingerprintOf(t, k.good)
	return w
}

func nextRequest(t testing.TB, k keys) *world {
	w := firstRequest(t, k)
	w.csr.Name = topology.MemberObject("east")
	w.csr.Spec.Username = topology.MemberUser("east", eastUID)
	w.csr.Spec.Groups = []string{topology.MemberOrganisation, "system:authenticated"}
	return w
}

// accountRequest is the request of a renewal that is made with a token.
func accountRequest(t testing.TB, k keys) *world {
	w := nextRequest(t, k)
	w.csr.Spec.Username = topology.MemberAccount("east")
	w.csr.Spec.Groups = []string{"system:serviceaccounts", topology.MemberAccounts, "system:authenticated"}
	return w
}

func (w *world) request(change func(*x509.CertificateRequest), key any) {
	template := goodTemplate()
	if change != nil {
		change(template)
	}
	w.csr.Spec.Request = requestPEM(w.t, template, key)
}

// forgery is one thing that is not as it has to be, and what becomes of the request then.
type forgery struct {
	name string
	do   func(w *world)
	want Verdict
	says string
}

// forgeries of a request that would be approved.
func forgeries(t testing.TB) []forgery {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := func(change func(*pkix.Name)) func(w *world) {
		return func(w *world) {
			w.request(func(r *x509.CertificateRequest) { change(&r.Subject) }, w.keys.good)
		}
	}
	return []forgery{
		{"the user is nobody we know", func(w *world) { w.csr.Spec.Username = "mallory" }, Denied, `not by "mallory"`},
		{"the user is another member", func(w *world) { w.csr.Spec.Username = topology.MemberUser("west", "u") }, Denied,
			"alone"},
		{"the user holds a token for another name", func(w *world) { w.csr.Spec.Username = topology.JoinUser("west") },
			Denied, "alone"},
		{"the user is an earlier member of that name", func(w *world) {
			w.csr.Spec.Username = topology.MemberUser("east",
				"old")
		}, Denied, "alone"},
		{"the user is the ServiceAccount of another member",
			func(w *world) { w.csr.Spec.Username = topology.MemberAccount("west") }, Denied, "alone"},
		{"the user is an administrator", func(w *world) { w.csr.Spec.Username = "kubernetes-admin" }, Denied, "alone"},
		{"the user has one group more", func(w *world) { w.csr.Spec.Groups = append(w.csr.Spec.Groups, "system:masters") },
			Denied, "other groups"},
		{"the user has no groups", func(w *world) { w.csr.Spec.Groups = nil }, Denied, "other groups"},
		{"CN of another member", subject(func(n *pkix.Name) { n.CommonName = topology.MemberUser("west", "u") }), Denied,
			"the subject must be"},
		{"CN without uid", subject(func(n *pkix.Name) { n.CommonName = "flotilla:member:east" }), Denied,
			"the subject must be"},
		{"CN with another uid", subject(func(n *pkix.Name) { n.CommonName = topology.MemberUser("east", "other") }), Denied,
			"the subject must be"},
		{"CN of an administrator", subject(func(n *pkix.Name) { n.CommonName = "kubernetes-admin" }), Denied,
			"the subject must be"},
		{"CN in other letters", subject(func(n *pkix.Name) { n.CommonName = strings.ToUpper(n.CommonName) }), Denied,
			"the subject must be"},
		{"CN with a NUL", subject(func(n *pkix.Name) { n.CommonName += "\x00" }), Denied, "the subject must be"},
		{"organisation system:masters", subject(func(n *pkix.Name) { n.Organization = []string{"system:masters"} }), Denied,
			"the subject must be"},
		{"a second organisation", subject(func(n *pkix.Name) { n.Organization = append(n.Organization, "system:masters") }),
			Denied, "the subject must be"},
		{"no organisation", subject(func(n *pkix.Name) { n.Organization = nil }), Denied, "the subject must be"},
		{"an organisational unit", subject(func(n *pkix.Name) { n.OrganizationalUnit = []string{"x"} }), Denied,
			"the subject must be"},
		{"a second CN", subject(func(n *pkix.Name) {
			n.ExtraNames = []pkix.AttributeTypeAndValue{{Type: []int{2, 5, 4, 3}, Value: "kubernetes-admin"}}
		}), Denied, "the subject must be"},
		{"a DNS name", func(w *world) {
			w.request(func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }, w.keys.good)
		}, Denied, "no other names"},
		{"an IP address", func(w *world) {
			w.request(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{127, 0, 0, 1}} }, w.keys.good)
		}, Denied, "no other names"},
		{"an address of mail", func(w *world) {
			w.request(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }, w.keys.good)
		}, Denied, "no other names"},
		{"a URI", func(w *world) {
			w.request(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, w.keys.good)
		}, Denied, "no other names"},
		{"an extension: it would be a CA", func(w *world) {
			w.request(func(r *x509.CertificateRequest) {
				r.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}
			}, w.keys.good)
		}, Denied, "no other names"},
		{"an RSA key", func(w *world) { w.request(nil, rsaKey) }, Denied, "P-256"},
		{"an Ed25519 key", func(w *world) { w.request(nil, edKey) }, Denied, "P-256"},
		{"a key on another curve", func(w *world) { w.request(nil, p384) }, Denied, "P-256"},
		{"a usage more", func(w *world) {
			w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageServerAuth)
		}, Denied, "usages"},
		{"a usage twice", func(w *world) {
			w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageClientAuth)
		}, Denied, "usages"},
		{"it would sign certificates", func(w *world) {
			w.csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth}
		}, Denied, "usages"},
		{"no usages", func(w *world) { w.csr.Spec.Usages = nil }, Denied, "usages"},
		{"a life of ten years", func(w *world) { w.csr.Spec.ExpirationSeconds = new(int32(10 * 365 * 24 * 3600)) }, Denied,
			"expirationSeconds"},
		{"no life", func(w *world) { w.csr.Spec.ExpirationSeconds = nil }, Denied, "expirationSeconds"},
		{"a negative life", func(w *world) { w.csr.Spec.ExpirationSeconds = new(int32(-1)) }, Denied, "expirationSeconds"},
		{"a second request behind it", func(w *world) {
			w.csr.Spec.Request = slices.Concat(w.csr.Spec.Request,
				w.csr.Spec.Request)
		}, Denied, "one PEM block"},
		{"words before it", func(w *world) { w.csr.Spec.Request = slices.Concat([]byte("hello\n"), w.csr.Spec.Request) },
			Denied, "one PEM block"},
		{"a header in it", func(w *world) {
			block, _ := pem.Decode(w.csr.Spec.Request)
			block.Headers = map[string]string{"a": "b"}
			w.csr.Spec.Request = pem.EncodeToMemory(block)
		}, Denied, "one PEM block"},
		{"it is large", func(w *world) { w.csr.Spec.Request = append(w.csr.Spec.Request, make([]byte, maxRequest)...) },
			Denied, "bytes"},
		{"it is a certificate's PEM type", func(w *world) {
			block, _ := pem.Decode(w.csr.Spec.Request)
			block.Type = "CERTIFICATE"
			w.csr.Spec.Request = pem.EncodeToMemory(block)
		}, Denied, "one PEM block"},
		{"it is empty", func(w *world) { w.csr.Spec.Request = nil }, Denied, "one PEM block"},
		{"its signature is of another", func(w *world) {
			block, _ := pem.Decode(w.csr.Spec.Request)
			block.Bytes[len(block.Bytes)-1] ^= 1
			w.csr.Spec.Request = pem.EncodeToMemory(block)
		}, Denied, ""},
		{"another signer", func(w *world) { w.csr.Spec.SignerName = "kubernetes.io/kubelet-serving" }, Foreign, ""},
		{"the name of somebody else's request", func(w *world) { w.csr.Name = "east" }, Foreign, ""},
		{"the name of a request without a member", func(w *world) { w.csr.Name = topology.JoinObject("") }, Foreign, ""},
		{"the name of another member's request", func(w *world) { w.csr.Name = topology.JoinObject("west") }, Denied,
			"no MemberCluster west"},
		{"it was denied", func(w *world) {
			w.csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue}}
		}, Foreign, ""},
		{"it was answered", func(w *world) { w.csr.Status.Certificate = []byte("x") }, Foreign, ""},
		{"there is no member", func(w *world) { w.member = nil }, Denied, "flotilla token create east"},
		{"the member is being deleted", func(w *world) { w.member.DeletionTimestamp = new(metav1.Now()) }, Denied,
			"no MemberCluster"},
		{"the member was made anew", func(w *world) { w.member.UID = "another" }, Denied, ""},
		{"nobody accepted the member", func(w *world) { w.member.Spec.Accepted = false }, Pending, "flotilla accept east"},
		{"no key was accepted", func(w *world) { w.member.Spec.KeyFingerprint = "" }, Pending, "flotilla accept east"},
		{"no cluster was accepted", func(w *world) { w.member.Spec.ClusterID = "" }, Pending, "flotilla accept east"},
	}
}

func TestJudge(t *testing.T) {
	k := newKeys(t)
	for kind, build := range map[string]func(testing.TB, keys) *world{"first": firstRequest, "next": nextRequest,
		"next, with a token": accountRequest} {
		t.Run(kind+": as it has to be", func(t *testing.T) {
			w := build(t, k)
			if got, why := Judge(w.csr, w.member); got != Approved {
				t.Fatalf("verdict %d: %s", got, why)
			}
		})
		for _, f := range forgeries(t) {
			t.Run(kind+": "+f.name, func(t *testing.T) {
				w := build(t, k)
				f.do(w)
				if got, why := Judge(w.csr, w.member); got != f.want || !strings.Contains(why, f.says) {
					t.Errorf("verdict %d (%q), want %d and %q", got, why, f.want, f.says)
				}
			})
		}
	}
	t.Run("first: another key waits for a person", func(t *testing.T) {
		w := firstRequest(t, k)
		w.request(nil, k.other)
		if got, why := Judge(w.csr, w.member); got != Pending ||
			!strings.Contains(why, "--fingerprint "+fingerprintOf(t, k.other)) {
			t.Errorf("verdict %d (%q)", got, why)
		}
	})
	t.Run("first: made with a token of a member", func(t *testing.T) {
		w := accountRequest(t, k)
		w.csr.Name = topology.JoinObject("east")
		if got, why := Judge(w.csr, w.member); got != Denied || !strings.Contains(why, "alone") {
			t.Errorf("verdict %d (%q)", got, why)
		}
	})
	t.Run("next: another key is refused", func(t *testing.T) {
		w := nextRequest(t, k)
		w.request(nil, k.other)
		if got, why := Judge(w.csr, w.member); got != Denied || !strings.Contains(why, "join again") {
			t.Errorf("verdict %d (%q)", got, why)
		}
	})
}

// TestForgedRequests holds that no request is approved in which something is not as it has to be: 10 000 of them, with
// one to four forgeries each, or with bytes that are not what was signed.
func TestForgedRequests(t *testing.T) {
	const requests = 10_000
	k, all := newKeys(t), forgeries(t)
	seed := mathrand.Uint64()
	random := mathrand.New(mathrand.NewPCG(seed, 7))
	verdicts := map[Verdict]int{}
	for i := range requests {
		w := []func(testing.TB, keys) *world{firstRequest, nextRequest, accountRequest}[random.IntN(3)](t, k)
		done := forge(w, all, random)
		verdict, why := Judge(w.csr, w.member)
		verdicts[verdict]++
		if verdict == Approved {
			t.Fatalf("request %d (seed %d) was approved (%s) with: %s", i, seed, why, done)
		}
	}
	t.Logf("of %d: %d denied, %d pending, %d not Flotilla's", requests, verdicts[Denied], verdicts[Pending],
		verdicts[Foreign])
}

// forge spoils a request in a way that must not be approved, and returns how.
func forge(w *world, all []forgery, random *mathrand.Rand) string {
	switch random.IntN(4) {
	case 0:
		w.request(nil, w.keys.other)
		return "another key"
	case 1:
		block, _ := pem.Decode(w.csr.Spec.Request)
		at, bit := random.IntN(len(block.Bytes)), byte(1)<<random.IntN(8)
		block.Bytes[at] ^= bit
		w.csr.Spec.Request = pem.EncodeToMemory(block)
		return fmt.Sprintf("bit %x of byte %d turned", bit, at)
	}
	var names []string
	for range 1 + random.IntN(4) {
		f := all[random.IntN(len(all))]
		if slices.Contains(names, f.name) {
			continue // some undo themselves
		}
		func() {
			// two forgeries may not go together, as of a member that is not there; the first stands
			defer func() { _ = recover() }()
			f.do(w)
			names = append(names, f.name)
		}()
	}
	if len(names) == 1 && names[0] == "the name of another member's request" && random.IntN(2) == 0 {
		w.member = &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "west", UID: "w"}, Spec: w.member.Spec}
		names = append(names, "which there is")
	}
	return strings.Join(names, ", ")
}
