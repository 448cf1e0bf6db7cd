// Package revision owns the question "which sidecars does a SidecarSet ask for, and since when": the published hashes,
// and the content of revisions. It is pure.
package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/flotilla-dev/flotilla/apis/apps/defaults"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Hashes are what an OpenKruise manager writes on a SidecarSet and on the pods that have its sidecars. Both versions of
// the API have the same, because their containers have the same fields in the same order.
type Hashes struct {
	// All counts everything of the containers, WithoutImage all but their images.
	All, WithoutImage string
}

// HashesOf returns the hashes of the sidecars of a SidecarSet. It errs for containers that cannot be decoded.
func HashesOf(spec *v1beta1.SidecarSetSpec) (Hashes, error) {
	containers, inits, err := defaulted(spec)
	if err != nil {
		return Hashes{}, err
	}
	var out Hashes
	if out.All, err = hash(containers, inits); err != nil {
		return Hashes{}, err
	}
	for _, list := range [][]v1beta1.SidecarContainer{containers, inits} {
		for i := range list {
			list[i].Image = ""
		}
	}
	out.WithoutImage, err = hash(containers, inits)
	return out, err
}

// defaulted returns copies of the containers and init containers with the values that absent fields have.
func defaulted(spec *v1beta1.SidecarSetSpec) (containers, inits []v1beta1.SidecarContainer, err error) {
	if err := Err(spec); err != nil {
		return nil, nil, err
	}
	spec = spec.DeepCopy()
	for i := range spec.Containers {
		defaults.Sidecar(&spec.Containers[i], v1beta1.BeforeAppContainerType)
	}
	for i := range spec.InitContainers {
		defaults.Sidecar(&spec.InitContainers[i], v1beta1.AfterAppContainerType)
	}
	return spec.Containers, spec.InitContainers, nil
}

// hash returns the hash of containers, and of all init containers if one of them is a native sidecar.
func hash(containers, inits []v1beta1.SidecarContainer) (string, error) {
	content := map[string]any{"containers": containers}
	if slices.ContainsFunc(inits, Native) {
		content["initContainers"] = inits
	}
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encode the containers: %w", err)
	}
	sum := sha256.Sum256(data)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:])), nil
}

// Native reports whether an init container is a native sidecar.
func Native(c v1beta1.SidecarContainer) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
