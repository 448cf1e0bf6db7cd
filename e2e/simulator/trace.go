package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// told writes a write of the controller into the story and has it checked.
func (w *World) told(write Write, f fault) {
	if w.telling {
		sub := ""
		if write.Subresource != "" {
			sub = " " + write.Subresource + " of"
		}
		answer := ""
		switch {
		case write.Err != nil && f.lost != nil:
			answer = fmt.Sprintf(": done, but the answer is lost: %v", write.Err)
		case write.Err != nil:
			answer = fmt.Sprintf(": refused: %v", write.Err)
		}
		name := write.Key.Name
		if write.Kind == "Pod" && write.Verb == "create" && write.After == nil {
			// Nobody will ever call it by its random name.
			answer, name = strings.ReplaceAll(answer, name, "(new)"), "(new)"
		}
		w.Tell("  controller: %s%s %s %s%s%s", write.Verb, sub, write.Kind, name, difference(write.Before, write.After),
			answer)
	}
	if w.Check != nil && w.err == nil {
		w.Fail(w.Check(write))
	}
}

// difference says what a write changed, in a few words.
func difference(before, after client.Object) string {
	var parts []string
	switch now := after.(type) {
	case *corev1.Pod:
		was, ok := before.(*corev1.Pod)
		if !ok {
			was = &corev1.Pod{}
		}
		parts = podDifference(was, now)
	case *v1beta1.CloneSet:
		s := now.Status
		parts = append(parts, fmt.Sprintf("replicas %d ready %d available %d updated %d", s.Replicas, s.ReadyReplicas,
			s.AvailableReplicas, s.UpdatedReplicas))
		for _, c := range s.Conditions {
			if c.Type == v1beta1.ConditionReady {
				parts = append(parts, fmt.Sprintf("Ready %s %s", c.Status, c.Reason))
			}
		}
	case *corev1.PersistentVolumeClaim:
		was, _ := before.(*corev1.PersistentVolumeClaim)
		parts = claimDifference(was, now)
	case *appsv1.ControllerRevision:
		parts = append(parts, fmt.Sprintf("number %d", now.Revision))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func podDifference(was, now *corev1.Pod) []string {
	var parts []string
	if was.DeletionTimestamp == nil && now.DeletionTimestamp != nil {
		parts = append(parts, "terminating")
	}
	for i := range now.Spec.Containers {
		image := now.Spec.Containers[i].Image
		if len(was.Spec.Containers) <= i || was.Spec.Containers[i].Image != image {
			parts = append(parts, "image "+image)
		}
	}
	for _, kind := range []corev1.PodConditionType{v1beta1.InPlaceUpdateReady, lifecycle.KruisePodReady, corev1.PodReady} {
		have, had := podstate.Condition(now, kind), podstate.Condition(was, kind)
		if kind == lifecycle.KruisePodReady && had == nil {
			continue // every new pod has it, together with the one before
		}
		if have != nil && (had == nil || had.Status != have.Status) {
			parts = append(parts, fmt.Sprintf("%s %s", kind, have.Status))
		}
	}
	return append(parts, labelDifference(was, now)...)
}

// labelDifference returns the labels of a pod that are new or changed, without their prefixes.
func labelDifference(was, now *corev1.Pod) (parts []string) {
	if was.Name == "" {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(now.Labels)) {
		if had, ok := was.Labels[key]; (!ok || had != now.Labels[key]) && key != v1beta1.LabelPodTemplateHash {
			parts = append(parts, fmt.Sprintf("%s=%s", key[strings.LastIndex(key, "/")+1:], now.Labels[key]))
		}
	}
	return parts
}
