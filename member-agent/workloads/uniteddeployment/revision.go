package uniteddeployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// defaultHistoryLimit is how many unused revisions are kept where the object does not say; the published default.
const defaultHistoryLimit = 10

// historyOwner is the UnitedDeployment as the owner of revisions. As published, they carry no labels but their hash.
func historyOwner(ud *kruise.UnitedDeployment) history.Owner {
	return history.Owner{Object: ud, Kind: kruise.UnitedDeploymentKind}
}

// revisionLabel returns the value of the label that names the revision: its name, or only the hash where the name is too
// long for a label.
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
	revision, collisions, err := history.Revise(ctx, r.revisions, owner, o.revisions, template, o.ud.Status.CollisionCount)
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
	return t
}

func withoutDefault(limit *int32) *int32 {
	if limit != nil && *limit == defaultHistoryLimit {
		return nil
	}
	return limit
}

// excessRevisions returns the revisions that may go: those that neither a child nor the status names, beyond the limit.
func excessRevisions(o *observed) []*appsv1.ControllerRevision {
	limit := defaultHistoryLimit
	if o.ud.Spec.RevisionHistoryLimit != nil {
		limit = int(*o.ud.Spec.RevisionHistoryLimit)
	}
	used := map[string]bool{o.revision: true, o.ud.Status.CurrentRevision: true, o.ud.Status.UpdatedRevision: true}
	for i := range o.children {
		used[o.children[i].revision] = true
	}
	return history.Excess(o.revisions, func(r *appsv1.ControllerRevision) bool { return used[revisionLabel(r)] }, limit)
}

// trim deletes revisions that nothing uses, beyond the limit.
func (r *reconciler) trim(ctx context.Context, seen *observed, todo *plan) error {
	if todo.refused != nil || todo.leaving != nil {
		return nil
	}
	return r.revisions.Delete(ctx, excessRevisions(seen))
}
