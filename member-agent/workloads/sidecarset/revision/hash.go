// Package revision owns the question "which sidecars does a SidecarSet ask for, and since when": the published hashes,
// and the content of revisions. It is pure.
package revision

import (
	"cmp"
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
	out.WithoutImage, err = withoutImage(containers, inits)
	return out, err
}

func withoutImage(containers, inits []v1beta1.SidecarContainer) (string, error) {
	for _, list := range [][]v1beta1.SidecarContainer{containers, inits} {
		for i := range list {
			list[i].Image = ""
		}
	}
	return hash(containers, inits)
}

// Implied returns the names of the containers whose pull policy follows from their image, because they name none. The
// hash without images has it nevertheless, so it changes with the image from the tag latest to another one.
func Implied(spec *v1beta1.SidecarSetSpec) []string {
	var out []string
	for _, list := range [][]v1beta1.SidecarContainer{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].ImagePullPolicy == "" {
				out = append(out, list[i].Name)
			}
		}
	}
	return out
}

// WithoutImage returns the hash without images if the containers that name no pull policy have these, by their names.
// It errs for containers that cannot be decoded.
func WithoutImage(spec *v1beta1.SidecarSetSpec, policies map[string]corev1.PullPolicy) (string, error) {
	spec = spec.DeepCopy()
	for _, list := range [][]v1beta1.SidecarContainer{spec.Containers, spec.InitContainers} {
		for i := range list {
			list[i].ImagePullPolicy = cmp.Or(list[i].ImagePullPolicy, policies[list[i].Name])
		}
	}
	containers, inits, err := defaulted(spec)
	if err != nil {
		return "", err
	}
	return withoutImage(containers, inits)
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
