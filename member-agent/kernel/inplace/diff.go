package inplace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/normal"
)

// Change is what a pod must be given to come from one revision to another in place. A nil value of a label or an
// annotation takes it away.
type Change struct {
	Images      map[string]string
	Labels      map[string]*string
	Annotations map[string]*string
	// Resources has the whole cpu and memory, requests and limits, of every container of which any of it changes.
	Resources map[string]corev1.ResourceRequirements
	// Environment has the containers whose environment reads changed labels or annotations.
	Environment map[string]Read
}

// Read is what one container's environment reads of a change.
type Read struct {
	Metadata
	// Field is the first field of the template that reads it.
	Field string
}

// Metadata are labels and annotations as the published records have them. A nil value takes a key away.
type Metadata struct {
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
}

// RestartedAt is the annotation by which a person asks for new pods, with kubectl rollout restart and its like: another
// value cannot be given to a running pod, because nothing would restart. It is taken away in place.
const RestartedAt = "kubectl.kubernetes.io/restartedAt"

// Diff returns how a pod of template old becomes one of template updated in place. If no pod can, refusal names the
// first field that differs and cannot be changed in a running pod; it is empty otherwise. Change.Possible answers the
// rest for one pod. Diff errs when a template cannot be encoded.
func Diff(old, updated *corev1.PodTemplateSpec) (change Change, refusal string, err error) {
	from, err := normal.Fields(old)
	if err != nil {
		return Change{}, "", err
	}
	to, err := normal.Fields(updated)
	if err != nil {
		return Change{}, "", err
	}
	change = Change{Images: map[string]string{}}
	change.Labels = changed(old.Labels, updated.Labels)
	change.Annotations = changed(old.Annotations, updated.Annotations)
	if change.Annotations[RestartedAt] != nil {
		return Change{}, "metadata.annotations[" + RestartedAt + "]", nil
	}
	for _, key := range []string{"controller-revision-hash", v1beta1.LabelPodTemplateHash, v1beta1.LabelInstanceID,
		v1beta1.LabelLifecycleState} {
		delete(change.Labels, key) // pods have their own, whatever a template says that was copied from one
	}
	for _, key := range []string{v1beta1.AnnotationInPlaceUpdateState, v1beta1.AnnotationInPlaceUpdateGrace,
		v1beta1.AnnotationLifecycleTimestamp} {
		delete(change.Annotations, key)
	}
	sized := ""
	for _, path := range differences("", from, to) {
		if image, ok := imageOf(path, updated); ok {
			change.Images[image.Name] = image.Image
			continue
		}
		if strings.HasPrefix(path, "metadata.labels") || strings.HasPrefix(path, "metadata.annotations") {
			continue
		}
		field, i, ok := resourcesOf(path, old, updated)
		if !ok {
			return Change{}, path, nil
		}
		refusal := change.addSize(field, old.Spec.Containers[i], updated.Spec.Containers[i])
		if refusal != "" {
			return Change{}, refusal, nil
		}
		if sized == "" && len(change.Resources) > 0 {
			sized = field
		}
	}
	if sized != "" && qosClass(&old.Spec, nil) != qosClass(&old.Spec, change.Resources) {
		return Change{}, sized, nil
	}
	if refusal := change.addReads(&updated.Spec); refusal != "" {
		return Change{}, refusal, nil
	}
	return change, "", nil
}

// addSize notes the new resources of a container, or returns the field that refuses them.
func (c *Change) addSize(field string, old, updated corev1.Container) string {
	size, refusal := resize(field, old.Resources, updated.Resources)
	if size != nil {
		if c.Resources == nil {
			c.Resources = map[string]corev1.ResourceRequirements{}
		}
		c.Resources[updated.Name] = *size
	}
	return refusal
}

// resourcesOf returns the resources field that the path is in or is, and the number of its container in both templates.
func resourcesOf(path string, old, updated *corev1.PodTemplateSpec) (field string, container int, ok bool) {
	for i := range min(len(old.Spec.Containers), len(updated.Spec.Containers)) {
		field = fmt.Sprintf("spec.containers[%d].resources", i)
		if path == field || strings.HasPrefix(path, field+".") {
			return field, i, true
		}
	}
	return "", 0, false
}

// changed returns the keys whose value differs, nil for those that are gone.
func changed(old, updated map[string]string) map[string]*string {
	out := map[string]*string{}
	for key := range old {
		if _, ok := updated[key]; !ok {
			out[key] = nil
		}
	}
	for key, value := range updated {
		if have, ok := old[key]; !ok || have != value {
			out[key] = new(value)
		}
	}
	return out
}

// imageOf returns the container whose image the path names.
func imageOf(path string, template *corev1.PodTemplateSpec) (corev1.Container, bool) {
	for i, container := range template.Spec.Containers {
		if path == fmt.Sprintf("spec.containers[%d].image", i) && container.Image != "" {
			return container, true
		}
	}
	return corev1.Container{}, false
}

// addReads notes the containers that read a changed label or annotation into their environment. An init container that
// keeps running beside the others is never changed in place, so such a field of it is returned as a refusal.
func (c *Change) addReads(spec *corev1.PodSpec) (refusal string) {
	for i, container := range spec.Containers {
		read := c.reads(container.Env, fmt.Sprintf("spec.containers[%d]", i))
		if read.Field == "" {
			continue
		}
		if c.Environment == nil {
			c.Environment = map[string]Read{}
		}
		c.Environment[container.Name] = read
	}
	for i, container := range spec.InitContainers {
		if container.RestartPolicy == nil || *container.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		if read := c.reads(container.Env, fmt.Sprintf("spec.initContainers[%d]", i)); read.Field != "" {
			return read.Field
		}
	}
	return ""
}

// reads returns what an environment reads of the change.
func (c *Change) reads(env []corev1.EnvVar, container string) Read {
	var out Read
	for i, variable := range env {
		if variable.ValueFrom == nil || variable.ValueFrom.FieldRef == nil {
			continue
		}
		kind, key := metadataKey(variable.ValueFrom.FieldRef.FieldPath)
		changed, into := c.Labels, &out.Labels
		if kind == "annotations" {
			changed, into = c.Annotations, &out.Annotations
		}
		value, ok := changed[key]
		if kind == "" || !ok {
			continue
		}
		if *into == nil {
			*into = map[string]*string{}
		}
		(*into)[key] = value
		if out.Field == "" {
			out.Field = fmt.Sprintf("%s.env[%d]", container, i)
		}
	}
	return out
}

// metadataKey returns what metadata.labels['key'] or metadata.annotations['key'] names; kind is empty for other paths.
func metadataKey(path string) (kind, key string) {
	for _, kind := range []string{"labels", "annotations"} {
		rest, ok := strings.CutPrefix(path, "metadata."+kind+"['")
		if !ok {
			continue
		}
		if key, ok := strings.CutSuffix(rest, "']"); ok {
			return kind, key
		}
	}
	return "", ""
}

// differences returns the paths where two decoded JSON values differ, in a fixed order. Lists of different lengths
// differ as a whole.
func differences(path string, a, b any) []string {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			return mapDifferences(path, a, b)
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			var out []string
			for i := range a {
				out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
			}
			return out
		}
	default:
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return nil
			}
		}
	}
	return []string{path}
}

func mapDifferences(path string, a, b map[string]any) []string {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := key
		if path != "" {
			at = path + "." + key
		}
		left, inA := a[key]
		right, inB := b[key]
		if inA != inB {
			out = append(out, at)
			continue
		}
		out = append(out, differences(at, left, right)...)
	}
	return out
}
