package cloneset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

func newCloneSet() client.Object      { return &v1beta1.CloneSet{} }
func newEmptyPod() client.Object      { return &corev1.Pod{} }
func newEmptyClaim() client.Object    { return &corev1.PersistentVolumeClaim{} }
func newEmptyRevision() client.Object { return &appsv1.ControllerRevision{} }

// fresh ends the pass while the cache lacks our own writes: events bring it back.
func (r *Reconciler) fresh(ctx context.Context, s *scope) (bool, error) {
	self := func(types.NamespacedName) freshness.Seen {
		return freshness.Seen{Present: true, ResourceVersion: s.cs.ResourceVersion}
	}
	for _, part := range []struct {
		store *freshness.Store
		cache freshness.Cache
		empty func() client.Object
	}{
		{r.self, self, newCloneSet}, {r.pods, r.source.Get, newEmptyPod}, {r.writer.Claims, r.claims.Get, newEmptyClaim},
		{r.revisions, r.revision(ctx), newEmptyRevision},
	} {
		fresh, overdue := part.store.Fresh(s.cs.UID, part.cache)
		if err := part.store.Reread(ctx, r.live, s.cs.UID, overdue, part.empty); err != nil {
			return false, err
		}
		if !fresh {
			s.wake = freshness.RetryAfter
			return false, nil
		}
	}
	return true, nil
}

// revision tells what the cache knows of a revision.
func (r *Reconciler) revision(ctx context.Context) freshness.Cache {
	return func(key types.NamespacedName) freshness.Seen {
		revision := &appsv1.ControllerRevision{}
		if err := r.client.Get(ctx, key, revision, client.UnsafeDisableDeepCopy); err != nil {
			return freshness.Seen{}
		}
		return freshness.Seen{Present: true, ResourceVersion: revision.ResourceVersion, Deleting: revision.DeletionTimestamp != nil}
	}
}
