package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// MemberOrganisation is the one group that a member's certificate names.
	MemberOrganisation = "flotilla:members"
	// SystemNamespace has Flotilla's own objects, on the hub and in members.
	SystemNamespace = "flotilla-system"
	// MemberSigner signs members' certificates: the one signer whose certificates an API server takes for its clients.
	MemberSigner = "kubernetes.io/kube-apiserver-client"

	// LabelMember is on every object of the hub that stands for one member: its name.
	LabelMember = "topology.flotilla.dev/member"
	// AnnotationClusterID is on a CertificateSigningRequest: the uid of the member's namespace kube-system, as the agent
	// says it.
	AnnotationClusterID = "topology.flotilla.dev/cluster-id"
	// AnnotationExpires is on a ServiceAccount for joining: when its last token expires, RFC 3339.
	AnnotationExpires = "topology.flotilla.dev/expires"

	// JoinSecret is the Secret in the member by which its agent finds the hub. It is in SystemNamespace, or where the
	// agent's own objects are.
	JoinSecret = "flotilla-join"
	// CredentialSecret is the Secret beside it with the agent's key and certificate.
	CredentialSecret = "flotilla-credential"

	joinPrefix   = "flotilla-join-"
	memberPrefix = "flotilla-member-"
)

// Keys of the data of the JoinSecret.
const (
	// JoinServer is the URL of the hub's API server as the member reaches it.
	JoinServer = "server"
	// JoinCA has the certificates that it is known by (PEM; empty: those of the machine).
	JoinCA = "ca.crt"
	// JoinToken is the token.
	JoinToken = "token"
	// JoinExpires is when the token expires, RFC 3339.
	JoinExpires = "expires"
	// JoinName is the name of the MemberCluster.
	JoinName = "name"
	// JoinUID is the uid of the MemberCluster.
	JoinUID = "uid"
)

// Keys of the data of the CredentialSecret, as in Secrets of type kubernetes.io/tls but for the last.
const (
	CredentialKey         = "tls.key"
	CredentialCertificate = "tls.crt"
	// CredentialToken is a MemberToken in JSON, where the hub signs no certificates.
	CredentialToken = "token.json"
)

// MemberUser is the user name of the member's agent on the hub. The uid is that of the MemberCluster: one that is made
// anew under an old name has another user.
func MemberUser(name string, uid types.UID) string { return MemberUserPrefix(name) + string(uid) }

// MemberUserPrefix begins the user names of every MemberCluster that ever had the name.
func MemberUserPrefix(name string) string { return "flotilla:member:" + name + ":" }

// JoinObject names a member's objects on the hub for joining: those of its token, and the request for its first
// certificate.
func JoinObject(name string) string { return joinPrefix + name }

// MemberObject names the request for a member's next certificate.
func MemberObject(name string) string { return memberPrefix + name }

// MemberOfRequest returns the member that a CertificateSigningRequest with this name is for, and whether it is one for
// a first certificate. ok is false for requests that are not Flotilla's.
func MemberOfRequest(request string) (member string, first, ok bool) {
	if member, ok = strings.CutPrefix(request, joinPrefix); ok {
		return member, true, member != ""
	}
	member, ok = strings.CutPrefix(request, memberPrefix)
	return member, false, ok && member != ""
}

// JoinUser is the user name of the token for joining under a name.
func JoinUser(name string) string {
	return "system:serviceaccount:" + SystemNamespace + ":" + JoinObject(name)
}

// KeyFingerprint names a public key: "sha256:" and the hash of its DER form (SubjectPublicKeyInfo) in hexadecimal.
func KeyFingerprint(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return "sha256:" + hex.EncodeToString(sum[:])
}
