package inplace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/normal"
)

// Change is what a pod must be given to come from one revision to another in place. A nil value of a label or an
// annotation takes it away.
type Change struct {
	Images      map[string]string
	Labels      map[string]*string
	Annotations map[string]*string
}

// Diff returns how a pod of template old becomes one of template updated in place. If it cannot, refusal names the first
// field that differs and cannot be changed in a running pod; it is empty otherwise.
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
	for _, path := range differences("", from, to) {
		if image, ok := imageOf(path, updated); ok {
			change.Images[image.Name] = image.Image
			continue
		}
		if strings.HasPrefix(path, "metadata.labels") || strings.HasPrefix(path, "metadata.annotations") {
			continue
		}
		return Change{}, path, nil
	}
	return change, change.feedsEnvironment(updated), nil
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

// feedsEnvironment returns the field of a container that reads a changed label or annotation into its environment,
// which a running container would never see, or "".
func (c Change) feedsEnvironment(template *corev1.PodTemplateSpec) string {
	for i, container := range template.Spec.Containers {
		for j, env := range container.Env {
			if env.ValueFrom == nil || env.ValueFrom.FieldRef == nil {
				continue
			}
			path := env.ValueFrom.FieldRef.FieldPath
			for kind, keys := range map[string]map[string]*string{"labels": c.Labels, "annotations": c.Annotations} {
				for key := range keys {
					if path == "metadata."+kind+"['"+key+"']" {
						return fmt.Sprintf("spec.containers[%d].env[%d]", i, j)
					}
				}
			}
		}
	}
	return ""
}

// differences returns the paths where two decoded JSON values differ, in a fixed order. Lists of different lengths differ
// as a whole.
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
