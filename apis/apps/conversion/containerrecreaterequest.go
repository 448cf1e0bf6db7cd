package conversion

import (
	"encoding/json"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// The reason and the message of the condition PreRecreateGrace where v1alpha1 has the annotation alone.
const (
	unready        = "UnreadyAcquired"
	unreadyMessage = "The pod is not ready, so that its traffic ends before its containers restart."
)

// upContainerRecreateRequest makes a v1alpha1 ContainerRecreateRequest one of v1beta1: two annotations become status.
// An annotation with an invalid value stays.
func upContainerRecreateRequest(object tree) {
	metadata := child(object, "metadata")
	annotations := child(metadata, "annotations")
	if annotations == nil {
		return
	}
	text, _ := annotations[v1alpha1.AnnotationCRRSyncContainerStatuses].(string)
	if snapshot := parseSnapshot(text); snapshot != nil {
		made(object, "status")["containerStatusSnapshot"] = snapshot
		delete(annotations, v1alpha1.AnnotationCRRSyncContainerStatuses)
	}
	text, _ = annotations[v1alpha1.AnnotationCRRUnreadyAcquired].(string)
	if at := inUTC(text); at != "" {
		made(object, "status")["conditions"] = []any{tree{
			"type": v1beta1.ConditionPreRecreateGrace, "status": "True", "lastTransitionTime": at,
			"reason": unready, "message": unreadyMessage,
		}}
		delete(annotations, v1alpha1.AnnotationCRRUnreadyAcquired)
	}
	dropEmpty(metadata, "annotations")
}

// downContainerRecreateRequest makes a v1beta1 ContainerRecreateRequest one of v1alpha1.
func downContainerRecreateRequest(object tree) {
	status := child(object, "status")
	annotate := func(key, value string) {
		if value != "" {
			made(made(object, "metadata"), "annotations")[key] = value
		}
	}
	annotate(v1alpha1.AnnotationCRRSyncContainerStatuses, formatSnapshot(status["containerStatusSnapshot"]))
	conditions, _ := status["conditions"].([]any)
	for _, item := range conditions {
		condition, _ := item.(tree)
		if condition["type"] == v1beta1.ConditionPreRecreateGrace && condition["status"] == "True" {
			at, _ := condition["lastTransitionTime"].(string)
			annotate(v1alpha1.AnnotationCRRUnreadyAcquired, inUTC(at))
		}
	}
	delete(status, "containerStatusSnapshot")
	delete(status, "conditions")
}

// parseSnapshot reads containers from JSON. It returns nil if the text holds none, or something else.
func parseSnapshot(text string) []any {
	var containers []v1beta1.ContainerStatusSnapshot
	if json.Unmarshal([]byte(text), &containers) != nil {
		return nil
	}
	var out []any
	for _, container := range containers {
		item := tree{"name": container.Name, "ready": container.Ready, "restartCount": int64(container.RestartCount)}
		if container.ContainerID != "" {
			item["containerID"] = container.ContainerID
		}
		out = append(out, item)
	}
	return out
}

// formatSnapshot writes containers as JSON, with the keys in the published order. It returns "" if there are none, or
// something else.
func formatSnapshot(containers any) string {
	data, err := json.Marshal(containers)
	if err != nil {
		return ""
	}
	var typed []v1beta1.ContainerStatusSnapshot
	if json.Unmarshal(data, &typed) != nil || len(typed) == 0 {
		return ""
	}
	if data, err = json.Marshal(typed); err != nil {
		return ""
	}
	return string(data)
}

// inUTC returns a time of RFC 3339 in UTC and in whole seconds, "" for another text.
func inUTC(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
