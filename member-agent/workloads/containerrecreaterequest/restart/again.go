package restart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// mostAsked is of how many pods it is asked again in one pass whether their requests are still refused.
const mostAsked = 10

// askAgain asks whether pods may still not restart that were refused a while ago. It needs no grant of a hub, because
// it changes nothing. What fails does not keep it from the rest.
func (r *restarter) askAgain(ctx context.Context, object client.Object, f *facts) error {
	if f.order.At == "" || f.stopped {
		return nil
	}
	open := slices.DeleteFunc(slices.Clone(f.pods), f.order.Through)
	requests, disruptions := r.refusals.Due(open, f.now)
	var errs []error
	for _, pod := range requests[:min(len(requests), mostAsked)] {
		err := r.client.Create(ctx, r.requestFor(object, pod, *f), workload.FieldOwner, client.DryRunAll)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			r.refusals.Allow(pod.UID)
		case workload.Refused(err):
			r.refusals.Request(pod.UID, workload.Note(err), f.now)
		default:
			errs = append(errs, fmt.Errorf("ask whether pod %s may restart: %w", pod.Name, err))
		}
	}
	errs = append(errs, r.askBudgets(ctx, object, disruptions, f.now))
	f.refused, f.disrupted = r.refusals.Of(open, f.now), r.refusals.Disrupted(open)
	return errors.Join(errs...)
}

// askBudgets asks which of the pods may not become unavailable now, and changes nothing.
func (r *restarter) askBudgets(ctx context.Context, object client.Object, pods []*corev1.Pod, now time.Time) error {
	if r.disruptions == nil || len(pods) == 0 {
		return nil
	}
	refused, err := r.disruptions.Ask(ctx, object.GetNamespace(), policy.PubUpdateOperation, pods, true)
	if err != nil {
		return fmt.Errorf("ask whether pods may restart: %w", err)
	}
	for _, pod := range pods {
		r.refusals.Disruptions([]*corev1.Pod{pod}, refused[pod.Name] != nil, now)
	}
	return nil
}
