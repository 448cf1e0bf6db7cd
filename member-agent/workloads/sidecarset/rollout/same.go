package rollout

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// sameButImages decides whether pods differ from a set in images alone. The published hash counts pull policies, also
// those that follow from the image: Always for the tag latest, IfNotPresent for others. Example: the set had
// log:latest, and has log:2 now. The hash without images has changed, though nothing but the image has. So a container
// that names no pull policy may have any: the one of its image now, the one that the pod has, or that of a tag.
type sameButImages struct {
	set     *Set
	implied []string
	// hashes are those worked out so far, by pull policies.
	hashes map[string]string
}

func newSameButImages(set *Set) *sameButImages {
	return &sameButImages{set: set, implied: revision.Implied(set.Spec), hashes: map[string]string{}}
}

// as reports whether a pod with this hash differs from the set in images alone.
func (s *sameButImages) as(pod *corev1.Pod, hash string) (bool, error) {
	if hash == s.set.Hashes.WithoutImage {
		return true, nil
	}
	if len(s.implied) == 0 || hash == "" {
		return false, nil
	}
	has, tagged := map[string]corev1.PullPolicy{}, map[string]corev1.PullPolicy{}
	for _, name := range s.implied {
		tagged[name] = corev1.PullIfNotPresent
		if container := containerOf(pod, podNameOf(s.set.Spec, name)); container != nil {
			has[name] = container.ImagePullPolicy
		}
	}
	for _, policies := range []map[string]corev1.PullPolicy{has, tagged} {
		same, err := s.with(policies)
		if err != nil || same == hash {
			return err == nil, err
		}
	}
	return false, nil
}

// with returns the hash without images with these pull policies.
func (s *sameButImages) with(policies map[string]corev1.PullPolicy) (string, error) {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		key.WriteString(name + "=" + string(policies[name]) + " ")
	}
	if hash, known := s.hashes[key.String()]; known {
		return hash, nil
	}
	hash, err := revision.WithoutImage(s.set.Spec, policies)
	if err == nil {
		s.hashes[key.String()] = hash
	}
	return hash, err
}

// podNameOf returns the name that pods have for a container of the spec; of a pair the first.
func podNameOf(spec *v1beta1.SidecarSetSpec, name string) string {
	for i := range spec.Containers {
		if spec.Containers[i].Name == name && marks.Hot(&spec.Containers[i]) {
			return marks.Pair(name)[0]
		}
	}
	return name
}
