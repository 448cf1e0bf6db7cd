package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// digestBytes is how much of a decision's hash is kept: it tells edits apart, and keeps no secret.
const digestBytes = 8

// DigestOf returns the digest of a decision. It is the same before the API server took it and after.
func DigestOf(spec *topology.WorkloadPlacementSpec) string {
	data, err := json.Marshal(spec)
	if err != nil {
		return "" // it holds no value that cannot be encoded, but for a template that is no JSON, which no server takes
	}
	// A server writes the fields of a template in an order of its own.
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil {
		return ""
	}
	if data, err = json.Marshal(tree); err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:digestBytes])
}

// Foreign tells whether somebody else than the hub wrote what a placement says. One without a digest is of a hub of before, which wrote
// none.
func Foreign(p *topology.WorkloadPlacement) bool {
	digest, ok := p.Annotations[topology.AnnotationDecision]
	return ok && digest != DigestOf(&p.Spec)
}
