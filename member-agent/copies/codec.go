package copies

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

const (
	// secretType tells people what these Secrets are.
	secretType = corev1.SecretType("topology.flotilla.dev/copy")
	// labelCopyOf is on every Secret of this package: the name under which this cluster is a member.
	labelCopyOf = "topology.flotilla.dev/copy-of"
	// annotationWork names, for people, the Work that a Secret is a copy of.
	annotationWork = "topology.flotilla.dev/work"

	keyWork     = "work.json.gz"
	keyPartial  = "partial"
	keyStanding = "standing.json"
	keyAccepted = "accepted.json"

	// maxPacked is how much of a Work is kept: an API server takes Secrets with 1 MiB of data. A manifest of a Flotilla
	// hub has at most 512 KiB before it is compressed, so only another hub's Work can be larger.
	maxPacked = 1_000_000
	// maxUnpacked bounds what is read out of a Secret that somebody else may have changed: no Work is larger than an
	// object of etcd, 1.5 MiB by default.
	maxUnpacked = 16 << 20
)

// Standing is what the hub said last of who we are.
type Standing struct {
	// ClusterID that the agent found in its cluster.
	ClusterID string `json:"clusterID"`
	// Pinned: the hub meant this cluster.
	Pinned bool `json:"pinned"`
}

// Accepted is what the member's API server made of the order of a Work. The zero value says nothing.
type Accepted struct {
	// UID of the object, and its Generation when it was written.
	UID        types.UID `json:"uid,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	// Digest of the content that belongs to the order, see member-agent/ownership.
	Digest string `json:"digest,omitempty"`
	// Note names what the API server has otherwise than ordered; empty for nothing.
	Note string `json:"note,omitempty"`
}

// same reports whether two of them say the same of the content.
func (a Accepted) same(b Accepted) bool {
	return a.UID == b.UID && a.Digest == b.Digest && a.Note == b.Note
}

// order is what makes two versions of a Work the same order.
type order struct {
	uid        types.UID
	generation int64
	hubID      string
	sequence   string
	deleting   bool
}

func orderOf(w *work.Work) order {
	return order{
		uid: w.UID, generation: w.Generation, deleting: !w.DeletionTimestamp.IsZero(),
		hubID: w.Annotations[topology.AnnotationHubID], sequence: w.Annotations[topology.AnnotationSequence],
	}
}

// copied is one copy. A partial one knows which order it was and of what object, but not the object.
type copied struct {
	order    order
	packed   []byte
	partial  bool
	accepted Accepted
}

// pack makes the copy of a Work, compressed: without its status and what only the hub's API server needs.
func pack(w *work.Work) (copied, error) {
	lean := &work.Work{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: w.Name, UID: w.UID, Generation: w.Generation, ResourceVersion: w.ResourceVersion,
			DeletionTimestamp: w.DeletionTimestamp, Annotations: w.Annotations, Finalizers: w.Finalizers,
		},
		Spec: w.Spec,
	}
	c := copied{order: orderOf(w)}
	var err error
	if c.packed, err = compress(lean); err != nil || len(c.packed) <= maxPacked {
		return c, err
	}
	c.partial = true
	lean.Spec.Workload.Manifests = names(lean.Spec.Workload.Manifests)
	c.packed, err = compress(lean)
	return c, err
}

// names returns the manifests with nothing in them but what names their objects.
func names(manifests []work.Manifest) []work.Manifest {
	out := make([]work.Manifest, 0, len(manifests))
	for i := range manifests {
		var named struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Namespace string `json:"namespace,omitempty"`
				Name      string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(manifests[i].Raw, &named) != nil {
			continue // what cannot be read was never carried out
		}
		raw, err := json.Marshal(named)
		if err != nil {
			continue
		}
		out = append(out, work.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return out
}

func compress(w *work.Work) ([]byte, error) {
	data, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("write Work %s: %w", w.Name, err)
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(data); err != nil {
		return nil, fmt.Errorf("compress Work %s: %w", w.Name, err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress Work %s: %w", w.Name, err)
	}
	return out.Bytes(), nil
}

// unpack returns the Work of a copy.
func unpack(packed []byte) (*work.Work, error) {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read the copy of a Work: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(zip, maxUnpacked))
	if err != nil {
		return nil, fmt.Errorf("read the copy of a Work: %w", err)
	}
	w := &work.Work{}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("read the copy of a Work: %w", err)
	}
	return w, nil
}

// secret returns the Secret of a copy.
func (s *Store) secret(name types.NamespacedName, c copied) (*corev1.Secret, error) {
	secret := s.empty(s.secretName(name.Name))
	secret.Annotations = map[string]string{annotationWork: name.String()}
	secret.Data = map[string][]byte{keyWork: c.packed}
	if c.partial {
		secret.Data[keyPartial] = []byte("true")
	}
	if c.accepted == (Accepted{}) {
		return secret, nil
	}
	accepted, err := json.Marshal(c.accepted)
	if err != nil {
		return nil, fmt.Errorf("write what the member made of Work %s: %w", name, err)
	}
	secret.Data[keyAccepted] = accepted
	return secret, nil
}

func (s *Store) standingSecret(standing Standing) (*corev1.Secret, error) {
	data, err := json.Marshal(standing)
	if err != nil {
		return nil, fmt.Errorf("write the standing: %w", err)
	}
	secret := s.empty("flotilla-standing-" + s.cluster)
	secret.Data = map[string][]byte{keyStanding: data}
	return secret, nil
}

func (s *Store) empty(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{labelCopyOf: s.cluster}},
		Type:       secretType,
	}
}

// secretName is short whatever the Work is called: a Work's name may be as long as a Secret's.
func (s *Store) secretName(workName string) string {
	const digits = 16 // bytes of the hash: no two Works of a member ever share them
	sum := sha256.Sum256([]byte(s.cluster + "/" + workName))
	return "flotilla-work-" + hex.EncodeToString(sum[:digits])
}
