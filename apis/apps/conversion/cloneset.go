package conversion

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// limits are the fields that v1alpha1 has in updateStrategy and v1beta1 in updateStrategy.rollingUpdate.
func limits() []string {
	return []string{
		"partition",
		"maxUnavailable",
		"maxSurge",
		"paused",
		"priorityStrategy",
		"scatterStrategy",
		"inPlaceUpdateStrategy",
	}
}

// isPolicy tells whether a value of v1alpha1's updateStrategy.type is one of v1beta1's rollingUpdate.podUpdatePolicy:
// any but the types of v1beta1, so that rules of either version see a wrong one.
func isPolicy(value any) bool {
	name, _ := value.(string)
	return name != "" && name != string(v1beta1.OnDeleteCloneSetUpdateStrategyType) &&
		name != string(v1beta1.RollingUpdateCloneSetUpdateStrategyType)
}

// upCloneSet makes a v1alpha1 CloneSet one of v1beta1.
func upCloneSet(object tree) {
	spec := child(object, "spec")
	if spec == nil {
		return
	}
	metadata := made(object, "metadata")
	upStrategy(spec)
	upPreDownload(metadata, spec)

	scale := made(spec, "scaleStrategy")
	scale["enablePVCReuse"] = scale["disablePVCReuse"] != true
	delete(scale, "disablePVCReuse")
	if labels := child(metadata, "labels"); labels[v1alpha1.LabelExcludePreparingDelete] == "true" {
		scale["excludePreparingDelete"] = true
		delete(labels, v1alpha1.LabelExcludePreparingDelete)
		dropEmpty(metadata, "labels")
	}
}

// downCloneSet makes a v1beta1 CloneSet one of v1alpha1.
func downCloneSet(object tree) {
	spec := child(object, "spec")
	if spec == nil {
		return
	}
	metadata := made(object, "metadata")
	downStrategy(spec)
	downPreDownload(metadata)

	scale := made(spec, "scaleStrategy")
	if scale["enablePVCReuse"] != true {
		scale["disablePVCReuse"] = true
	}
	delete(scale, "enablePVCReuse")
	if scale["excludePreparingDelete"] == true {
		made(metadata, "labels")[v1alpha1.LabelExcludePreparingDelete] = "true"
	} else if labels := child(metadata, "labels"); labels[v1alpha1.LabelExcludePreparingDelete] == "true" {
		// The label means nothing on a v1beta1 object.
		delete(labels, v1alpha1.LabelExcludePreparingDelete)
		dropEmpty(metadata, "labels")
	}
	delete(scale, "excludePreparingDelete")
	dropEmpty(spec, "scaleStrategy")
}

// upStrategy moves the limits of updateStrategy into rollingUpdate, and a policy that is the type into podUpdatePolicy.
// Limits that are in rollingUpdate already hold.
func upStrategy(spec tree) {
	strategy := child(spec, "updateStrategy")
	if strategy == nil {
		return
	}
	rolling := child(strategy, "rollingUpdate")
	hadRolling := rolling != nil
	if !hadRolling {
		rolling = tree{}
	}
	for _, limit := range limits() {
		if value, has := strategy[limit]; has && !hadRolling {
			rolling[limit] = value
		}
		delete(strategy, limit)
	}
	if policy := strategy["type"]; isPolicy(policy) {
		strategy["type"] = string(v1beta1.RollingUpdateCloneSetUpdateStrategyType)
		if _, has := rolling["podUpdatePolicy"]; !has {
			rolling["podUpdatePolicy"] = policy
		}
	}
	if len(rolling) > 0 {
		strategy["rollingUpdate"] = rolling
	}
}

// downStrategy moves what is in rollingUpdate beside the type. Of type and podUpdatePolicy one stays: type OnDelete, or
// the policy.
func downStrategy(spec tree) {
	strategy := child(spec, "updateStrategy")
	if strategy == nil {
		return
	}
	rolling, isMap := strategy["rollingUpdate"].(tree)
	if isMap {
		delete(strategy, "rollingUpdate")
	}
	for _, limit := range limits() {
		delete(strategy, limit)
		if value, has := rolling[limit]; has {
			strategy[limit] = value
		}
	}
	policy := rolling["podUpdatePolicy"]
	switch strategy["type"] {
	case string(v1beta1.OnDeleteCloneSetUpdateStrategyType):
	case string(v1beta1.RollingUpdateCloneSetUpdateStrategyType):
		delete(strategy, "type")
		fallthrough
	default:
		if isPolicy(policy) {
			strategy["type"] = policy
		}
	}
}

// preDownload is an annotation of v1alpha1 and the field of inPlaceUpdateStrategy that it is. parse returns the value
// of the field, false for one that the field does not take.
type preDownload struct {
	annotation, field string
	parse             func(string) (any, bool)
}

func preDownloads() []preDownload {
	return []preDownload{
		{v1alpha1.AnnotationImagePreDownloadParallelism, "imagePreDownloadParallelism", parseNumberOrPercent},
		{
			v1alpha1.AnnotationImagePreDownloadTimeoutSeconds,
			"imagePreDownloadTimeoutSeconds",
			func(s string) (any, bool) { return parseNumber(s, 1) },
		},
		{
			v1alpha1.AnnotationImagePreDownloadMinUpdatedReadyPods,
			"imagePreDownloadMinUpdatedReadyPods",
			func(s string) (any, bool) { return parseNumber(s, 0) },
		},
	}
}

func parseNumber(text string, least int64) (any, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return n, err == nil && n >= least
}

func parseNumberOrPercent(text string) (any, bool) {
	number, isPercent := strings.CutSuffix(text, "%")
	n, ok := parseNumber(number, 0)
	if isPercent && ok {
		return fmt.Sprintf("%d%%", n), n.(int64) <= 100
	}
	return n, ok
}

// upPreDownload makes fields of the annotations; the annotation holds where there is a field too. A value that the
// field does not take stays an annotation: a percentage of updated pods is read from there, other values do nothing.
func upPreDownload(metadata, spec tree) {
	for _, p := range preDownloads() {
		annotations := child(metadata, "annotations")
		text, _ := annotations[p.annotation].(string)
		value, ok := p.parse(text)
		if !ok {
			continue
		}
		made(made(made(spec, "updateStrategy"), "rollingUpdate"), "inPlaceUpdateStrategy")[p.field] = value
		delete(annotations, p.annotation)
		dropEmpty(metadata, "annotations")
	}
}

// downPreDownload removes the annotations that mean nothing on a v1beta1 object, and would mean something in v1alpha1.
func downPreDownload(metadata tree) {
	for _, p := range preDownloads() {
		annotations := child(metadata, "annotations")
		text, _ := annotations[p.annotation].(string)
		if _, ok := p.parse(text); ok {
			delete(annotations, p.annotation)
			dropEmpty(metadata, "annotations")
		}
	}
}
