package workload

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// Adopt makes the object the controller of pods that match the selector and have none. It reports whether there were
// any: then the pass ends, and the events of the pods bring the next one.
func (c *Controller[T, M]) Adopt(ctx context.Context, p *Pass[T, M], selector labels.Selector) (bool, error) {
	pods, err := c.Pods.Orphans(p.Key.Namespace, selector)
	if err != nil || len(pods) == 0 {
		return false, err
	}
	if stays, err := c.stays(ctx, p); err != nil || !stays {
		p.Wake = freshness.RetryAfter
		return !stays, err
	}
	for _, pod := range pods {
		ref := *metav1.NewControllerRef(p.Object, c.kind.GVK)
		if err := c.Writer.AdoptPod(ctx, p.Object.GetUID(), pod, ref); err != nil {
			return false, err
		}
	}
	return true, nil
}

// stays asks the API server whether the object still exists and is not being deleted. Deleting it with orphaning
// releases its pods, and the cache may not show the deletion yet: pods that were adopted then would be garbage
// collected.
func (c *Controller[T, M]) stays(ctx context.Context, p *Pass[T, M]) (bool, error) {
	now := c.kind.New()
	switch err := c.Live.Get(ctx, p.Key, now); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read it, to adopt pods: %w", err)
	}
	return now.GetUID() == p.Object.GetUID() && now.GetDeletionTimestamp() == nil, nil
}
