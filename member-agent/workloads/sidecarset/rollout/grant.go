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

// limits returns how many of the eligible pods keep their images, and how many of all pods may be unavailable. matched
// is how many pods have the sidecars, eligible how many of them can be updated, and done how many are.
func (s *Set) limits(matched, eligible, done int32) (kept, most int32, err error) {
	if s.Grant != nil {
		return max(eligible-max(s.Grant.Updated-done, 0), 0), max(s.Grant.Unavailable, 0), nil
	}
	strategy := &s.Spec.UpdateStrategy
	if kept, err = scaled("partition", strategy.Partition, 0, matched); err != nil {
		return 0, 0, err
	}
	most, err = scaled("maxUnavailable", strategy.MaxUnavailable, 1, matched)
	return kept, most, err
}

// count counts a pod that lacks the current revision and does not get it, whatever the limits are.
func (c *Counts) count(set *Set, v view) {
	if v.updated {
		return
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
	}
}
