package daemonset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
)

// apply carries out the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	work := workload.Work{Actions: s.plan.Actions, InPlace: inplace.Options{NameOnly: true}}
	s.done = r.Act(ctx, s.pass, work, func(pace workload.Pace) int { return r.create(ctx, s, pace) })
	for _, node := range s.plan.Failed {
		s.Memory.backoff.failed(node, s.facts.Now)
	}
	if len(s.plan.Failed) > 0 {
		r.Events.Eventf(s.set, nil, corev1.EventTypeWarning, "FailedDaemonPod", "Delete",
			"pods on %d nodes have failed, the first on %s: they are replaced, later each time", len(s.plan.Failed),
			s.plan.Failed[0])
	}
	r.TurnAway(s.pass, nil)
	r.pullAhead(ctx, s)
	return true, nil
}

// pullAhead has the nodes of pods that are to be updated in place pull the new images.
func (r *Reconciler) pullAhead(ctx context.Context, s *scope) {
	wish := ahead.Of(s.set, nil)
	wish.Kind, wish.Selector, wish.Revisions = v1beta1.DaemonSetKind, s.set.Spec.Selector, s.facts.Revisions
	wish.Pods = s.facts.Pods.Active
	wish.InPlace = rollingOf(s.set).Type == v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType
	ahead.Pull(ctx, r.Controller, s.pass, &s.Memory.ahead, wish)
}

// create creates the pods of the plan.
func (r *Reconciler) create(ctx context.Context, s *scope, pace workload.Pace) int {
	if len(s.plan.Create) == 0 {
		return 0
	}
	now := r.Clock.Now()
	opened := r.Opening(s.pass, now)
	if opened == nil {
		return 0
	}
	if !gated(s.set) {
		opened = []byte{}
	}
	created, err := write.SlowStart(ctx, pace(len(s.plan.Create), 1), func(i int) error {
		return r.CreateNamed(ctx, s.pass, func(name string) *corev1.Pod {
			return newPod(s.set, name, s.plan.Create[i], now)
		}, opened)
	})
	r.CreateFailed(s.pass, err, "the template")
	return created
}

// newPod returns the pod, ready to be created.
func newPod(set *v1beta1.DaemonSet, name string, c Creation, now time.Time) *corev1.Pod {
	pod := workload.NewPod(set, v1beta1.DaemonSetKind, name, c.Revision, history.ShortForm, hooksOf(set), now)
	pernode.Pin(&pod.Spec, c.Node)
	pernode.Tolerate(&pod.Spec)
	if gated(set) {
		return workload.WithGates(pod)
	}
	return pod
}

// gated reports whether new pods need readiness gates: they cost a write by the agent and one by the kubelet per pod.
func gated(set *v1beta1.DaemonSet) bool {
	return rollingOf(set).Type == v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType || hooksOf(set) != nil
}

// trim deletes revisions that no pod uses, beyond the limit of the history.
func (r *Reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	return r.Unused(ctx, s.pass, &s.facts.Revisions, s.facts.Pods, s.set.Spec.RevisionHistoryLimit)
}
