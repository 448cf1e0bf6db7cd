package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// The ConfigMap with the list of annotations that SidecarSets may overwrite, as published, and its key.
const (
	AllowedConfigMap = "kruise-configuration"
	AllowedKey       = "SidecarSet_PatchPodMetadata_WhiteList"
)

// Allowed says which annotations SidecarSets may overwrite in pods.
type Allowed struct{ rules []allowedRule }

type allowedRule struct {
	sets labels.Selector
	keys []*regexp.Regexp
}

// ParseAllowed reads the value of AllowedKey; "" allows nothing. It errs for values that cannot be used.
func ParseAllowed(text string) (Allowed, error) {
	var out Allowed
	if text == "" {
		return out, nil
	}
	var list struct {
		Rules []struct {
			Selector *metav1.LabelSelector `json:"selector"`
			Keys     []string              `json:"annotationKeyExprs"`
		} `json:"rules"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return out, fmt.Errorf("key %s cannot be read: %w", AllowedKey, err)
	}
	for i, rule := range list.Rules {
		parsed := allowedRule{sets: labels.Everything()}
		var err error
		if rule.Selector != nil {
			if parsed.sets, err = metav1.LabelSelectorAsSelector(rule.Selector); err != nil {
				return out, fmt.Errorf("the selector of rule %d of key %s cannot be used: %w", i+1, AllowedKey, err)
			}
		}
		for _, text := range rule.Keys {
			key, err := regexp.Compile(text)
			if err != nil {
				return out, fmt.Errorf("expression %q of rule %d of key %s cannot be used: %w", text, i+1, AllowedKey, err)
			}
			parsed.keys = append(parsed.keys, key)
		}
		out.rules = append(out.rules, parsed)
	}
	return out, nil
}

// With returns what one of both allows.
func (a Allowed) With(other Allowed) Allowed {
	return Allowed{rules: slices.Concat(a.rules, other.rules)}
}

// Allows reports whether a SidecarSet with these labels may overwrite the annotation.
func (a Allowed) Allows(setLabels map[string]string, key string) bool {
	return slices.ContainsFunc(a.rules, func(rule allowedRule) bool {
		return rule.sets.Matches(labels.Set(setLabels)) &&
			slices.ContainsFunc(rule.keys, func(expression *regexp.Regexp) bool { return expression.MatchString(key) })
	})
}

// Refused returns the first annotation that the SidecarSet may not overwrite, "" if it may overwrite all that it names.
func (a Allowed) Refused(setLabels map[string]string, patches []v1beta1.SidecarSetPatchPodMetadata) string {
	for _, patch := range patches {
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			if !retains(patch.PatchPolicy) && !a.Allows(setLabels, key) {
				return key
			}
		}
	}
	return ""
}

func retains(policy v1beta1.SidecarSetPatchPolicyType) bool {
	return policy == "" || policy == v1beta1.SidecarSetRetainPatchPolicy
}

// patchAnnotations changes annotations of a pod. Those that may not be overwritten are left out. It errs for a merge
// patch that is not JSON.
func patchAnnotations(
	annotations, setLabels map[string]string, patches []v1beta1.SidecarSetPatchPodMetadata, allowed Allowed,
) error {
	for _, patch := range patches {
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			value := patch.Annotations[key]
			have, has := annotations[key]
			switch {
			case retains(patch.PatchPolicy):
				if !has {
					annotations[key] = value
				}
			case !allowed.Allows(setLabels, key):
			case has && patch.PatchPolicy == v1beta1.SidecarSetMergePatchJSONPatchPolicy:
				merged, err := mergePatch(have, value)
				if err != nil {
					return fmt.Errorf("merge annotation %s: %w", key, err)
				}
				annotations[key] = merged
			default:
				annotations[key] = value
			}
		}
	}
	return nil
}

// Update changes the annotations of a running pod that gets a new revision: those that are overwritten or merged.
func Update(
	annotations, setLabels map[string]string, patches []v1beta1.SidecarSetPatchPodMetadata, allowed Allowed,
) error {
	patches = slices.DeleteFunc(slices.Clone(patches), func(p v1beta1.SidecarSetPatchPodMetadata) bool {
		return retains(p.PatchPolicy)
	})
	return patchAnnotations(annotations, setLabels, patches, allowed)
}

// mergePatch applies a JSON merge patch (RFC 7386). A text that is no JSON is replaced.
func mergePatch(text, patch string) (string, error) {
	var have, change any
	if err := json.Unmarshal([]byte(patch), &change); err != nil {
		return "", fmt.Errorf("the patch %q is not JSON: %w", patch, err)
	}
	_ = json.Unmarshal([]byte(text), &have)
	merged, err := json.Marshal(merge(have, change))
	return string(merged), err
}

func merge(have, change any) any {
	changes, ok := change.(map[string]any)
	if !ok {
		return change
	}
	out, ok := have.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for key, value := range changes {
		if value == nil {
			delete(out, key)
		} else {
			out[key] = merge(out[key], value)
		}
	}
	return out
}
