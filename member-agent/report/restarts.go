package report

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
)

// lookAtRestarts is how often pods are counted while some have still to restart. Mostly an event of their workload comes
// first.
const lookAtRestarts = 5 * time.Second

// toRestart adds to a report how many pods have still to restart and may, and reports whether some have: also those
// that may not restart now, and may a while later. A restart that all pods went through is counted too: where the clock
// that set its time is fast, pods that are created later have still to restart.
func (r *Reconciler) toRestart(
	ctx context.Context, live *unstructured.Unstructured, next *work.Report,
) (left bool, err error) {
	kind, ok := r.Kinds.of(live)
	if !ok || !kind.Restarts || len(next.InUse) != 1 {
		return false, nil
	}
	asked, open := restarts.Open(live)
	if !open {
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
	all, refused := asked.Left(pods, r.Refusals, r.MemberClock.Now())
	next.InUse[0].ToRestart = all - refused
	return all > 0, nil
}

// toRestartIn returns how many pods have still to restart by a report; nil is no report.
func toRestartIn(report *work.Report) int32 {
	if report == nil || len(report.InUse) != 1 {
		return 0
	}
	return report.InUse[0].ToRestart
}

// forgetRestarts takes from a report how many pods have still to restart.
func forgetRestarts(report *work.Report) {
	for i := range report.InUse {
		report.InUse[i].ToRestart = 0
	}
}

// keepsRestarts takes from a status how many pods have still to restart, if the hub does not keep it in this session.
func (m *memo) keepsRestarts(status *work.WorkStatus, round int64) {
	if m.restartsUnkept == round {
		forgetRestarts(status.Report)
	}
}
