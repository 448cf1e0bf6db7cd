package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// KruisePodReady is the pod condition and readiness gate by which several writers make a pod not ready.
const KruisePodReady = podready.Condition

// The entries of OpenKruise's lifecycle in the message of KruisePodReady. We write the same, so that a pod marked by
// the one is freed by the other. Some of its versions wrote them under the name of another writer, whose own keys all
// have a slash.
const (
	userAgent          = "Lifecycle"
	mistakenUserAgent  = "ContainerRecreateRequest"
	keyPreparingDelete = "preparingDelete"
	keyPreparingUpdate = "preparingUpdate"
)

// Patch returns the strategic merge patches that carry out the step at now: of the pod's metadata (label and
// timestamp), and of its status (the mark). Each is nil where the step changes nothing. It errs if the pod cannot be
// marked.
//
// The status patch holds the pod's resourceVersion, because it rewrites a list that others write too; it is refused
// with a conflict if the pod changed meanwhile. So write it first: whoever reads PreparingDelete finds the pod not
// ready, too. Where there is no status patch, that of the metadata holds the resourceVersion if the step proceeds: a
// hook that comes back at this very moment is heard.
func Patch(pod *corev1.Pod, step Step, now time.Time) (metadata, status []byte, err error) {
	if step.State != "" {
		labels, annotations := map[string]string{}, map[string]string{}
		Stamp(labels, annotations, step.State, now)
		body := map[string]any{"labels": labels, "annotations": annotations}
		if step.Proceed && step.NotReady == nil && pod.ResourceVersion != "" {
			body["resourceVersion"] = pod.ResourceVersion
		}
		metadata, err = json.Marshal(map[string]any{"metadata": body})
		if err != nil {
			return nil, nil, fmt.Errorf("encode the state of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if step.NotReady == nil {
		return metadata, nil, nil
	}
	condition, err := markCondition(pod, step, now)
	if err != nil {
		return nil, nil, fmt.Errorf("mark pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	body := map[string]any{"status": map[string]any{"conditions": []any{condition}}}
	if pod.ResourceVersion != "" {
		body["metadata"] = map[string]any{"resourceVersion": pod.ResourceVersion}
	}
	if status, err = json.Marshal(body); err != nil {
		return nil, nil, fmt.Errorf("encode the mark of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return metadata, status, nil
}

// markCondition returns the condition KruisePodReady as the step wants it.
func markCondition(pod *corev1.Pod, step Step, now time.Time) (map[string]any, error) {
	if !podready.HasGate(&pod.Spec) {
		return nil, errors.New("it has no readiness gate " + KruisePodReady)
	}
	present := podstate.Condition(pod, KruisePodReady)
	others, _, err := entries(present)
	if err != nil {
		return nil, err
	}
	if !*step.NotReady {
		return podready.With(present, others, now)
	}
	key := keyOf(after(pod, step))
	if key == "" {
		return nil, fmt.Errorf("nothing holds it in state %q", after(pod, step))
	}
	return podready.With(present, others, now, podready.Writer{UserAgent: userAgent, Key: key})
}

// markChange compares the mark that the pod is to have in the state with the one it has.
func markChange(pod *corev1.Pod, l *v1beta1.Lifecycle, state v1beta1.LifecycleState) *bool {
	if !podready.HasGate(&pod.Spec) {
		return nil
	}
	present := podstate.Condition(pod, KruisePodReady)
	others, mine, err := entries(present)
	if err != nil {
		// Whoever wrote it keeps the pod from being ready, and may be the only one who can read it.
		return nil
	}
	want := wantedKey(l, state, mine)
	switch {
	case want != "" && (len(mine) != 1 || mine[0] != want || present.Status == corev1.ConditionTrue):
		return new(true)
	case want == "" && (len(mine) > 0 || present == nil):
		return new(false)
	case want == "" && len(others) == 0 && present.Status != corev1.ConditionTrue && present.Message != "":
		// An empty list with no writer left would stay forever.
		return new(false)
	}
	return nil
}

// wantedKey returns the key of the entry that the pod is to have in the state, or "" for none; mine are those it has.
func wantedKey(l *v1beta1.Lifecycle, state v1beta1.LifecycleState, mine []string) string {
	key, hook := keyOf(state), hooks(l).InPlaceUpdate
	if key == keyPreparingDelete {
		hook = hooks(l).PreDelete
	}
	if hook == nil || !hook.MarkPodNotReady {
		return ""
	}
	// A pod that was let go keeps its mark while it is updated; one that was never held gets none.
	if state == v1beta1.LifecycleUpdating && !slices.Contains(mine, key) {
		return ""
	}
	return key
}

// keyOf returns the key of our entry in the state, or "".
func keyOf(state v1beta1.LifecycleState) string {
	switch state {
	case v1beta1.LifecyclePreparingDelete:
		return keyPreparingDelete
	case v1beta1.LifecyclePreparingUpdate, v1beta1.LifecycleUpdating:
		return keyPreparingUpdate
	}
	return ""
}

// entries reads the message of the condition, which may be nil: the entries of others as they are, and the keys of
// ours.
func entries(condition *corev1.PodCondition) (others [][]byte, mine []string, err error) {
	ours, others, err := podready.Split(condition, func(w podready.Writer) bool {
		return (w.UserAgent == userAgent || w.UserAgent == mistakenUserAgent) &&
			(w.Key == keyPreparingDelete || w.Key == keyPreparingUpdate)
	})
	for _, writer := range ours {
		mine = append(mine, writer.Key)
	}
	return others, mine, err
}
