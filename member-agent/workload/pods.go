package workload

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// Opened returns the status patch that opens the readiness gates of a new pod.
func Opened(now time.Time) ([]byte, error) {
	return inplace.OpenGate(now, v1beta1.InPlaceUpdateReady, lifecycle.KruisePodReady)
}

// OpenGates opens the gates of pods that are new or whose update has arrived.
func (c *Controller[T, M]) OpenGates(ctx context.Context, p *Pass[T, M], pods []*corev1.Pod, steps write.Steps) error {
	if len(pods) == 0 {
		return nil
	}
	now := c.Clock.Now()
	patch, err := inplace.OpenGate(now)
	if err != nil {
		return err
	}
	both, err := Opened(now)
	if err != nil {
		return err
	}
	isKruiseGate := func(g corev1.PodReadinessGate) bool { return g.ConditionType == lifecycle.KruisePodReady }
	_, err = write.SlowStart(ctx, steps, func(i int) error {
		pod := pods[i]
		if podstate.Condition(pod, lifecycle.KruisePodReady) == nil &&
			slices.ContainsFunc(pod.Spec.ReadinessGates, isKruiseGate) {
			return c.Writer.PatchPodStatus(ctx, p.Object.GetUID(), pod, both)
		}
		return c.Writer.PatchPodStatus(ctx, p.Object.GetUID(), pod, patch)
	})
	return err
}

// CarryOn makes the next writes of updates in place that have begun.
func (c *Controller[T, M]) CarryOn(ctx context.Context, p *Pass[T, M], pods []*corev1.Pod, steps write.Steps) error {
	_, err := write.SlowStart(ctx, steps, func(i int) error {
		writes, _, err := inplace.Next(pods[i], c.Clock.Now())
		if err != nil {
			return err
		}
		return c.Writer.ChangePod(ctx, p.Object.GetUID(), pods[i], writes)
	})
	return err
}

// Prepare writes a pod's lifecycle state. The mark comes first: who reads PreparingDelete finds the pod not ready already.
// IgnoreStale knows the error of a pod that has changed since the plan saw it.
func (c *Controller[T, M]) Prepare(ctx context.Context, p *Pass[T, M], pod *corev1.Pod, step lifecycle.Step) error {
	metadata, status, err := lifecycle.Patch(pod, step, c.Clock.Now())
	if err != nil {
		return err
	}
	err = c.Writer.ChangePod(ctx, p.Object.GetUID(), pod, inplace.Writes{Status: status, Pod: metadata})
	if apierrors.IsConflict(err) {
		return errStale
	}
	return err
}

// UpdateInPlace makes the first writes of an update in place, behind those of the lifecycle step. Later passes carry it on
// and open the gate.
func (c *Controller[T, M]) UpdateInPlace(
	ctx context.Context, p *Pass[T, M], pod *corev1.Pod, step lifecycle.Step,
	change inplace.Change, to inplace.Revision, options inplace.Options,
) error {
	if step.State != "" || step.NotReady != nil {
		if err := c.Prepare(ctx, p, pod, step); err != nil {
			return err
		}
	}
	writes, err := inplace.Begin(pod, change, to, options, c.Clock.Now())
	if err != nil {
		return err
	}
	return c.Writer.ChangePod(ctx, p.Object.GetUID(), pod, writes)
}

// errStale says that a pod is not what the plan saw any more. Its event brings the next pass.
var errStale = errors.New("the pod has changed")

// IgnoreStale returns nil for the error of a pod that has changed since the plan saw it: that is no failure.
func IgnoreStale(err error) error {
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}
