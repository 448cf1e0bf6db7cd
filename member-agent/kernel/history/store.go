package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Store reads and writes revisions. Client may read from a cache; Live reads from the API server and is asked only when
// the cache lags behind.
type Store struct {
	Client client.Client
	Live   client.Reader
	// Fresh is told of each write, so that the owner can wait for its cache; it may be nil.
	Fresh Recorder
}

// Recorder notes writes that a cache has not shown yet, as freshness.Store does.
type Recorder interface {
	Created(owner types.UID, key types.NamespacedName, version string)
	Changed(owner types.UID, key types.NamespacedName, version string)
}

func (s Store) created(owner Owner, revision *appsv1.ControllerRevision) {
	if s.Fresh != nil {
		s.Fresh.Created(owner.Object.GetUID(), client.ObjectKeyFromObject(revision), revision.ResourceVersion)
	}
}

// indexField is the cache index of revisions by their controller, one per kind of owner so that kinds do not depend on
// one another's set-up.
func indexField(kind schema.GroupVersionKind) string {
	return "history.controller." + strings.ToLower(kind.GroupKind().String())
}

// Index makes the cache able to List the revisions of owners of one kind. Call it once per kind and manager.
func Index(ctx context.Context, indexer client.FieldIndexer, kind schema.GroupVersionKind) error {
	err := indexer.IndexField(ctx, &appsv1.ControllerRevision{}, indexField(kind), func(obj client.Object) []string {
		if ref := metav1.GetControllerOfNoCopy(obj); ref != nil && ref.Kind == kind.Kind {
			return []string{string(ref.UID)} // an owner of the same kind in another group has another uid
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index ControllerRevisions by %s: %w", kind.Kind, err)
	}
	return nil
}

// List returns the revisions of the owner, sorted by Sort. They come from the cache and must not be changed.
func (s Store) List(ctx context.Context, owner Owner) ([]*appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	err := s.Client.List(ctx, &list, client.InNamespace(owner.Object.GetNamespace()),
		client.MatchingFields{indexField(owner.Kind): string(owner.Object.GetUID())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list ControllerRevisions of %s %s: %w", owner.Kind.Kind,
			client.ObjectKeyFromObject(asObject(owner)), err)
	}
	revisions := make([]*appsv1.ControllerRevision, 0, len(list.Items))
	for i := range list.Items {
		revisions = append(revisions, &list.Items[i])
	}
	Sort(revisions)
	return revisions, nil
}

// maxCollisions bounds how many names one call tries. Two collisions in a row are already very unlikely.
const maxCollisions = 10

// Revise returns the revision of this template, which is then the newest one: an existing revision that means the same
// (renumbered if it is not the newest), or a new one. Its change cause becomes that of the owner. It writes nothing
// when the newest revision is that of the template with that cause. collisionCount may be nil; the count to store in
// the owner's status is returned.
func Revise[T any](ctx context.Context, s Store, owner Owner, revisions []*appsv1.ControllerRevision, template T,
	collisionCount *int32) (*appsv1.ControllerRevision, *int32, error) {
	count := int32(0)
	if collisionCount != nil {
		count = *collisionCount
	}
	next := int64(1)
	if len(revisions) > 0 {
		next = revisions[len(revisions)-1].Revision + 1
	}
	found, err := Find(revisions, template)
	if err != nil {
		return nil, &count, err
	}
	if found != nil {
		found, err = s.renumber(ctx, owner, found, next)
		return found, &count, err
	}
	data, err := Encode(template)
	if err != nil {
		return nil, &count, err
	}
	revision, err := s.create(ctx, owner, data, next, &count)
	return revision, &count, err
}

// renumber makes an existing revision the newest, unless it is, and gives it the change cause of the owner.
func (s Store) renumber(ctx context.Context, owner Owner, revision *appsv1.ControllerRevision,
	next int64) (*appsv1.ControllerRevision, error) {
	changed := revision.DeepCopy()
	if revision.Revision != next-1 {
		changed.Revision = next
	}
	return s.mark(ctx, owner, revision, changed)
}

// Mark gives the newest revision the change cause of its owner, or removes one that the owner does not have: kubectl
// annotate changes it after the template. It writes only if they differ, and returns the revision as it is then.
func (s Store) Mark(ctx context.Context, owner Owner,
	newest *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return s.mark(ctx, owner, newest, newest.DeepCopy())
}

// mark writes a changed revision with the change cause of its owner, if it differs from the revision.
func (s Store) mark(ctx context.Context, owner Owner, revision,
	changed *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if cause := owner.Object.GetAnnotations()[topology.AnnotationChangeCause]; cause != "" {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, topology.AnnotationChangeCause, cause)
	} else {
		delete(changed.Annotations, topology.AnnotationChangeCause)
	}
	if changed.Revision == revision.Revision && maps.Equal(changed.Annotations, revision.Annotations) {
		return revision, nil
	}
	if err := s.Client.Patch(ctx, changed, client.MergeFrom(revision)); err != nil {
		return nil, fmt.Errorf("set the number and the change cause of ControllerRevision %s: %w",
			client.ObjectKeyFromObject(revision), err)
	}
	if s.Fresh != nil {
		s.Fresh.Changed(owner.Object.GetUID(), client.ObjectKeyFromObject(changed), changed.ResourceVersion)
	}
	return changed, nil
}

// create writes a new revision. A name that is taken by the same data of the same owner is that revision (the cache was
// behind), and so is one of nobody: its owner was deleted without it, and pods may still carry its name. A name taken
// by anything else raises the collision count and is tried again under another name.
func (s Store) create(ctx context.Context, owner Owner, data []byte, number int64,
	count *int32) (*appsv1.ControllerRevision, error) {
	for range maxCollisions {
		revision := owner.New(data, number, count)
		key := client.ObjectKeyFromObject(revision)
		err := s.Client.Create(ctx, revision)
		if err == nil {
			s.created(owner, revision)
			return revision, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create ControllerRevision %s: %w", key, err)
		}
		taken := &appsv1.ControllerRevision{}
		if err := s.Live.Get(ctx, key, taken); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s: %w", key, err)
		}
		same := taken.DeletionTimestamp == nil && bytes.Equal(compact(taken.Data), data)
		switch {
		case same && metav1.IsControlledBy(taken, owner.Object):
			s.created(owner, taken)
			return taken, nil
		case same && metav1.GetControllerOfNoCopy(taken) == nil:
			return s.adopt(ctx, owner, taken, number)
		}
		*count++
	}
	return nil, fmt.Errorf("create ControllerRevision of %s: %d names are taken",
		client.ObjectKeyFromObject(asObject(owner)), maxCollisions)
}

