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

// readBefore returns the template that a hub's update leaves, nil if the hub gave none, or what is wrong with it.
func readBefore(cs *v1beta1.CloneSet) (*corev1.PodTemplateSpec, *conditions.Cause) {
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

// before returns the revision of the template that a hub's update leaves, where the CloneSet came to this member in the middle of that
// update, and never had another template than the newest; else nil. Pods that are not to be updated are made of it. It is
// written with the first pods; that it was meant for them is known afterwards by status, or by the pods that have it.
func (r *Reconciler) before(ctx context.Context, s *scope) (*appsv1.ControllerRevision, error) {
	status := &s.cs.Status
	if status.CurrentRevision != "" && status.CurrentRevision != status.UpdateRevision {
		return nil, nil // it has one of its own
	}
	template, _ := readBefore(s.cs) // what is wrong with it was told
	if template == nil {
		return nil, nil
	}
	found, err := history.Find(s.facts.Revisions, *template)
	if err != nil {
		return nil, err
	}
	active := s.facts.Pods.Active
	switch {
	case found != nil && (len(active) == 0 || status.CurrentRevision == ""):
		return found, nil
	case found != nil && slices.ContainsFunc(active, func(pod *corev1.Pod) bool { return podset.HasRevision(pod, history.ShortHash(found)) }):
		return found, nil
	case found != nil || len(active) > 0:
		return nil, nil
	}
	maker := owner(s.cs)
	maker.Labels = template.Labels
	made, _, err := history.Revise(ctx, r.history, maker, s.facts.Revisions, *template, status.CollisionCount)
	if err != nil {
		return nil, err
	}
	s.facts.Revisions = append(s.facts.Revisions, made)
	return made, nil
}
