package nodeimages

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	// LabelPullSecret is on copies of Secrets for daemons, with the value "true".
	LabelPullSecret = "flotilla.dev/pull-secret"
	// AnnotationSource is on such a copy: <namespace>/<name> of the original.
	AnnotationSource = "flotilla.dev/source"
	// secretPrefix begins the names of these copies.
	secretPrefix = "pull-"
	// hashLength is how many hexadecimal digits of a hash the name of a copy has: 64 bits.
	hashLength = 16
)

// SecretName returns the name of the copy of a Secret.
func SecretName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return secretPrefix + hex.EncodeToString(sum[:])[:hashLength]
}

// IsSecretName reports whether a Secret of the agent's namespace may be such a copy.
func IsSecretName(name string) bool { return strings.HasPrefix(name, secretPrefix) }

// TagOf returns the entry of a tag in the spec, nil for none. It is the NodeImage's.
func TagOf(image *v1beta1.NodeImage, name, tag string) *v1beta1.ImageTagSpec {
	tags := image.Spec.Images[name].Tags
	for i := range tags {
		if tags[i].Tag == tag {
			return &tags[i]
		}
	}
	return nil
}

// StatusOf returns the entry of a tag in the status, nil for none. It is the NodeImage's.
func StatusOf(image *v1beta1.NodeImage, name, tag string) *v1beta1.ImageTagStatus {
	tags := image.Status.ImageStatuses[name].Tags
	for i := range tags {
		if tags[i].Tag == tag {
			return &tags[i]
		}
	}
	return nil
}

// Reported reports whether a daemon has ever written the status.
func Reported(image *v1beta1.NodeImage) bool {
	s := &image.Status
	return len(s.Conditions) > 0 || len(s.ImageStatuses) > 0 || s.FirstSyncStatus != nil
}