// adopt makes a revision of nobody the owner's newest, as it was seen.
func (s Store) adopt(ctx context.Context, owner Owner, revision *appsv1.ControllerRevision,
	number int64) (*appsv1.ControllerRevision, error) {
	changed := revision.DeepCopy()
	changed.OwnerReferences = append(changed.OwnerReferences, *metav1.NewControllerRef(owner.Object, owner.Kind))
	changed.Revision = max(revision.Revision, number)
	if err := s.Client.Patch(ctx, changed, client.MergeFromWithOptions(revision,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("adopt ControllerRevision %s: %w", client.ObjectKeyFromObject(revision), err)
	}
	s.created(owner, changed)
	return changed, nil
}

// Adopt makes the owner the controller of revisions that match the selector, have its name and no controller: an
// earlier owner was deleted without them. It returns them.
func (s Store) Adopt(ctx context.Context, owner Owner, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	err := s.Client.List(ctx, &list, client.InNamespace(owner.Object.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list ControllerRevisions without a controller: %w", err)
	}
	var out []*appsv1.ControllerRevision
	for i := range list.Items {
		revision := &list.Items[i]
		if metav1.GetControllerOfNoCopy(revision) != nil || revision.DeletionTimestamp != nil ||
			revision.Name != Name(owner.Object.GetName(), ShortName(revision.Name)) {
			continue
		}
		adopted, err := s.adopt(ctx, owner, revision, revision.Revision)
		if err != nil {
			return nil, err
		}
		out = append(out, adopted)
	}
	return out, nil
}

// compact returns the data in the form that Encode gives it.
func compact(data runtime.RawExtension) []byte {
	template, err := Decode[map[string]any](data.Raw)
	if err != nil {
		return nil
	}
	out, err := Encode(template)
	if err != nil {
		return nil
	}
	return out
}

// Delete deletes revisions; those that are gone already are no error.
func (s Store) Delete(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	var errs []error
	for _, revision := range revisions {
		if err := s.Client.Delete(ctx, revision); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete ControllerRevision %s: %w", client.ObjectKeyFromObject(revision), err))
		}
	}
	return errors.Join(errs...)
}

func asObject(owner Owner) client.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: owner.Object.GetName(),
		Namespace: owner.Object.GetNamespace()}}
}
