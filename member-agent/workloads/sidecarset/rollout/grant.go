package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Grant is what a hub grants a member of the limits over all members: how many pods may have the current revision, and
// how many may be unavailable because of the update.
type Grant struct {
	Updated, Unavailable int32
}

// counted are the numbers that limits are computed of.
type counted struct {
	// matched is how many pods have the sidecars, eligible how many of them can be updated, and done how many are.
	matched, eligible, done int
	// absent is how many were evicted, and will have the current sidecars once they are there again; leaving how many are
	// on their way out, and missing how many lack the sidecars.
	absent, leaving, missing int
}

// limits returns how many of the eligible pods keep their images, and how many of all pods may be unavailable.
func (s *Set) limits(c counted) (kept, most int32, err error) {
	if s.Grant != nil {
		done := int32(c.done + c.absent)
		return max(int32(c.eligible)-max(s.Grant.Updated-done, 0), 0), max(s.Grant.Unavailable, 0), nil
	}
	strategy := &s.Spec.UpdateStrategy
	if kept, err = scaled("partition", strategy.Partition, 0, int32(c.matched+c.absent+c.leaving)); err != nil {
		return 0, 0, err
	}
	most, err = scaled("maxUnavailable", strategy.MaxUnavailable, 1, int32(c.matched+c.absent+c.missing))
	return kept, most, err
}

// count counts a pod that lacks the current revision and does not get it, whatever the limits are. It reports whether
// the pod is to get it.
func (c *Counts) count(set *Set, v view) (gets bool) {
	if v.updated {
		return false
	}
	strategy, recreated := &set.Spec.UpdateStrategy, set.Recreates && ownerOf(v.pod) != ""
	selector := labels.Everything()
	if strategy.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(strategy.Selector); err != nil {
			selector = labels.Nothing()
		}
	}
	if !v.upgradable && !recreated || strategy.Type == v1beta1.NotUpdateSidecarSetStrategyType ||
		!selector.Matches(labels.Set(v.pod.Labels)) {
		c.NotUpdatable++
		return false
	}
	return true
}
