package report

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
)

// lookAtRestarts is how often pods are counted while some have still to restart. Mostly an event of their workload comes
// first.
const lookAtRestarts = 5 * time.Second

// restartOf names a restart of an object.
type restartOf struct {
	uid types.UID
	at  string
}

// toRestart adds to a report how many pods have still to restart, and reports whether some have. A restart that all pods
// went through is not counted again: pods that are created later are younger.
func (r *Reconciler) toRestart(
	ctx context.Context, m *memo, live *unstructured.Unstructured, next *work.Report,
) (left bool, err error) {
	kind, ok := r.Kinds.of(live)
	if !ok || !kind.Restarts || len(next.InUse) != 1 {
		return false, nil
	}
	asked, open := restarts.Open(live)
	this := restartOf{live.GetUID(), asked.At}
	if !open || m.restarted == this {
		return false, nil
	}
	selector, err := selectorOf(live)
	if err != nil {
		return false, err
	}
	var list corev1.PodList
	if err := r.Pods.List(ctx, &list, client.InNamespace(live.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list pods of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		if controls(live.GetUID(), &list.Items[i]) {
			pods = append(pods, &list.Items[i])
		}
	}
	next.InUse[0].ToRestart = asked.Left(pods)
	if next.InUse[0].ToRestart == 0 {
		m.restarted = this
	}
	return next.InUse[0].ToRestart > 0, nil
}
