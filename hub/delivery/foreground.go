package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// foregroundRetry is how often a foreground deletion looks whether a member that it waits for has become unreachable.
const foregroundRetry = 10 * time.Second

// foreground reports whether the workload is deleted in the foreground. A namespace that is being deleted waits for
// nothing in members.
func (r *Reconciler) foreground(ctx context.Context, s *state) (bool, error) {
	object, err := r.liveWorkload(ctx, s.key)
	if err != nil || object == nil || object.GetUID() != s.placement.Spec.Workload.UID || !conditions.Foreground(object) {
		return false, err
	}
	terminating, err := r.terminating(ctx, s.key.Namespace)
	return !terminating, err
}

// askForeground tells the agents to delete pods before the objects of these Works.
func (r *Reconciler) askForeground(ctx context.Context, works []work.Work) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	errs := make([]error, len(works))
	text := fmt.Sprintf(
		`{"metadata":{"annotations":{%q:%q}}}`,
		topology.AnnotationPropagation,
		metav1.DeletePropagationForeground,
	)
	for i := range works {
		w := &works[i]
		if w.DeletionTimestamp != nil || w.Annotations[topology.AnnotationPropagation] != "" {
			continue
		}
		group.Go(func() error {
			patch := client.RawPatch(types.MergePatchType, []byte(text))
			if err := r.client.Patch(ctx, w.DeepCopy(), patch, store.ManagerDelivery); client.IgnoreNotFound(err) != nil {
				errs[i] = fmt.Errorf("ask for foreground deletion in Work %s/%s: %w", w.Namespace, w.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// leftInReady reports whether one of these Works is of a member that is Ready. An unreachable member is not waited
// for: its Work keeps its deletion timestamp, and is carried out when contact is back.
func (r *Reconciler) leftInReady(ctx context.Context, works []work.Work) (bool, error) {
	for i := range works {
		name, ok := wire.MemberOf(works[i].Namespace)
		if !ok {
			continue
		}
		member := &topology.MemberCluster{}
		err := r.client.Get(ctx, client.ObjectKey{Name: name}, member)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get MemberCluster %s: %w", name, err)
		}
		if err == nil && meta.IsStatusConditionTrue(member.Status.Conditions, topology.MemberReady) {
			return true, nil
		}
	}
	return false, nil
}
