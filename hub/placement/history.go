package placement

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// remember keeps the template that a decision leaves as a ControllerRevision, before the decision is written: it is
// the last that knows it. Its number is one above the newest of those that are kept, so that later templates have
// higher ones without gaps. Creating a workload writes none, nor does a question of what members have.
func (r *Reconciler) remember(ctx context.Context, s *State, next *topology.WorkloadPlacementSpec) error {
	last := &s.Placement.Spec
	if last.Revision == next.Revision || last.Template == nil || decision.Looks(last) {
		return nil
	}
	kind := r.rules[s.key.GroupKind()]
	data, err := kind.Template.RevisionData(last.Template.Raw)
	if err != nil {
		return fmt.Errorf("keep the template of %s: %w", s.key.Sentence(), err)
	}
	kept, err := r.kept(ctx, s)
	if err != nil {
		return err
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.name.Namespace, Name: history.Name(s.key.Name, last.Revision),
			Labels: map[string]string{
				history.LabelHash:      last.Revision,
				topology.LabelWorkload: string(s.Object.GetUID()),
			},
			Annotations:     map[string]string{topology.AnnotationLeftFor: next.Revision},
			OwnerReferences: []metav1.OwnerReference{ownerOf(next)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: 1,
	}
	if cause := s.Placement.Annotations[topology.AnnotationChangeCause]; cause != "" {
		revision.Annotations[topology.AnnotationChangeCause] = cause
	}
	for _, other := range kept {
		if other.Name != revision.Name {
			revision.Revision = max(revision.Revision, other.Revision+1)
		}
	}
	err = r.client.Create(ctx, revision, store.ManagerPlacement)
	if apierrors.IsAlreadyExists(err) {
		err = r.renew(ctx, s, revision)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		// Trying again would not help: a quota, a webhook or the API server refuses it. The update does not wait for
		// its history.
		log.FromContext(ctx).
			Error(err, "The template of before is not kept: no undo can go back to it", "workload", s.key.Sentence(), "revision",
				revision.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep the template of %s as ControllerRevision %s: %w", s.key.Sentence(), revision.Name, err)
	}
	return r.trim(ctx, s)
}

// renew makes a template that was in use before the newest of those that are kept. One without an owner is taken over:
// its workload was deleted and left it, and has come back.
func (r *Reconciler) renew(ctx context.Context, s *State, revision *appsv1.ControllerRevision) error {
	stands := &appsv1.ControllerRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(revision), stands); err != nil {
		return client.IgnoreNotFound(err)
	}
	next := renewed(r.rules[s.key.GroupKind()].Template, stands, revision)
	if next == nil {
		log.FromContext(ctx).
			Info("The template of before is not kept, since another's has its name: no undo can go back to it", "workload",
				s.key.Sentence(), "revision", revision.Name)
		return nil
	}
	if equality.Semantic.DeepEqual(stands, next) {
		return nil // written by a reconcile before this one
	}
	return r.client.Patch(
		ctx,
		next,
		client.MergeFromWithOptions(stands, client.MergeFromWithOptimisticLock{}),
		store.ManagerPlacement,
	)
}

// renewed is what becomes of a revision that stands under the name of one that is to be kept; nil where it is
// another's, whose name is not ours to take.
func renewed(template *kinds.Template, stands, revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	next, owner := stands.DeepCopy(), revision.OwnerReferences[0]
	switch has := metav1.GetControllerOfNoCopy(stands); {
	case has != nil && has.UID != owner.UID:
		return nil
	case has == nil:
		if !sameTemplate(template, stands.Data.Raw, revision.Data.Raw) {
			return nil
		}
		next.OwnerReferences = append(next.OwnerReferences, owner)
	}
	next.Revision = max(stands.Revision, revision.Revision)
	for key, value := range revision.Labels {
		metav1.SetMetaDataLabel(&next.ObjectMeta, key, value)
	}
	delete(next.Annotations, topology.AnnotationChangeCause)
	for key, value := range revision.Annotations {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	return next
}

// maxCause is the longest change cause that is kept, in bytes.
const maxCause = 1024

// causeOf returns what the user says about the template of now, "" for nothing.
func causeOf(object client.Object) string {
	if object == nil {
		return ""
	}
	cause := object.GetAnnotations()[topology.AnnotationChangeCause]
	return strings.ToValidUTF8(cause[:min(len(cause), maxCause)], "")
}

// causeFor returns what the user says about the template of a decision. Where the template of the workload failed and
// was rolled back, the annotation is about that one: the previous template has the cause that was kept with it.
func (r *Reconciler) causeFor(ctx context.Context, s *State, next *topology.WorkloadPlacementSpec) (string, error) {
	switch {
	case next == nil: // what is frozen is as the hub left it
		if s.Placement == nil {
			return "", nil
		}
		return s.Placement.Annotations[topology.AnnotationChangeCause], nil
	case !decision.RolledBack(next) || s.Placement == nil:
		return causeOf(s.Object), nil
	case s.Placement.Spec.Revision == next.Revision:
		return s.Placement.Annotations[topology.AnnotationChangeCause], nil
	}
	kept := &appsv1.ControllerRevision{}
	kept.Namespace, kept.Name = s.name.Namespace, history.Name(s.key.Name, next.Revision)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(kept), kept); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ControllerRevision %s/%s: %w", kept.Namespace, kept.Name, err)
	}
	if s.Object == nil || !metav1.IsControlledBy(kept, s.Object) {
		return "", nil
	}
	return kept.Annotations[topology.AnnotationChangeCause], nil
}

// withCause writes what the user says about the template onto a placement of it.
func withCause(p *topology.WorkloadPlacement, cause string) {
	if cause != "" {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, topology.AnnotationChangeCause, cause)
		return
	}
	delete(p.Annotations, topology.AnnotationChangeCause)
}

// sameTemplate reports whether the data of two revisions mean the same.
func sameTemplate(template *kinds.Template, a, b []byte) bool {
	x, errX := template.Canonical(a)
	y, errY := template.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// kept returns the templates that are kept of a workload, the oldest first, whichever placement kept them, also those
// of a hub of before [topology.LabelWorkload]: it goes by their owner.
func (r *Reconciler) kept(ctx context.Context, s *State) ([]*appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := r.live.List(ctx, list, client.InNamespace(s.name.Namespace),
		client.HasLabels{history.LabelHash}); err != nil {
		return nil, fmt.Errorf("list ControllerRevisions of %s: %w", s.key.Sentence(), err)
	}
	var revisions []*appsv1.ControllerRevision
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.Object) {
			revisions = append(revisions, &list.Items[i])
		}
	}
	history.Sort(revisions)
	return revisions, nil
}

// trim removes the oldest templates above the workload's limit.
func (r *Reconciler) trim(ctx context.Context, s *State) error {
	workload, refusal := r.rules[s.key.GroupKind()].Read(s.Object)
	if refusal != nil {
		return nil
	}
	revisions, err := r.kept(ctx, s)
	if err != nil {
		return err
	}
	for _, old := range history.Excess(revisions, func(*appsv1.ControllerRevision) bool { return false },
		int(workload.Kept)) {
		if err := r.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ControllerRevision %s/%s: %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}
