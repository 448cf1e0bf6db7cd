package aggregate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// ofDeletion reports whether a outcome is about a workload that has a deletion timestamp.
func ofDeletion(v *placement.Outcome) bool {
	return v.Reason == conditions.ReasonDeleting || v.Reason == conditions.ReasonNamespaceTerminating
}

// gatherLeft reads the Works that are left of a deleted workload whose placement is gone.
func (r *Reconciler) gatherLeft(ctx context.Context, f *Facts) error {
	left := &work.WorkList{}
	if err := r.client.List(ctx, left, client.MatchingFields{store.IndexWorkWorkload: f.Key.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Works of %s: %w", f.Key.Sentence(), err)
	}
	for i := range left.Items {
		if cluster, ok := wire.MemberOf(left.Items[i].Namespace); ok && !wire.IsCheck(&left.Items[i]) {
			f.Works[cluster] = &left.Items[i]
		}
	}
	return r.gatherReady(ctx, f)
}

// deletionMessage says what a deleted workload waits for, and what is left of it in members.
func (f *Facts) deletionMessage(s *Sum) string {
	message := f.Outcome.Message
	clusters := slices.Sorted(maps.Keys(f.Works))
	if len(clusters) == 0 {
		return message + "; nothing is left of it in members"
	}
	if f.Placement != nil {
		message += fmt.Sprintf("; members report %d of its pods", s.Whole.Replicas)
	}
	message += fmt.Sprintf("; it exists in %s", strings.Join(clusters, ", "))
	silent := slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return !f.NotReady[cluster] })
	if len(silent) > 0 {
		message += fmt.Sprintf("; unreachable: %s, whose pods are deleted after contact is back", strings.Join(silent, ", "))
	}
	if s.Failed != nil && s.Failed.Reason == work.ReasonDeleting {
		message += "; " + s.Failed.Message // its object in a member waits for something too
	}
	return message
}
