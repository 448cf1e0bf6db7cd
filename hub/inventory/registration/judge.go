package registration

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// maxRequest is the largest certificate request that is looked at, in bytes of PEM. One of ours has about 500.
	maxRequest = 2048
	// maxSeconds is the longest life that a request may ask for: 90 days. The least that the API allows is 10 minutes.
	maxSeconds = 90 * 24 * 3600
	// maxClusterID is the longest id of a cluster, as MemberCluster.spec.clusterID.
	maxClusterID = 64
)

// Verdict is what is done about a request.
type Verdict int

const (
	// Foreign is a request that is not Flotilla's, or has been decided. It is left alone.
	Foreign Verdict = iota
	// Pending is one that is in order, and waits for a person who accepts its key.
	Pending
	// Approved is one that is in order, and whose key a person has accepted.
	Approved
	// Denied is one that can never be approved.
	Denied
)

// Judge decides on a request. member is the MemberCluster of the name in the request's name, nil if there is none. It
// returns why, as a sentence to the one who made the request. It is pure, and the only thing that leads to an approval.
func Judge(csr *certificatesv1.CertificateSigningRequest, member *topology.MemberCluster) (Verdict, string) {
	if decided(csr) {
		return Foreign, ""
	}
	return judgeText(csr, member)
}

// judgeText is Judge for what the request says, whatever was decided on it.
func judgeText(csr *certificatesv1.CertificateSigningRequest, member *topology.MemberCluster) (Verdict, string) {
	name, first, ok := topology.MemberOfRequest(csr.Name)
	if !ok || csr.Spec.SignerName != topology.MemberSigner || csr.DeletionTimestamp != nil {
		return Foreign, ""
	}
	if member == nil || member.Name != name || member.UID == "" || member.DeletionTimestamp != nil {
		return Denied, fmt.Sprintf("there is no MemberCluster %s: run flotilla token create %s first", name, name)
	}
	if err := madeBy(csr, member, first); err != nil {
		return Denied, err.Error()
	}
	key, err := keyOf(csr, name, member.UID)
	if err != nil {
		return Denied, err.Error()
	}
	switch {
	case !member.Spec.Accepted || member.Spec.KeyFingerprint == "" || member.Spec.ClusterID == "":
		return Pending, fmt.Sprintf("MemberCluster %s waits for a person: run flotilla accept %s", name, name)
	case member.Spec.KeyFingerprint != key && first:
		return Pending, fmt.Sprintf(
			"MemberCluster %s was accepted with the key %s, and this request is for the key %s: if the agent was given a new "+
				"key, run flotilla accept %s --fingerprint %s",
			name,
			member.Spec.KeyFingerprint,
			key,
			name,
			key,
		)
	case member.Spec.KeyFingerprint != key:
		return Denied, fmt.Sprintf(
			"MemberCluster %s was accepted with the key %s, not with %s: join again for a new key",
			name,
			member.Spec.KeyFingerprint,
			key,
		)
	}
	return Approved, fmt.Sprintf("a person accepted MemberCluster %s with this key", name)
}

// decided tells whether the request was approved, denied or answered.
func decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Conditions) > 0 || len(csr.Status.Certificate) > 0
}

// madeBy returns why the one who made the request may not ask for the member's certificate. The API server has written
// who that is.
func madeBy(csr *certificatesv1.CertificateSigningRequest, member *topology.MemberCluster, first bool) error {
	user, groups := topology.MemberUser(member.Name, member.UID),
		[]string{topology.MemberOrganisation, "system:authenticated"}
	if first {
		user = topology.JoinUser(member.Name)
		groups = []string{
			"system:authenticated",
			"system:serviceaccounts",
			"system:serviceaccounts:" + topology.SystemNamespace,
		}
	}
	if byAccount(csr) {
		user, groups = topology.MemberAccount(member.Name),
			[]string{"system:authenticated", "system:serviceaccounts", topology.MemberAccounts}
	}
	if csr.Spec.Username != user {
		return fmt.Errorf(
			"the request %s may be made by the user %s alone, not by %s",
			csr.Name,
			user,
			quoted(csr.Spec.Username),
		)
	}
	have := slices.Sorted(slices.Values(csr.Spec.Groups))
	slices.Sort(groups)
	if !slices.Equal(have, groups) {
		return fmt.Errorf("the user who made the request %s has other groups than %v", csr.Name, groups)
	}
	return nil
}

