package sidecarset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/sidecars"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// maxCollisions bounds how many names a pass tries for a revision.
const maxCollisions = 10

// revise finds or writes the current revision, and the hashes on the SidecarSet.
func (r *Reconciler) revise(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil || s.hashes == (revision.Hashes{}) {
		return true, nil
	}
	owner := history.Owner{Object: s.set, Kind: v1beta1.SidecarSetKind}
	var err error
	if s.revisions, err = r.History.List(ctx, owner); err != nil {
		return false, err
	}
	s.collision = s.set.Status.CollisionCount
	if err := r.writeHashes(ctx, s); err != nil {
		return false, err
	}
	content := sidecars.ContentOf(&s.set.Spec)
	next := int64(1)
	for _, have := range s.revisions { // the newest is last
		next = have.Revision + 1
		if decoded, err := sidecars.Decode(have.Data.Raw); err == nil && sidecars.Same(decoded, content) {
			s.latest = have
		}
	}
	if s.latest == nil {
		s.latest, err = r.create(ctx, s, owner, content, next)
	} else {
		s.latest, err = r.renew(ctx, s, s.latest, next-1)
	}
	s.Fail(failureRevision, err)
	if err != nil {
		s.latest = nil
	}
	return true, nil
}

// writeHashes writes the hashes as annotations of the SidecarSet, where other tools find them.
func (r *Reconciler) writeHashes(ctx context.Context, s *scope) error {
	want := map[string]string{
		v1beta1.AnnotationSidecarSetHash: s.hashes.All, v1beta1.AnnotationSidecarSetHashWithoutImage: s.hashes.WithoutImage,
	}
	maps.DeleteFunc(want, func(key, value string) bool { return s.set.Annotations[key] == value })
	if len(want) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.set.UID, "annotations": want}})
	if err != nil {
		return fmt.Errorf("encode its hashes: %w", err)
	}
	target := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: s.set.Name}}
	err = r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), workload.FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write its hashes: %w", err)
	}
	return nil
}

// customVersion returns the name that the user gives the revision, "" if it cannot be a label. New objects cannot have
// such a name; older ones may.
func customVersion(set *v1beta1.SidecarSet) string {
	if len(validation.IsValidLabelValue(set.Spec.CustomVersion)) > 0 {
		return ""
	}
	return set.Spec.CustomVersion
}

// create writes a new revision.
func (r *Reconciler) create(
	ctx context.Context, s *scope, owner history.Owner, content sidecars.Content, number int64,
) (*appsv1.ControllerRevision, error) {
	data, err := sidecars.Encode(content)
	if err != nil {
		return nil, err
	}
	count := int32(0)
	if s.collision != nil {
		count = *s.collision
	}
	owner.Annotations = maps.Clone(s.set.Annotations)
	if owner.Annotations == nil {
		owner.Annotations = map[string]string{}
	}
	owner.Annotations[v1beta1.AnnotationSidecarSetHash] = s.hashes.All
	owner.Annotations[v1beta1.AnnotationSidecarSetHashWithoutImage] = s.hashes.WithoutImage
	owner.Labels = map[string]string{v1beta1.LabelSidecarSetName: s.set.Name}
	if version := customVersion(s.set); version != "" {
		owner.Labels[v1beta1.LabelSidecarSetCustomVersion] = version
	}
	for range maxCollisions {
		made := owner.New(data, number, &count)
		made.Namespace = r.namespace
		err := r.Client.Create(ctx, made)
		if err == nil {
			if r.History.Fresh != nil {
				r.History.Fresh.Created(s.set.UID, client.ObjectKeyFromObject(made), made.ResourceVersion)
			}
			return made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create ControllerRevision %s: %w", client.ObjectKeyFromObject(made), err)
		}
		taken := &appsv1.ControllerRevision{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(made), taken); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s: %w", client.ObjectKeyFromObject(made), err)
		}
		decoded, err := sidecars.Decode(taken.Data.Raw)
		if err == nil && metav1.IsControlledBy(taken, s.set) && sidecars.Same(decoded, content) {
			return taken, nil // the cache does not have it yet
		}
		count++
		s.collision = &count
	}
	return nil, fmt.Errorf("create ControllerRevision of SidecarSet %s: %d names are taken", s.set.Name, maxCollisions)
}

// renew makes an existing revision the newest, and gives it the custom version that the SidecarSet has now.
func (r *Reconciler) renew(
	ctx context.Context, s *scope, have *appsv1.ControllerRevision, newest int64,
) (*appsv1.ControllerRevision, error) {
	changed := have.DeepCopy()
	if have.Revision != newest {
		changed.Revision = newest + 1
	}
	if version := customVersion(s.set); version != "" {
		if changed.Labels == nil {
			changed.Labels = map[string]string{}
		}
		changed.Labels[v1beta1.LabelSidecarSetCustomVersion] = version
	}
	if changed.Revision == have.Revision && maps.Equal(changed.Labels, have.Labels) {
		return have, nil
	}
	key := client.ObjectKeyFromObject(have)
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(have), workload.FieldOwner); err != nil {
		return nil, fmt.Errorf("renew ControllerRevision %s: %w", key, err)
	}
	if r.History.Fresh != nil {
		r.History.Fresh.Changed(s.set.UID, key, changed.ResourceVersion)
	}
	return changed, nil
}

// trim deletes revisions that nothing uses, beyond the limit.
func (r *Reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil || s.latest == nil {
		return true, nil
	}
	used := map[string]bool{s.latest.Name: true}
	for _, pod := range s.pods {
		_, name := marks.Of(pod, s.set.Name)
		used[name] = true
	}
	version := ""
	if pinned := s.set.Spec.InjectionStrategy.Revision; pinned != nil {
		if pinned.RevisionName != nil {
			used[*pinned.RevisionName] = true
		}
		if pinned.CustomVersion != nil {
			version = *pinned.CustomVersion
		}
	}
	return true, r.Trim(ctx, s.revisions, s.set.Spec.RevisionHistoryLimit, func(have *appsv1.ControllerRevision) bool {
		return used[have.Name] || version != "" && have.Labels[v1beta1.LabelSidecarSetCustomVersion] == version
	})
}
