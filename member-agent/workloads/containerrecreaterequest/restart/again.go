package restart

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// mostAsked is of how many pods it is asked again in one pass whether their requests are still refused.
const mostAsked = 10

// askAgain asks whether pods may still not restart that were refused a while ago. It needs no grant of a hub, because
// it changes nothing.
func (r *restarter) askAgain(ctx context.Context, object client.Object, f *facts) error {
	if f.order.At == "" || f.stopped {
		return nil
	}
	open := slices.DeleteFunc(slices.Clone(f.pods), f.order.Through)
	requests, disruptions := r.refusals.Due(open, f.now)
	for _, pod := range requests[:min(len(requests), mostAsked)] {
		err := r.client.Create(ctx, r.requestFor(object, pod, *f), workload.FieldOwner, client.DryRunAll)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			r.refusals.Allow(pod.UID)
		case workload.Refused(err):
			r.refusals.Request(pod.UID, workload.Note(err), f.now)
		default:
			return fmt.Errorf("ask whether pod %s may restart: %w", pod.Name, err)
		}
	}
	f.refused = r.refusals.Of(f.pods, f.now)
	if r.disruptions == nil || len(disruptions) == 0 {
		return nil
	}
	refused, err := r.disruptions.Ask(ctx, object.GetNamespace(), policy.PubUpdateOperation, disruptions, true)
	if err != nil {
		return fmt.Errorf("ask whether pods may restart: %w", err)
	}
	r.refusals.Disruptions(disruptions, len(refused) == len(disruptions), f.now)
	return nil
}
