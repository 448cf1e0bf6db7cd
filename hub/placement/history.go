package placement

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// defaultKept is how many earlier templates are kept where the workload does not say.
const defaultKept = 10

// keptOf returns a template as the placement keeps it, and how many earlier ones are kept.
func keptOf[T any](key wire.Key, template T, limit *int32) ([]byte, int32, *Refusal) {
	data, err := history.Canonical(template)
	if err != nil {
		return nil, 0, &Refusal{InvalidTemplate, fmt.Sprintf("the template of %s cannot be read: %v; correct it", key.Sentence(), err)}
	}
	if limit == nil {
		return data, defaultKept, nil
	}
	return data, max(*limit, 0), nil
}

// templateOf is the template that the placement keeps. It stays as it was read while the revision does, since an API server may
// write it with its fields in another order.
func templateOf(f *Facts, newRevision bool) *runtime.RawExtension {
	if !newRevision && f.Last.Template != nil {
		return f.Last.Template
	}
	if len(f.Workload.Template) == 0 {
		return nil
	}
	return &runtime.RawExtension{Raw: f.Workload.Template}
}

// remember keeps the template that a decision leaves as a ControllerRevision, before the decision is written: it is the last that
// knows it. Its number is the sequence of the order that brought it, so that later templates have higher ones. Creating a workload
// writes none.
func (r *Reconciler) remember(ctx context.Context, s *state, next *topology.WorkloadPlacementSpec) error {
	last := &s.placement.Spec
	if last.Revision == next.Revision || last.Template == nil {
		return nil
	}
	data, err := revisionData(s.key.Kind, last.Template.Raw)
	if err != nil {
		return fmt.Errorf("keep the template of %s: %w", s.key.Sentence(), err)
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.key.Namespace, Name: history.Name(s.key.Name, last.Revision),
			Labels:          map[string]string{history.LabelHash: last.Revision, topology.LabelPlacement: string(s.placement.UID)},
			OwnerReferences: []metav1.OwnerReference{ownerOf(next)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: last.RevisionSequence,
	}
	err = r.client.Create(ctx, revision, wire.ManagerPlacement)
	if apierrors.IsAlreadyExists(err) {
		err = r.renumber(ctx, s, revision)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		// Trying again would not help: a quota, a webhook or the API server refuses it. The update does not wait for its history.
		log.FromContext(ctx).Error(err, "The template of before is not kept: no undo can go back to it", "workload", s.key.Sentence(), "revision", revision.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep the template of %s as ControllerRevision %s: %w", s.key.Sentence(), revision.Name, err)
	}
	return r.trim(ctx, s)
}

// revisionData is the data of a revision with a template that a placement kept, in the form that the kind has in a cluster.
func revisionData(kind string, raw []byte) ([]byte, error) {
	if kind == apps.UnitedDeploymentKind.Kind {
		template, err := decodeTemplate[apps.SubsetTemplate](raw)
		if err != nil {
			return nil, err
		}
		return history.Encode(template)
	}
	template, err := decodeTemplate[corev1.PodTemplateSpec](raw)
	if err != nil {
		return nil, err
	}
	return history.Encode(template)
}

// renumber makes a template that was in use before the newest of those that are kept.
func (r *Reconciler) renumber(ctx context.Context, s *state, revision *appsv1.ControllerRevision) error {
	stands := &appsv1.ControllerRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(revision), stands); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(stands, s.object) || stands.Revision >= revision.Revision {
		return nil // another's, whose name is not ours to take; or written by a reconcile before this one
	}
	base := stands.DeepCopy()
	stands.Revision = revision.Revision
	return r.client.Patch(ctx, stands, client.MergeFrom(base), wire.ManagerPlacement)
}

// trim removes the oldest templates above the workload's limit.
func (r *Reconciler) trim(ctx context.Context, s *state) error {
	workload, refusal := r.rules[s.key.Kind].read(s.object)
	if refusal != nil {
		return nil
	}
	list := &appsv1.ControllerRevisionList{}
	if err := r.live.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingLabels{topology.LabelPlacement: string(s.placement.UID)}); err != nil {
		return fmt.Errorf("list ControllerRevisions of %s: %w", s.key.Sentence(), err)
	}
	var revisions []*appsv1.ControllerRevision
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.object) {
			revisions = append(revisions, &list.Items[i])
		}
	}
	history.Sort(revisions)
	for _, old := range history.Excess(revisions, func(*appsv1.ControllerRevision) bool { return false }, int(workload.Kept)) {
		if err := r.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ControllerRevision %s/%s: %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}