// byAccount tells whether a request for a next credential was made with the token of a member's ServiceAccount.
func byAccount(csr *certificatesv1.CertificateSigningRequest) bool {
	name, first, ok := topology.MemberOfRequest(csr.Name)
	return ok && !first && csr.Spec.Username == topology.MemberAccount(name)
}

// keyOf returns the fingerprint of the key that the request is for, or what is wrong with what it asks for.
func keyOf(csr *certificatesv1.CertificateSigningRequest, name string, uid types.UID) (string, error) {
	usages := slices.Sorted(slices.Values(csr.Spec.Usages))
	if want := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth,
		certificatesv1.UsageDigitalSignature}; !slices.Equal(
		usages,
		want,
	) {
		return "", fmt.Errorf("the usages must be %v, and nothing else", want)
	}
	if s := csr.Spec.ExpirationSeconds; s == nil || *s <= 0 || *s > maxSeconds {
		return "", fmt.Errorf(
			"expirationSeconds must be set, to at most %d",
			maxSeconds,
		) // unset, the signer gives its longest life
	}
	if len(csr.Spec.Request) > maxRequest {
		return "", fmt.Errorf("the request has %d bytes; at most %d are looked at", len(csr.Spec.Request), maxRequest)
	}
	request, err := parse(csr.Spec.Request)
	if err != nil {
		return "", err
	}
	subject, err := asn1.Marshal(MemberSubject(name, uid).ToRDNSequence())
	if err != nil {
		return "", fmt.Errorf("encode the subject: %w", err)
	}
	if !bytes.Equal(request.RawSubject, subject) {
		return "", fmt.Errorf(
			"the subject must be CN=%s, O=%s, and nothing else",
			topology.MemberUser(name, uid),
			topology.MemberOrganisation,
		)
	}
	if len(
		request.Extensions,
	)+len(
		request.DNSNames,
	)+len(
		request.EmailAddresses,
	)+len(
		request.IPAddresses,
	)+len(
		request.URIs,
	) > 0 ||
		hasAttributes(request) {
		return "", errors.New("the request must ask for no other names, extensions or attributes")
	}
	return topology.KeyFingerprint(request.RawSubjectPublicKeyInfo), nil
}

// MemberSubject is the subject of a member's certificate.
func MemberSubject(name string, uid types.UID) pkix.Name {
	return pkix.Name{CommonName: topology.MemberUser(name, uid), Organization: []string{topology.MemberOrganisation}}
}

// parse reads exactly one certificate request, for an ECDSA key on P-256, signed by that key.
func parse(data []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 ||
		!bytes.HasPrefix(data, []byte("-----BEGIN")) {
		return nil, errors.New("the request must be one PEM block CERTIFICATE REQUEST, and nothing else")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the request is no certificate request: %w", err)
	}
	if key, ok := request.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key must be an ECDSA key on the curve P-256")
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the request is not signed by its key: %w", err)
	}
	return request, nil
}

// requestInfo is the part of PKCS #10 that a request's key signs, as far as the attributes.
type requestInfo struct {
	Version    int
	Subject    asn1.RawValue
	PublicKey  asn1.RawValue
	Attributes asn1.RawValue `asn1:"tag:0,optional"`
}

// hasAttributes tells whether the request has attributes; package x509 shows some kinds only.
func hasAttributes(request *x509.CertificateRequest) bool {
	var info requestInfo
	rest, err := asn1.Unmarshal(request.RawTBSCertificateRequest, &info)
	return err != nil || len(rest) > 0 || len(info.Attributes.Bytes) > 0
}

// quoted returns a name that somebody chose, cut to what a sentence holds.
func quoted(name string) string {
	const most = 100
	return fmt.Sprintf("%q", name[:min(len(name), most)])
}
