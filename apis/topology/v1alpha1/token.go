package v1alpha1

import (
	"crypto/ecdsa"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Credential is what a member's agent shows the hub.
// +kubebuilder:validation:Enum=Certificate;Token
type Credential string

const (
	// CredentialIsCertificate is a client certificate of the hub's signer. Where none is signed within a minute, a token
	// takes its place.
	CredentialIsCertificate Credential = "Certificate"
	// CredentialIsToken is a token of a ServiceAccount of the hub, for hubs whose signer signs nothing.
	CredentialIsToken Credential = "Token"
)

const (
	// MembersNamespace has the ServiceAccounts of members that show tokens, and nothing else: who may make tokens there
	// gets those of members alone.
	MembersNamespace = "flotilla-members"
	// AnnotationSealedToken is on a CertificateSigningRequest that is answered with a token: a MemberToken that only the
	// key of the request opens.
	AnnotationSealedToken = "topology.flotilla.dev/sealed-token"
	// MemberAccounts is the group of all members that show tokens.
	MemberAccounts = "system:serviceaccounts:" + MembersNamespace
)

// MemberAccount is the user name of the agent of a member that shows tokens. Its ServiceAccount has the name of the
// request.
func MemberAccount(name string) string {
	return "system:serviceaccount:" + MembersNamespace + ":" + MemberObject(name)
}

// MemberToken is a token of a member's ServiceAccount.
// +kubebuilder:object:generate=false
type MemberToken struct {
	// User is the MemberUser that the token stands for.
	User  string      `json:"user"`
	Token string      `json:"token"`
	From  metav1.Time `json:"from"`
	Until metav1.Time `json:"until"`
}

// sealedFor binds a sealed token to one request of one user: an old answer opens for no other request.
func sealedFor(request types.UID, user string) []byte {
	return []byte("topology.flotilla.dev/sealed-token " + string(request) + " " + user)
}

// Seal returns the token in a form that only the holder of the key opens, as an answer to the request with this uid.
// Whoever may read the request has nothing of it. It is HPKE (RFC 9180) with P-256, HKDF-SHA256 and AES-256-GCM.
func (t *MemberToken) Seal(request types.UID, key *ecdsa.PublicKey) (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("write the token of %s: %w", t.User, err)
	}
	public, err := key.ECDH()
	if err != nil {
		return "", fmt.Errorf("seal the token of %s: %w", t.User, err)
	}
	to, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("seal the token of %s: %w", t.User, err)
	}
	sealed, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES256GCM(), sealedFor(request, t.User), text)
	if err != nil {
		return "", fmt.Errorf("seal the token of %s: %w", t.User, err)
	}
	return base64.StdEncoding.EncodeToString(sealed), nil
}

// OpenMemberToken returns the token for the user that Seal closed for this request and the key.
func OpenMemberToken(sealed string, request types.UID, user string, key *ecdsa.PrivateKey) (*MemberToken, error) {
	data, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("read the sealed token of %s: %w", user, err)
	}
	private, err := key.ECDH()
	if err != nil {
		return nil, fmt.Errorf("open the sealed token of %s: %w", user, err)
	}
	with, err := hpke.NewDHKEMPrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("open the sealed token of %s: %w", user, err)
	}
	text, err := hpke.Open(with, hpke.HKDFSHA256(), hpke.AES256GCM(), sealedFor(request, user), data)
	if err != nil {
		return nil, fmt.Errorf("open the sealed token of %s: %w", user, err)
	}
	token := &MemberToken{}
	if err := json.Unmarshal(text, token); err != nil {
		return nil, fmt.Errorf("read the token of %s: %w", user, err)
	}
	if token.User != user || token.Token == "" {
		return nil, fmt.Errorf("the token is for %q, not for %s", token.User, user)
	}
	return token, nil
}
