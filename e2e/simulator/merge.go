package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patched returns obj after the patch; obj may be changed.
func patched(obj client.Object, kind types.PatchType, patch []byte) (client.Object, error) {
	switch kind {
	case types.StrategicMergePatchType:
		if pod, ok := obj.(*corev1.Pod); ok && patchPod(pod, patch) {
			return pod, nil
		}
		return viaJSON(obj, func(before []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(before, patch, obj)
		})
	case types.MergePatchType:
		return viaJSON(obj, func(before []byte) ([]byte, error) { return mergePatch(before, patch) })
	case types.JSONPatchType:
		steps, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		return viaJSON(obj, steps.Apply)
	}
	return nil, fmt.Errorf("patches of type %s are not simulated", kind)
}

func viaJSON(obj client.Object, change func([]byte) ([]byte, error)) (client.Object, error) {
	before, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	after, err := change(before)
	if err != nil {
		return nil, err
	}
	out, _ := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	return out, json.Unmarshal(after, out)
}

// mergePatch is RFC 7386.
func mergePatch(before, patch []byte) ([]byte, error) {
	var into, from map[string]any
	if err := json.Unmarshal(before, &into); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &from); err != nil {
		return nil, err
	}
	return json.Marshal(merged(into, from))
}

func merged(into, from map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for key, value := range from {
		switch value := value.(type) {
		case nil:
			delete(into, key)
		case map[string]any:
			have, _ := into[key].(map[string]any)
			into[key] = merged(have, value)
		default:
			into[key] = value
		}
	}
	return into
}

// podPatch holds the fields that are merged directly, because the general way takes a hundred times as long.
type podPatch struct {
	Metadata struct {
		UID             *types.UID              `json:"uid"`
		ResourceVersion *string                 `json:"resourceVersion"`
		Labels          map[string]*string      `json:"labels"`
		Annotations     map[string]*string      `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Conditions []map[string]any `json:"conditions"`
	} `json:"status"`
}

// patchPod merges the patch into the pod. It returns false, and leaves the pod alone, where the patch holds anything
// that it does not know.
func patchPod(pod *corev1.Pod, patch []byte) bool {
	var p podPatch
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&p) != nil || !p.known(pod) {
		return false
	}
	if p.Metadata.UID != nil {
		pod.UID = *p.Metadata.UID
	}
	if p.Metadata.ResourceVersion != nil {
		pod.ResourceVersion = *p.Metadata.ResourceVersion
	}
	pod.Labels = mergeStrings(pod.Labels, p.Metadata.Labels)
	pod.Annotations = mergeStrings(pod.Annotations, p.Metadata.Annotations)
	// What is new in a merged list comes first, as in the library.
	for _, ref := range slices.Backward(p.Metadata.OwnerReferences) {
		others := slices.DeleteFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == ref.UID })
		pod.OwnerReferences = append([]metav1.OwnerReference{ref}, others...)
	}
	for _, change := range p.Spec.Containers {
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == change.Name })
		pod.Spec.Containers[i].Image = change.Image
	}
	for _, change := range slices.Backward(p.Status.Conditions) {
		mergeCondition(pod, change)
	}
	return true
}

// known tells whether patchPod can carry out the patch.
func (p *podPatch) known(pod *corev1.Pod) bool {
	for _, change := range p.Spec.Containers {
		if change.Image == "" || !slices.ContainsFunc(pod.Spec.Containers,
			func(c corev1.Container) bool { return c.Name == change.Name }) {
			return false
		}
	}
	for _, change := range p.Status.Conditions {
		for key, value := range change {
			text, isText := value.(string)
			switch key {
			case "type", "status", "reason", "message":
				if value != nil && !isText {
					return false
				}
			case "lastTransitionTime":
				if _, err := time.Parse(time.RFC3339, text); err != nil {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

func mergeStrings(have map[string]string, change map[string]*string) map[string]string {
	for key, value := range change {
		if value == nil {
			delete(have, key)
			continue
		}
		if have == nil {
			have = map[string]string{}
		}
		have[key] = *value
	}
	return have
}

func mergeCondition(pod *corev1.Pod, change map[string]any) {
	text := func(key string) string { s, _ := change[key].(string); return s }
	i := slices.IndexFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return string(c.Type) == text("type") })
	if i < 0 {
		i = 0
		pod.Status.Conditions = slices.Insert(pod.Status.Conditions, 0,
			corev1.PodCondition{Type: corev1.PodConditionType(text("type"))})
	}
	c := &pod.Status.Conditions[i]
	for key := range change {
		switch key {
		case "status":
			c.Status = corev1.ConditionStatus(text(key))
		case "reason":
			c.Reason = text(key)
		case "message":
			c.Message = text(key)
		case "lastTransitionTime":
			at, _ := time.Parse(time.RFC3339, text(key)) // known has parsed it
			c.LastTransitionTime = metav1.NewTime(at)
		}
	}
}
