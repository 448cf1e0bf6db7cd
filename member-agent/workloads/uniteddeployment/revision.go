package uniteddeployment

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// defaultHistoryLimit is the published default of revisionHistoryLimit.
const defaultHistoryLimit = 10

// historyOwner is the UnitedDeployment as the owner of revisions. As published, they carry no labels but their hash.
func historyOwner(ud *kruise.UnitedDeployment) history.Owner {
	return history.Owner{Object: ud, Kind: kruise.UnitedDeploymentKind}
}

// revisionLabel returns the value of the label that names the revision: its name, or only the hash where the name is
// too long for a label.
func revisionLabel(revision *appsv1.ControllerRevision) string {
	if len(revision.Name) > validation.LabelValueMaxLength {
		return history.ShortHash(revision)
	}
	return revision.Name
}

// revise returns the revision of the template, which is written if there is none.
func (r *reconciler) revise(ctx context.Context, o *observed) error {
	owner, template := historyOwner(o.ud), o.ud.Spec.Template
	found, err := history.Find(o.revisions, template)
	if err != nil {
		return err
	}
	if found == nil {
		template = withoutDefaults(template)
	}
	revision, collisions, err := history.Revise(ctx, r.History, owner, o.revisions, template, o.ud.Status.CollisionCount)
	if err != nil {
		return err
	}
	o.revision, o.collisions = revisionLabel(revision), collisions
	return nil
}

// withoutDefaults returns the template without what a schema fills in and what the subsets decide: a revision that was
// written before the schema had the default is the same revision.
func withoutDefaults(template kruise.SubsetTemplate) kruise.SubsetTemplate {
	t := *template.DeepCopy()
	if set := t.CloneSetTemplate; set != nil {
		set.Spec.Replicas = nil
		set.Spec.RevisionHistoryLimit = withoutDefault(set.Spec.RevisionHistoryLimit)
	}
	if d := t.DeploymentTemplate; d != nil {
		d.Spec.Replicas = nil
		d.Spec.RevisionHistoryLimit = withoutDefault(d.Spec.RevisionHistoryLimit)
	}
	if set := t.StatefulSetTemplate; set != nil {
		set.Spec.Replicas = nil
		set.Spec.RevisionHistoryLimit = withoutDefault(set.Spec.RevisionHistoryLimit)
	}
	if set := t.AdvancedStatefulSetTemplate; set != nil {
		set.Spec.Replicas = nil
		set.Spec.RevisionHistoryLimit = withoutDefault(set.Spec.RevisionHistoryLimit)
	}
	return t
}

func withoutDefault(limit *int32) *int32 {
	if limit != nil && *limit == defaultHistoryLimit {
		return nil
	}
	return limit
}

// trim deletes the revisions that neither a child nor the status names, beyond the limit.
func (r *reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	if s.todo.refused != nil || s.todo.leaving != nil {
		return true, nil
	}
	used := map[string]bool{s.seen.revision: true, s.ud.Status.CurrentRevision: true, s.ud.Status.UpdatedRevision: true}
	for i := range s.seen.children {
		used[s.seen.children[i].revision] = true
	}
	inUse := func(r *appsv1.ControllerRevision) bool { return used[revisionLabel(r)] }
	return true, r.Trim(ctx, s.seen.revisions, s.ud.Spec.RevisionHistoryLimit, inUse)
}

// A hub's update leaves pods of the template that it replaces. Where a UnitedDeployment, or one subset of it, comes to
// a member in the middle of that, its child has never had that template, and would make all of its pods of the newest.
// So the hub sends it along.
//
// A child that is a CloneSet or a StatefulSet of apps.kruise.io gets it as the annotation that the hub gives to these.
// A StatefulSet of apps/v1 knows old pods by a revision of its own: it gets the previous template first, with no pods,
// and the newest one when it has made a revision of that. A Deployment has no partition, so nothing of it is to keep a
// template.

// previous is the template that a hub's update replaces.
type previous struct {
	pods     corev1.PodTemplateSpec
	revision string // the label of its revision
}

// readPrevious returns the pod template that a hub's update leaves, nil where the hub gave none for the kind of the
// children, or what is wrong with it.
func readPrevious(ud *kruise.UnitedDeployment) (*previous, *problem) {
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
	case template.AdvancedStatefulSetTemplate != nil:
		pods = &template.AdvancedStatefulSetTemplate.Spec.Template.PodTemplateSpec
	case template.DeploymentTemplate != nil:
		pods = &template.DeploymentTemplate.Spec.Template
	}
	if err == nil && (pods == nil || len(pods.Spec.Containers) == 0) {
		err = fmt.Errorf("it has no containers")
	}
	if err != nil {
		return nil, &problem{ReasonInvalidTemplate, fmt.Sprintf("annotation %s cannot be read: %v; the hub writes it as a "+
			"template of children, remove it if no hub owns this object",
			topology.AnnotationTemplateBefore, err)}
	}
	if templateKind(&kruise.UnitedDeployment{Spec: kruise.UnitedDeploymentSpec{Template: template}}) != templateKind(ud) {
		return nil, nil // children of another kind replace those that have it
	}
	data, err := history.Encode(withoutDefaults(template))
	if err != nil {
		return nil, &problem{ReasonInvalidTemplate, fmt.Sprintf("annotation %s cannot be encoded: %v; remove it if no hub "+
			"owns this object", topology.AnnotationTemplateBefore, err)}
	}
	return &previous{pods: *pods, revision: revisionLabel(historyOwner(ud).New(data, 0, nil))}, nil
}

// render returns the pod previous template as a child has it.
func (p *previous) render(o order) (corev1.PodTemplateSpec, error) {
	o.revision = p.revision
	return renderPods(*p.pods.DeepCopy(), o)
}

// annotate puts the previous template on a CloneSet or a StatefulSet of apps.kruise.io.
func (p *previous) annotate(set client.Object, o order) error {
	pods, err := p.render(o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(pods)
	if err != nil {
		return fmt.Errorf("encode the previous template of subset %s: %w", o.subset.Name, err)
	}
	set.GetAnnotations()[topology.AnnotationTemplateBefore] = string(data) // childMeta made the map
	return nil
}

// teach sees to it that a StatefulSet has a revision of the previous template when it gets its first pods of which some
// are to be of it. It tells to wait until the StatefulSet's controller has made the revision.
func (p *plan) teach(o *observed, s *subsetPlan, asked *order) (wait bool) {
	if asked.previous == nil || templateKind(o.ud) != statefulSetKind || asked.limit == nil || s.desired == 0 ||
		o.ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return false
	}
	set, made := liveObject[*appsv1.StatefulSet](s.live)
	switch {
	case made && s.live.replicas > 0:
		return false // it has revisions for its pods
	case made && s.live.pods.replicas > 0:
		return true // what it gave up is still going
	case made && s.live.revision == asked.previous.revision:
		// The controller has taken the template over as that of old pods once it names one revision alone.
		return !seen(s.live, o.known) || set.Status.CurrentRevision == "" ||
			set.Status.CurrentRevision != set.Status.UpdateRevision
	}
	asked.teaches = true
	return false
}
