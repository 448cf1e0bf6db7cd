package conversion

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

// upPodUnavailableBudget makes a v1alpha1 PodUnavailableBudget one of v1beta1: two annotations become fields. An
// annotation that says nothing valid stays.
func upPodUnavailableBudget(object tree) {
	metadata := child(object, "metadata")
	annotations := child(metadata, "annotations")
	move := func(key, field string, parse func(string) (any, bool)) {
		text, _ := annotations[key].(string)
		value, valid := parse(text)
		if spec := made(object, "spec"); valid && spec[field] == nil {
			spec[field] = value
			delete(annotations, key)
			dropEmpty(metadata, "annotations")
		}
	}
	if annotations == nil {
		return
	}
	move(v1beta1.AnnotationProtectOperations, "protectOperations", parseOperations)
	move(v1beta1.AnnotationProtectTotalReplicas, "protectTotalReplicas", parseReplicas)
}

// downPodUnavailableBudget makes a v1beta1 PodUnavailableBudget one of v1alpha1.
func downPodUnavailableBudget(object tree) {
	spec := child(object, "spec")
	if operations, _ := spec["protectOperations"].([]any); len(operations) > 0 {
		names := make([]string, 0, len(operations))
		for _, operation := range operations {
			name, _ := operation.(string)
			names = append(names, name)
		}
		made(made(object, "metadata"), "annotations")[v1beta1.AnnotationProtectOperations] = strings.Join(names, ",")
	}
	if replicas, ok := spec["protectTotalReplicas"].(int64); ok {
		made(made(object, "metadata"), "annotations")[v1beta1.AnnotationProtectTotalReplicas] =
			strconv.FormatInt(replicas, 10)
	}
	delete(spec, "protectOperations")
	delete(spec, "protectTotalReplicas")
	delete(spec, "ignoredPodSelector")
}

// parseOperations reads names of operations with commas between them; false if there are others, or none.
func parseOperations(text string) (any, bool) {
	var out []any
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(v1beta1.PubOperations(), v1beta1.PubOperation(name)) {
			return nil, false
		}
		out = append(out, name)
	}
	return out, true
}

// parseReplicas reads a number of pods, at least 1.
func parseReplicas(text string) (any, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 1 && n <= math.MaxInt32
}
