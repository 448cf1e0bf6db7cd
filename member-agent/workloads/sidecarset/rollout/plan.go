package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

// Plan is what one pass does.
type Plan struct {
	// Writes are the pods to change, in this order.
	Writes []Write
	// Counts are the numbers of the status.
	Counts Counts
	// NotUpgradable are the names of pods that differ from the SidecarSet in more than images, sorted.
	NotUpgradable []string
	// Recreate are the pods to evict, in this order, at most one of each workload.
	Recreate []*corev1.Pod
	// Pending is how many pods a later pass updates.
	Pending int
	// Due are the pods that this pass or a later one updates or evicts.
	Due map[types.UID]bool
	// Ahead are the images that updates in place bring, now or later.
	Ahead Images
}

// Counts are the numbers of the status.
type Counts struct {
	Matched, Updated, Ready, UpdatedReady int32
	// NotUpdatable are those that lack the current revision and do not get it, whatever the limits are.
	NotUpdatable int32
}

// Write is what is written to one pod: strategic merge patches of the pod and of its status, nil for none.
type Write struct {
	Pod       *corev1.Pod
	Patch     []byte
	Condition []byte
	// Disrupts: the patch restarts a container.
	Disrupts bool
}

// PlanOf decides about the pods that the SidecarSet selects. It errs for limits that cannot be computed and for values
// that cannot be encoded.
func PlanOf(set *Set, pods []*corev1.Pod, allowed inject.Allowed, now time.Time) (Plan, error) {
	plan := Plan{Ahead: Images{}}
	var views []view
	same := newSameButImages(set)
	for _, pod := range pods {
		v, ok, err := viewOf(set, same, pod)
		if err != nil {
			return plan, fmt.Errorf("compare the sidecars of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if ok {
			views = append(views, v)
			plan.Counts.add(v)
			if plan.Counts.count(set, v) && v.upgradable {
				plan.Ahead.add(set, v.pod)
			}
			if !v.updated && !v.upgradable {
				plan.NotUpgradable = append(plan.NotUpgradable, pod.Namespace+"/"+pod.Name)
			}
		}
	}
	slices.Sort(plan.NotUpgradable)
	if err := plan.flips(set, views); err != nil {
		return plan, err
	}
	strategy := &set.Spec.UpdateStrategy
	if strategy.Type != v1beta1.NotUpdateSidecarSetStrategyType && !strategy.Paused {
		if err := plan.updates(set, views, leaving(set, pods, now), allowed, now); err != nil {
			return plan, err
		}
	}
	return plan, plan.conditions(set, views, now)
}

// updates plans the pods that get the current revision.
func (p *Plan) updates(set *Set, views []view, leaving int, allowed inject.Allowed, now time.Time) error {
	chosen, pending, due, err := choose(set, views, leaving)
	if err != nil {
		return err
	}
	p.Pending, p.Due = pending, due
	for _, v := range chosen {
		if p.writes(v.pod) {
			continue
		}
		if !v.upgradable {
			p.Recreate = append(p.Recreate, v.pod)
			continue
		}
		write, err := update(set, v.pod, allowed, now)
		if err != nil {
			return fmt.Errorf("plan the update of pod %s/%s: %w", v.pod.Namespace, v.pod.Name, err)
		}
		p.Writes = append(p.Writes, write)
	}
	return nil
}

// writes reports whether the plan changes the pod already.
func (p *Plan) writes(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.Writes, func(w Write) bool { return w.Pod == pod })
}

func (c *Counts) add(v view) {
	one := func(is bool) int32 {
		if is {
			return 1
		}
		return 0
	}
	c.Matched++
	c.Updated += one(v.updated)
	c.Ready += one(v.ready)
	c.UpdatedReady += one(v.updated && v.ready)
}

// choose returns the pods to update or to evict now, how many a later pass brings up to date, and all of these. leaving
// is how many others are not available.
func choose(
	set *Set, views []view, leaving int,
) (chosen []view, pending int, due map[types.UID]bool, err error) {
	c := counted{matched: len(views), absent: set.Absent, leaving: leaving}
	if set.Recreate {
		for _, pod := range set.Missing {
			views = append(views, view{pod: pod, consistent: true, missing: true})
			c.missing++
		}
	}
	eligible, done, unavailable, err := candidates(set, views)
	if err != nil {
		return nil, 0, nil, err
	}
	c.done = len(done)
	for _, v := range eligible {
		if !v.missing {
			c.eligible++
		}
	}
	kept, most, err := set.limits(c)
	if err != nil {
		return nil, 0, nil, err
	}
	sorted, err := sort(&set.Spec.UpdateStrategy, eligible, done)
	if err != nil {
		return nil, 0, nil, err
	}
	sorted = withoutLast(sorted, int(kept))
	slices.SortStableFunc(sorted, func(a, b view) int { return set.refused(a).Compare(set.refused(b)) })
	due = map[types.UID]bool{}
	for _, v := range sorted {
		due[v.pod.UID] = true
	}
	sorted = slices.DeleteFunc(sorted, func(v view) bool { return set.Held[v.pod.UID] })
	chosen, waiting := within(set, sorted, int(most)-unavailable-leaving)
	return chosen, len(due) - len(sorted) + waiting, due, nil
}

