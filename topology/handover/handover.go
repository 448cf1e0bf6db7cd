// Package handover owns what a pod with an ordinal gets of the pod that it replaces: how values are called, how large
// they may be, and how they are written. It is pure.
package handover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// MaxPod is the largest size of the values of one pod, with their names, in bytes.
	MaxPod = 512
	// MaxAll is the largest size of the values of all pods of a Work or a WorkloadPlacement as JSON, in bytes.
	MaxAll = 32 * 1024
)

// Name returns the name of the value of a label or annotation: the part of its key behind the slash.
func Name(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// Variable returns the environment variable of a value.
func Variable(name string) string {
	return topology.HandedOverVariable + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))
}

// Pick returns the values of a pod that h names, by name. What the pod lacks is taken from the values that were handed
// over to the pod itself.
func Pick(h *topology.HandOver, pod metav1.Object) map[string]string {
	out := map[string]string{}
	pick := func(keys []string, from map[string]string) {
		for _, key := range keys {
			name := Name(key)
			value, ok := from[key]
			if !ok {
				value, ok = pod.GetAnnotations()[topology.HandedOverPrefix+name]
			}
			if ok {
				out[name] = value
			}
		}
	}
	pick(h.Labels, pod.GetLabels())
	pick(h.Annotations, pod.GetAnnotations())
	return out
}

// Names reports whether the value of this name is one of the labels and annotations that h names.
func Names(h *topology.HandOver, name string) bool {
	named := func(key string) bool { return Name(key) == name }
	return slices.ContainsFunc(h.Labels, named) || slices.ContainsFunc(h.Annotations, named)
}

// Received reports whether a pod was created with values of another one.
func Received(pod metav1.Object) bool {
	for key := range pod.GetAnnotations() {
		if strings.HasPrefix(key, topology.HandedOverPrefix) {
			return true
		}
	}
	return false
}

// Fit returns the values of pods, which are in the order of their ordinals, as far as they are not too large. nil is
// none.
func Fit(pods []topology.OrdinalValues) *topology.HandOverValues {
	var kept []topology.OrdinalValues
	var cut []int32
	left := MaxAll
	for _, pod := range pods {
		if len(pod.Values) == 0 {
			continue
		}
		values, whole := fitPod(pod.Values)
		entry := topology.OrdinalValues{Ordinal: pod.Ordinal, Values: values}
		// The separator counts too. Encoding of texts never fails.
		data, _ := json.Marshal(entry)
		fits := len(data) < left
		if !whole || !fits {
			cut = append(cut, pod.Ordinal)
		}
		if fits {
			left -= len(data) + 1
			kept = append(kept, entry)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return &topology.HandOverValues{Pods: kept, Cut: Ranges(cut)}
}

// fitPod returns the values in the order of their names as far as they fit: the first one that does not is cut between
// two characters, and those behind it are left out. whole reports whether all fit.
func fitPod(values map[string]string) (out map[string]string, whole bool) {
	out = make(map[string]string, len(values))
	left := MaxPod
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		room := left - len(name)
		if len(value) <= room {
			out[name], left = value, room-len(value)
			continue
		}
		for room > 0 && !utf8.RuneStart(value[room]) {
			room--
		}
		if room > 0 {
			out[name] = value[:room]
		}
		return out, false
	}
	return out, true
}

// shownRanges is how many ranges of ordinals a sentence names.
const shownRanges = 10

// Ranges prints ordinals, which are in ascending order, as "3, 1000-1004".
func Ranges(ordinals []int32) string {
	var parts []string
	for i := 0; i < len(ordinals); {
		last := i
		for last+1 < len(ordinals) && ordinals[last+1] == ordinals[last]+1 {
			last++
		}
		if len(parts) == shownRanges {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(ordinals)-i)
		}
		part := strconv.Itoa(int(ordinals[i]))
		if last > i {
			part += "-" + strconv.Itoa(int(ordinals[last]))
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}

// Sort orders the values of pods by ordinal.
func Sort(pods []topology.OrdinalValues) {
	slices.SortFunc(pods, func(a, b topology.OrdinalValues) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
}

// Asked reads what a Work asks its member to report; nil for nothing, and for what cannot be read.
func Asked(work metav1.Object) *topology.HandOver {
	asked := &topology.HandOver{}
	text := work.GetAnnotations()[topology.AnnotationHandOver]
	if text == "" || json.Unmarshal([]byte(text), asked) != nil {
		return nil
	}
	return asked
}

// Ask returns the annotation that [Asked] reads, "" for nothing.
func Ask(h *topology.HandOver) string {
	if h == nil || len(h.Labels)+len(h.Annotations) == 0 {
		return ""
	}
	// Encoding of texts never fails.
	data, _ := json.Marshal(topology.HandOver{Labels: h.Labels, Annotations: h.Annotations})
	return string(data)
}

// Given reads the values that an object has for its pods, by ordinal.
func Given(object metav1.Object) (map[int32]map[string]string, error) {
	text, ok := object.GetAnnotations()[topology.AnnotationHandedOver]
	if !ok {
		return nil, nil
	}
	var pods []topology.OrdinalValues
	if err := json.Unmarshal([]byte(text), &pods); err != nil {
		return nil, fmt.Errorf("annotation %s of %s/%s cannot be read; the hub writes it, remove it if no hub owns this "+
			"object: %w", topology.AnnotationHandedOver, object.GetNamespace(), object.GetName(), err)
	}
	out := make(map[int32]map[string]string, len(pods))
	for _, pod := range pods {
		out[pod.Ordinal] = pod.Values
	}
	return out, nil
}

// Give returns the annotation that [Given] reads, "" for no values.
func Give(pods []topology.OrdinalValues) string {
	if len(pods) == 0 {
		return ""
	}
	// Encoding of texts never fails.
	data, _ := json.Marshal(pods)
	return string(data)
}
