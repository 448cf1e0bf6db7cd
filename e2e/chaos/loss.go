package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// lossLimit is how long a loss lasts at most: 40 s until the hub takes the member for lost, and the restart of API
	// servers and of the hub by other faults.
	lossLimit = 3 * time.Minute
	// lostFor is how long a member stays away once it is fenced: its pods are replaced, and some are updated.
	lostFor = 12 * time.Second
)

// lose ends the agent of a member and the member's pods that have identities, confirms to the hub that none of them is
// left, and brings the agent back: it knows orders for ordinals that run elsewhere meanwhile. agent is taken already.
func (f *faults) lose(life context.Context, member, agent string) {
	life, stop := context.WithTimeout(context.WithoutCancel(life), lossLimit)
	defer stop()
	said := func(format string, args ...any) { f.note(member, format, args...) }
	said("it is lost: its agent is killed, and the pods of its StatefulSets go")
	insist(life, said, "kill "+agent, func(ctx context.Context) error { return f.h.Fleet.Kill(ctx, agent) })
	insist(life, said, "delete the pods of its StatefulSets", func(ctx context.Context) error {
		return f.deleteIdentities(ctx, f.h.Members[member].Client)
	})
	insist(life, said, "confirm the loss", func(ctx context.Context) error { return f.confirmLoss(ctx, member) })
	if life.Err() == nil {
		said("its loss is confirmed")
	}
	pause(life, lostFor)
	again, end := context.WithTimeout(context.WithoutCancel(life), nodeLimit)
	defer end()
	insist(again, said, "start "+agent, func(context.Context) error { return f.h.Fleet.Restart(agent) })
	said("its agent is started again")
}

// deleteIdentities deletes the pods of StatefulSets. The error says how many there were.
func (f *faults) deleteIdentities(ctx context.Context, c client.Client) error {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(f.namespace)); err != nil {
		return err
	}
	left := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.Kind != apps.StatefulSetKind.Kind
	})
	var errs error
	for i := range left {
		errs = errors.Join(errs, client.IgnoreNotFound(c.Delete(ctx, &left[i], client.GracePeriodSeconds(0))))
	}
	if len(left) > 0 && errs == nil {
		return errors.New("there were some a moment ago")
	}
	return errs
}

// confirmLoss confirms that a member is lost, as a person does by flotilla fence. The error says that the hub does not
// take it for lost yet.
func (f *faults) confirmLoss(ctx context.Context, member string) error {
	m := &topology.MemberCluster{}
	if err := f.h.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return fmt.Errorf("the hub takes %s for Ready", member)
	}
	before := m.DeepCopy()
	m.Spec.Fence = &topology.Fence{LostSince: ready.LastTransitionTime, By: "chaos", At: metav1.Now()}
	return f.h.Hub.Client.Patch(ctx, m, client.MergeFrom(before))
}

// loseOne loses a member early in the storm, in the middle of the first rollout.
func (f *faults) loseOne(ctx, life context.Context) {
	member := f.member(f.draw)
	agent := fleet.AgentName(member)
	if !f.take("member lost", agent) { // at once: its agent must not be started by another fault
		return
	}
	f.group.Go(func() {
		defer f.release(agent)
		if pause(ctx, beforeLongCut) {
			f.lose(life, member, agent)
		}
	})
}
