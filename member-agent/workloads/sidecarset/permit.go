package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

const (
	// rounds is how often a pass plans again because budgets refused pods: others go in their place.
	rounds = 4
	// askAgain is when pods that wait are looked at again, though no event comes.
	askAgain = 2 * time.Second
)

// permit asks the budgets of the pods, in one batch for each namespace, before the plan disrupts them, and the
// workloads of pods that are to be evicted. Pods that may not be disrupted wait, and others go in their place.
func (r *Reconciler) permit(ctx context.Context, s *scope) (bool, error) {
	if len(s.plan.Recreate) > 0 {
		s.Memory.recreated = r.Clock.Now()
	}
	granted := map[types.UID]bool{}
	for range rounds {
		refused, err := r.ask(ctx, s, granted)
		held, evictErr := r.admit(ctx, s, granted)
		if err = errors.Join(err, evictErr); err != nil {
			s.Fail(failureUpdate, err)
			break
		}
		if !refused && !held {
			break
		}
		r.plan(s)
	}
	s.plan.Writes = slices.DeleteFunc(s.plan.Writes, func(w rollout.Write) bool {
		return r.Disruptions != nil && w.Disrupts && !granted[w.Pod.UID]
	})
	s.plan.Recreate = slices.DeleteFunc(s.plan.Recreate, func(pod *corev1.Pod) bool { return !granted[pod.UID] })
	return true, nil
}

// ask asks about the pods of the plan that were not granted yet, and holds those that a budget refuses. It reports
// whether there are any.
func (r *Reconciler) ask(ctx context.Context, s *scope, granted map[types.UID]bool) (refused bool, err error) {
	if r.Disruptions == nil {
		return false, nil
	}
	batches := map[string][]*corev1.Pod{}
	for _, w := range s.plan.Writes {
		if w.Disrupts && !granted[w.Pod.UID] {
			batches[w.Pod.Namespace] = append(batches[w.Pod.Namespace], w.Pod)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(batches)) {
		refusals, err := r.Disruptions.Ask(ctx, namespace, policy.PubUpdateOperation, batches[namespace], false)
		if err != nil {
			return false, fmt.Errorf("ask the budgets of namespace %s: %w", namespace, err)
		}
		for _, pod := range batches[namespace] {
			if refusal := refusals[pod.Name]; refusal != nil {
				s.hold(pod, refusal.Error(), r.Clock.Now())
				refused = true
				continue
			}
			granted[pod.UID] = true
			delete(s.Memory.refused, pod.UID)
		}
	}
	return refused, nil
}

// waiting says which pods wait for what, at most a few.
func waiting(waits []string) string {
	const most = 3
	waits = slices.Sorted(slices.Values(waits))
	text := strings.Join(waits[:min(most, len(waits))], "; ")
	if more := len(waits) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
