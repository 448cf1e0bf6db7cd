package uniteddeployment

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// A hub's update leaves pods of the template that it replaces. Where a UnitedDeployment, or one subset of it, comes to a member in the
// middle of that, its child has never had that template, and would make all of its pods of the newest. So the hub sends it along.
//
// A child that is a CloneSet gets it as the annotation that the hub gives to CloneSets. A StatefulSet knows old pods by a revision of its
// own: it gets the template of before first, with no pods, and the newest one when it has made a revision of that. A Deployment has no
// partition, so nothing of it is to keep a template.

// before is the template that a hub's update leaves.
type before struct {
	pods     corev1.PodTemplateSpec
	revision string // the label of its revision
}

// readBefore returns the pod template that a hub's update leaves, nil where the hub gave none for the kind of the children, or what is
// wrong with it.
func readBefore(ud *kruise.UnitedDeployment) (*before, *problem) {
	text, ok := ud.Annotations[topology.AnnotationTemplateBefore]
	if !ok {
		return nil, nil
	}
	var template kruise.SubsetTemplate
	err := json.Unmarshal([]byte(text), &template)
	var pods *corev1.PodTemplateSpec
	switch {
	case err != nil:
	case template.CloneSetTemplate != nil:
		pods = &template.CloneSetTemplate.Spec.Template.PodTemplateSpec
	case template.StatefulSetTemplate != nil:
		pods = &template.StatefulSetTemplate.Spec.Template
	case template.DeploymentTemplate != nil:
		pods = &template.DeploymentTemplate.Spec.Template
	}
	if err == nil && (pods == nil || len(pods.Spec.Containers) == 0) {
		err = fmt.Errorf("it has no containers")
	}
	if err != nil {
		return nil, &problem{ReasonInvalidTemplate, fmt.Sprintf("annotation %s cannot be read: %v; the hub writes it as a template of children, remove it if no hub owns this object",
			topology.AnnotationTemplateBefore, err)}
	}
	if templateKind(&kruise.UnitedDeployment{Spec: kruise.UnitedDeploymentSpec{Template: template}}) != templateKind(ud) {
		return nil, nil // children of another kind replace those that have it
	}
	data, err := history.Encode(withoutDefaults(template))
	if err != nil {
		return nil, &problem{ReasonInvalidTemplate, fmt.Sprintf("annotation %s cannot be encoded: %v; remove it if no hub owns this object", topology.AnnotationTemplateBefore, err)}
	}
	return &before{pods: *pods, revision: revisionLabel(historyOwner(ud).New(data, 0, nil))}, nil
}

// render returns the pod template of before as a child has it.
func (b *before) render(o order) (corev1.PodTemplateSpec, error) {
	o.revision = b.revision
	return renderPods(*b.pods.DeepCopy(), o)
}

// annotate puts the template of before on a CloneSet.
func (b *before) annotate(set *kruise.CloneSet, o order) error {
	pods, err := b.render(o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(pods)
	if err != nil {
		return fmt.Errorf("encode the template of before of subset %s: %w", o.subset.Name, err)
	}
	set.Annotations[topology.AnnotationTemplateBefore] = string(data)
	return nil
}

// teach sees to it that a StatefulSet has a revision of the template of before when it gets its first pods of which some are to be of it.
// It tells to wait until the StatefulSet's controller has made the revision.
func (p *plan) teach(o *observed, s *subsetPlan, asked *order) (wait bool) {
	if asked.before == nil || templateKind(o.ud) != statefulSetKind || asked.limit == nil || s.desired == 0 ||
		o.ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return false
	}
	set, made := liveObject[*appsv1.StatefulSet](s.live)
	switch {
	case made && s.live.replicas > 0:
		return false // it has revisions for its pods
	case made && s.live.pods.replicas > 0:
		return true // what it gave up is still going
	case made && s.live.revision == asked.before.revision:
		// The controller has taken the template over as that of old pods once it names one revision alone.
		return !seen(s.live, o.known) || set.Status.CurrentRevision == "" || set.Status.CurrentRevision != set.Status.UpdateRevision
	}
	asked.teaches = true
	return false
}
