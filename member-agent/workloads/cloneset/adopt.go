package cloneset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// adopt takes over pods that match the selector and have no controller. It tells whether there were any: then the pass
// ends, and the pods come back as our own.
func (r *Reconciler) adopt(ctx context.Context, s *scope, selector labels.Selector) (bool, error) {
	pods, err := r.source.Orphans(s.cs.Namespace, selector)
	if err != nil || len(pods) == 0 {
		return false, err
	}
	if stays, err := r.stays(ctx, s.cs); err != nil || !stays {
		s.wake = freshness.RetryAfter
		return !stays, err
	}
	for _, pod := range pods {
		if err := r.writer.AdoptPod(ctx, s.cs.UID, pod, *metav1.NewControllerRef(s.cs, v1beta1.CloneSetKind)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// stays asks the API server whether the CloneSet is still there and is to stay. Who deletes it and leaves its pods makes
// them pods of nobody while the cache may not know of the deletion yet; the garbage collector would delete them as soon as they
// had a controller that is gone.
func (r *Reconciler) stays(ctx context.Context, cs *v1beta1.CloneSet) (bool, error) {
	now := &v1beta1.CloneSet{}
	switch err := r.live.Get(ctx, client.ObjectKeyFromObject(cs), now); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read it, to adopt pods: %w", err)
	}
	return now.UID == cs.UID && now.DeletionTimestamp == nil, nil
}

// refusedFor tells whether an error is somebody's decision, such as a quota's, a webhook's or that of the rights: it is told in
// a condition, since it may last. Others pass.
func refusedFor(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