// withoutLast returns the pods without the last n that have sidecars. Pods that lack them are in no partition.
func withoutLast(sorted []view, n int) []view {
	var out []view
	for _, v := range slices.Backward(sorted) {
		if n > 0 && !v.missing {
			n--
			continue
		}
		out = append(out, v)
	}
	slices.Reverse(out)
	return out
}

// refused returns when a pod was refused last, the zero time if it never was.
func (s *Set) refused(v view) time.Time {
	at := s.Refused[v.pod.UID]
	if owner := s.Refused[ownerOf(v.pod)]; !v.upgradable && owner.After(at) {
		return owner
	}
	return at
}

// within returns the first of the sorted pods that may become unavailable, if room of them may, and how many wait.
func within(set *Set, sorted []view, room int) (chosen []view, waiting int) {
	for _, v := range sorted {
		if v.upgradable && !podReady(v.pod) {
			room-- // it is updated whatever the limit is, and is unavailable until the update has arrived
		}
	}
	loses := map[types.UID]bool{} // workloads, one pod at a time
	for _, v := range sorted {
		owner := ownerOf(v.pod)
		evicted := !v.upgradable
		if evicted && (loses[owner] || set.InFlight[owner]) || podReady(v.pod) && room <= 0 {
			waiting++
			continue
		}
		if podReady(v.pod) {
			room--
		}
		if evicted {
			loses[owner] = true
		}
		chosen = append(chosen, v)
	}
	return chosen, waiting
}

// candidates returns the pods that can get the current revision now, by a patch or by a new pod in their place, those
// that have it, and how many of these are not available. A pod that is ready waits for the change before to arrive;
// one that is not may wait for ever.
func candidates(set *Set, views []view) (eligible []view, done []*corev1.Pod, unavailable int, err error) {
	strategy := &set.Spec.UpdateStrategy
	selected := labels.Everything()
	if strategy.Selector != nil {
		if selected, err = metav1.LabelSelectorAsSelector(strategy.Selector); err != nil {
			return nil, nil, 0, fmt.Errorf("updateStrategy.selector cannot be used: %w", err)
		}
	}
	unavailable = len(set.InFlight)
	replaces := maps.Clone(set.InFlight) // one pod of each of these workloads is counted already
	for _, v := range views {
		switch {
		case v.updated:
			done = append(done, v.pod)
			if owner := ownerOf(v.pod); !v.ready && replaces[owner] {
				delete(replaces, owner)
			} else if !v.ready {
				unavailable++
			}
		case !v.consistent && podReady(v.pod):
			unavailable++ // the change before has not arrived
		case (v.upgradable || set.Recreate && ownerOf(v.pod) != "") && selected.Matches(labels.Set(v.pod.Labels)):
			eligible = append(eligible, v)
		}
	}
	return eligible, done, unavailable, nil
}

// scaled returns the number that a limit means, percentages rounded up.
func scaled(name string, limit *intstr.IntOrString, absent, total int32) (int32, error) {
	if limit == nil {
		return absent, nil
	}
	n, err := budget.Scaled(*limit, total, budget.Up)
	if err != nil {
		return 0, fmt.Errorf("%s %w", name, err)
	}
	return n, nil
}

// sort returns the pods in the order of their update.
func sort(strategy *v1beta1.SidecarSetUpdateStrategy, views []view, done []*corev1.Pod) ([]view, error) {
	pods, byPod := make([]*corev1.Pod, 0, len(views)), make(map[*corev1.Pod]view, len(views))
	for _, v := range views {
		pods, byPod[v.pod] = append(pods, v.pod), v
	}
	pods, err := order.ForUpdate(pods, done, order.Strategy{
		Priority: strategy.PriorityStrategy, Scatter: scatter(strategy.ScatterStrategy, pods, done),
	})
	if err != nil {
		return nil, err
	}
	out := make([]view, 0, len(pods))
	for _, pod := range pods {
		out = append(out, byPod[pod])
	}
	return out, nil
}

// scatter returns the terms with one for each value of the label in the place of "*".
func scatter(terms []v1beta1.UpdateScatterTerm, lists ...[]*corev1.Pod) []v1beta1.UpdateScatterTerm {
	var out []v1beta1.UpdateScatterTerm
	for _, term := range terms {
		if term.Value != "*" {
			out = append(out, term)
			continue
		}
		values := map[string]bool{}
		for _, pod := range slices.Concat(lists...) {
			if value, has := pod.Labels[term.Key]; has {
				values[value] = true
			}
		}
		for _, value := range slices.Sorted(maps.Keys(values)) {
			out = append(out, v1beta1.UpdateScatterTerm{Key: term.Key, Value: value})
		}
	}
	return out
}
