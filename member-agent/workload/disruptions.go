package workload

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
)

// Disruptions decides which pods may become unavailable under PodUnavailableBudgets.
type Disruptions interface {
	// Ask decides about an operation on pods of one namespace, and records those that may become unavailable. It returns
	// the refusals by the names of pods. A dry run records nothing.
	Ask(
		ctx context.Context, namespace string, operation policy.PubOperation, pods []*corev1.Pod, dryRun bool,
	) (map[string]*disruption.Refusal, error)
}

// askBudget is when pods that a budget refused are asked about again, though no event of the workload comes.
const askBudget = 2 * time.Second

// permitted returns the part of the work that the budgets of the pods allow, and how many pods stay that new ones were
// to replace. What they refuse is shown by the conditions of the kind, and tried again.
func (c *Controller[T, M]) permitted(ctx context.Context, p *Pass[T, M], w Work) (allowed Work, stay int) {
	if c.Disruptions == nil {
		return w, 0
	}
	var deleted, updated []*corev1.Pod
	for i := range w.Delete {
		deleted = append(deleted, w.Delete[i].Pod)
	}
	for i := range w.Update {
		updated = append(updated, w.Update[i].Pod)
	}
	for i := range w.Prepare {
		switch step := &w.Prepare[i].Step; {
		case step.NotReady == nil || !*step.NotReady:
		case step.State == v1beta1.LifecyclePreparingDelete:
			deleted = append(deleted, w.Prepare[i].Pod)
		default:
			updated = append(updated, w.Prepare[i].Pod)
		}
	}
	kept := c.ask(ctx, p, policy.PubDeleteOperation, deleted, c.kind.ScaleFailure)
	held := c.ask(ctx, p, policy.PubUpdateOperation, updated, c.kind.UpdateFailure)
	stays := func(pod *corev1.Pod) bool { return kept[pod.Name] || held[pod.Name] }
	w.Delete = slices.DeleteFunc(slices.Clone(w.Delete), func(r Removal) bool {
		if kept[r.Pod.Name] {
			stay++
		}
		return kept[r.Pod.Name]
	})
	w.Update = slices.DeleteFunc(slices.Clone(w.Update), func(u Update) bool { return held[u.Pod.Name] })
	w.Prepare = slices.DeleteFunc(slices.Clone(w.Prepare), func(preparation Preparation) bool {
		if !stays(preparation.Pod) {
			return false
		}
		if preparation.Replaced {
			stay++
		}
		return true
	})
	return w, stay
}

// ask asks about the pods, and returns the names of those that must stay.
func (c *Controller[T, M]) ask(
	ctx context.Context, p *Pass[T, M], operation policy.PubOperation, pods []*corev1.Pod, condition string,
) map[string]bool {
	if len(pods) == 0 {
		return nil
	}
	stay := map[string]bool{}
	refused, err := c.Disruptions.Ask(ctx, p.Key.Namespace, operation, pods, false)
	if err != nil {
		for _, pod := range pods {
			stay[pod.Name] = true
		}
		p.Fail(condition, err)
		return stay
	}
	var first error
	for _, pod := range pods {
		if refusal := refused[pod.Name]; refusal != nil {
			stay[pod.Name] = true
			if first == nil {
				first = refusal
			}
		}
	}
	if first != nil {
		p.wait(condition, first)
		p.Sooner(askBudget)
	}
	return stay
}

// wait keeps under a condition what the pass waits for. It is no failure: the pass is not retried sooner.
func (p *Pass[T, M]) wait(condition string, err error) {
	if p.waits == nil {
		p.waits = map[string]error{}
	}
	p.waits[condition] = errors.Join(p.waits[condition], err)
}
