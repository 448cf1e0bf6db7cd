package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// readPrevious returns the previous template of a hub's update, nil if the hub gave none, or what is wrong with it.
func readPrevious(cs *v1beta1.CloneSet) (*corev1.PodTemplateSpec, *conditions.Cause) {
	text, ok := cs.Annotations[topology.AnnotationTemplateBefore]
	if !ok {
		return nil, nil
	}
	var template *corev1.PodTemplateSpec
	err := json.Unmarshal([]byte(text), &template)
	if err == nil && (template == nil || len(template.Spec.Containers) == 0) {
		err = fmt.Errorf("it has no containers")
	}
	if err != nil {
		return nil, &conditions.Cause{Reason: reasonInvalidTemplate, Message: fmt.Sprintf(
			"annotation %s is %s: %v; the hub writes it as a pod template, remove it if no hub owns this object",
			topology.AnnotationTemplateBefore, shown(text), err)}
	}
	return template, nil
}

// previous returns the revision of the previous template of a hub's update, where the CloneSet came to this member in
// the middle of that update and never had another template than the newest; else nil. Pods that are not to be updated
// are made of it. It is written with the first pods; later the status, or the pods that have it, tell that it was used.
func (r *Reconciler) previous(ctx context.Context, s *scope) (*appsv1.ControllerRevision, error) {
	status := &s.cs.Status
	if status.CurrentRevision != "" && status.CurrentRevision != status.UpdateRevision {
		return nil, nil // it has one of its own
	}
	template, _ := readPrevious(s.cs) // validate has reported what is wrong with it
	if template == nil {
		return nil, nil
	}
	found, err := history.Find(s.facts.Stored, *template)
	if err != nil {
		return nil, err
	}
	active := s.facts.Pods.Active
	switch {
	case found != nil && (len(active) == 0 || status.CurrentRevision == ""):
		return found, nil
	case found != nil && slices.ContainsFunc(active, func(pod *corev1.Pod) bool {
		return podset.HasRevision(pod, history.ShortHash(found))
	}):
		return found, nil
	case found != nil || len(active) > 0:
		return nil, nil
	}
	maker := owner(s.cs)
	maker.Labels = template.Labels
	made, _, err := history.Revise(ctx, r.History, maker, s.facts.Stored, *template, status.CollisionCount)
	if err != nil {
		return nil, err
	}
	s.facts.Stored = append(s.facts.Stored, made)
	return made, nil
}
