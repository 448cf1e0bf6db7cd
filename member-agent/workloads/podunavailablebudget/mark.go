package podunavailablebudget

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
)

// inFlight is how many pods are named at a time.
const inFlight = 16

// mark names the budget on those of its pods that name none: they were there before it, or no agent answered when they
// were created.
func (r *Reconciler) mark(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	unmarked := slices.DeleteFunc(slices.Clone(s.members), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || budgets.Related(pod)
	})
	_, err := write.SlowStart(ctx, write.Steps{N: len(unmarked), Limit: inFlight}, func(i int) error {
		pod := unmarked[i]
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID,
			"annotations": budgets.Relation(s.pub)}})
		if err != nil {
			return fmt.Errorf("encode the annotations of pod %s: %w", pod.Name, err)
		}
		target := &corev1.Pod{}
		target.Namespace, target.Name = pod.Namespace, pod.Name
		err = r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), workload.FieldOwner)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotate pod %s: %w", pod.Name, err)
		}
		return nil
	})
	s.Fail(ReasonMarkFailed, err)
	return true, nil
}
