package uniteddeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// The controllers of Kubernetes say little of what they wait for: a StatefulSet has no condition at all, and waits for
// ever for a pod that is not Ready, also for one of a revision that is not wanted any more. So its pods are looked at,
// in the order in which its controller goes through them:
//
//	The first pod that is not Ready             Then
//	of a revision that is not wanted, and       the agent deletes it, unless the partition, OnDelete, or what the hub
//	never was Ready                             grants keeps it
//	of a revision that is not wanted            PodNotReplaced, after waits.Soon if a container fails, else waits.Long
//	of the wanted revision, or being deleted    what waits.Of says
//	does not exist                              PodNotCreated, tried again; stalled after waits.Long
//
// The revision that is wanted of a pod is the update revision, below the partition the current revision.

// Reasons of waits of children, in the message of ChildStalled and ChildFailed.
const (
	// ReasonPodNotReplaced: a StatefulSet waits for a pod of an unwanted revision to be Ready before it replaces it.
	ReasonPodNotReplaced = "PodNotReplaced"
	// ReasonPodNotCreated: the controller of a StatefulSet cannot create a pod.
	ReasonPodNotCreated = "PodNotCreated"
)

// wait is what a child waits for.
type wait struct {
	// stalled: only a person ends it. failed: its controller tries again.
	stalled, failed *conditions.Cause
	// replace is the pod whose deletion ends it.
	replace *corev1.Pod
	// next is how long until the answer may be another one though nothing happens; 0: never.
	next time.Duration
}

func (w wait) found() bool { return w.stalled != nil || w.failed != nil || w.replace != nil }

// gatherWaits returns the pods of children whose controllers do not say what they wait for, also those that have ended
// or are being deleted. They are the cache's and must not be changed.
func (r *reconciler) gatherWaits(ctx context.Context, children []child) (map[types.UID][]*corev1.Pod, error) {
	pods := map[types.UID][]*corev1.Pod{}
	for i := range children {
		c := &children[i]
		if c.kind != statefulSetKind && !pastDeadline(c) {
			continue
		}
		found, err := r.allPodsOf(ctx, c)
		if err != nil {
			return nil, err
		}
		pods[c.object.GetUID()] = found
	}
	return pods, nil
}

// planWaits adds to the children what they wait for, and plans what ends a wait.
func (p *plan) planWaits(o *observed) {
	for i := range p.subsets {
		s := &p.subsets[i]
		if s.live == nil || s.settling {
			continue
		}
		limit, limited := o.limits[s.name]
		mayReplace := !o.budget.Expired && !(limited && resolved(limit).Paused)
		s.live = p.waitOf(o, s.live, mayReplace)
	}
	for i, c := range p.others {
		if !c.terminating() && seen(c, o.known) {
			p.others[i] = p.waitOf(o, c, false)
		}
	}
}

// waitOf returns the child with what it waits for.
func (p *plan) waitOf(o *observed, c *child, mayReplace bool) *child {
	var w wait
	since := times{floor: o.revisedAt(), unready: o.unreadySince(), now: o.now}
	pods, known := o.waiting[c.object.GetUID()]
	switch set, _ := c.object.(*appsv1.StatefulSet); {
	case !known:
	case set != nil:
		w = waitOfStatefulSet(set, c.replicas, pods, mayReplace, since)
	default:
		w.stalled = deadlineOf(c, pods)
	}
	if w.replace != nil {
		p.replace = append(p.replace, w.replace)
		p.sooner(askForPods) // until it is gone: it may have changed since it was seen
	}
	p.sooner(w.next)
	told := *c
	told.stalled, told.failed = cmp.Or(w.stalled, c.stalled), cmp.Or(w.failed, c.failed)
	return &told
}

// revisedAt is when the template changed last. No wait is counted from before, because controllers, and a hub that
// grants in steps, need a moment for a new template.
func (o *observed) revisedAt() time.Time {
	if o.ud.Status.UpdatedRevision != o.revision {
		return o.now
	}
	for i := range o.ud.Status.Conditions {
		if c := &o.ud.Status.Conditions[i]; c.Type == kruise.UnitedDeploymentUpdated {
			return c.LastTransitionTime.Time
		}
	}
	return o.now
}

// unreadySince is since when the UnitedDeployment is not Ready.
func (o *observed) unreadySince() time.Time {
	for i := range o.ud.Status.Conditions {
		if c := &o.ud.Status.Conditions[i]; c.Type == kruise.ConditionReady && c.Status != corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return o.now
}

// times are what waits are counted from.
type times struct{ floor, unready, now time.Time }

// waitOfStatefulSet returns what the StatefulSet of n pods waits for. Its controller has seen its newest generation.
func waitOfStatefulSet(set *appsv1.StatefulSet, n int32, pods []*corev1.Pod, mayReplace bool, t times) wait {
	var own, beyond []*corev1.Pod
	for _, pod := range pods {
		if at := position(set, pod); at >= 0 && at < int64(n) {
			own = append(own, pod)
		} else {
			beyond = append(beyond, pod)
		}
	}
	slices.SortFunc(own, func(a, b *corev1.Pod) int { return cmp.Compare(position(set, a), position(set, b)) })
	var first wait
	gap := int64(0) // the first position without a pod, as far as the pods were looked at
	for _, pod := range own {
		at := position(set, pod)
		if at != gap && inOrder(set) {
			break
		}
		if at == gap {
			gap++
		}
		if pod.DeletionTimestamp == nil && podstate.Ready(pod) {
			continue
		}
		w := waitOfPod(set, at, pod, mayReplace, t)
		first.next = podstate.Sooner(first.next, w.next)
		if w.found() || inOrder(set) {
			w.next = first.next
			return w
		}
	}
	if gap < int64(n) {
		w := missing(set, gap, pods, t)
		w.next = podstate.Sooner(first.next, w.next)
		return w
	}
	w := scaleIn(set, beyond, t)
	w.next = podstate.Sooner(first.next, w.next)
	return w
}

// inOrder reports whether one pod that is not Ready keeps the controller from everything else.
func inOrder(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

// position returns the place of a pod in the order in which pods are made, from 0. It is negative for a pod that the
// StatefulSet is not to have.
func position(set *appsv1.StatefulSet, pod *corev1.Pod) int64 {
	ordinal, ok := ordinalOf(pod)
	switch {
	case !ok:
		return -1
	case set.Spec.Ordinals != nil:
		return ordinal - int64(set.Spec.Ordinals.Start)
	}
	return ordinal
}

// waitOfPod returns the wait for a pod that is not Ready, or is being deleted.
func waitOfPod(set *appsv1.StatefulSet, at int64, pod *corev1.Pod, mayReplace bool, t times) wait {
	unwanted, kept := unwantedRevision(set, at, pod)
	// With Parallel the controller replaces such pods by itself, unless it counts them against a maxUnavailable.
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	blocks := inOrder(set) || kept || rolling != nil && rolling.MaxUnavailable != nil
	switch {
	case pod.DeletionTimestamp != nil || podstate.Ended(pod) || !unwanted || !blocks:
		return counted(waits.Of(pod), t)
	case !kept && waits.NeverReady(pod):
		if !mayReplace {
			return wait{}
		}
		return wait{replace: pod}
	}
	return counted(notReplaced(pod, "a StatefulSet replaces it only once it is Ready"), t)
}

// unwantedRevision reports whether the pod has another revision than the one that it is to have, and whether the
// partition or the strategy OnDelete keeps it.
func unwantedRevision(set *appsv1.StatefulSet, at int64, pod *corev1.Pod) (unwanted, kept bool) {
	revision := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return revision != set.Status.UpdateRevision, true
	}
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling != nil && rolling.Partition != nil && at < int64(*rolling.Partition) {
		return revision != set.Status.CurrentRevision, true
	}
	return revision != set.Status.UpdateRevision, false
}

func notReplaced(pod *corev1.Pod, why string) *waits.Wait {
	problem, patience := "it is not Ready", waits.Long
	if failing := waits.Failing(pod); failing != "" {
		problem, patience = failing, waits.Soon
	} else if of := waits.Of(pod); of != nil {
		patience = of.Patience
	}
	return waits.New(ReasonPodNotReplaced, waits.NotReadySince(pod), patience,
		"pod %s has an unwanted revision, %s, and %s: kubectl delete pod %s -n %s",
		pod.Name, problem, why, pod.Name, pod.Namespace)
}

// missing returns the wait for a pod that the controller has not created. While pods are created its status and the
// cache differ.
func missing(set *appsv1.StatefulSet, at int64, pods []*corev1.Pod, t times) wait {
	if set.Status.Replicas != int32(len(pods)) {
		return wait{next: askForPods}
	}
	since := t.unready
	for _, pod := range pods {
		if ready := podstate.Condition(pod, corev1.PodReady); ready != nil {
			available := ready.LastTransitionTime.Add(time.Duration(set.Spec.MinReadySeconds) * time.Second)
			since = latest(since, available)
		}
	}
	w := waits.New(ReasonPodNotCreated, since, waits.Soon,
		"pod %s is not created: a quota, an admission webhook or its claim refuses it; see the events: "+
			"kubectl describe statefulset %s -n %s", podName(set, at), set.Name, set.Namespace)
	if left := w.Left(t.floor, t.now); left > 0 {
		return wait{next: left}
	}
	out := wait{failed: &w.Cause}
	w.Patience = waits.Long
	if out.next = w.Left(t.floor, t.now); out.next == 0 {
		out.stalled, out.failed = out.failed, nil
	}
	return out
}

// scaleIn returns the wait for pods beyond the number. The highest goes first, and with OrderedReady only if it is
// Ready or all others are.
func scaleIn(set *appsv1.StatefulSet, beyond []*corev1.Pod, t times) wait {
	const why = "a StatefulSet that has several pods that are not Ready removes it only once it is Ready"
	slices.SortFunc(beyond, func(a, b *corev1.Pod) int { return cmp.Compare(position(set, b), position(set, a)) })
	unready := 0
	for _, pod := range beyond {
		if pod.DeletionTimestamp != nil || !podstate.Ready(pod) {
			unready++
		}
	}
	var first wait
	for i, pod := range beyond {
		var w wait
		switch {
		case pod.DeletionTimestamp != nil:
			w = counted(waits.Of(pod), t)
		case i == 0 && unready > 1 && inOrder(set) && !podstate.Ready(pod):
			w = counted(notReplaced(pod, why), t)
		}
		first.next = podstate.Sooner(first.next, w.next)
		if w.found() || inOrder(set) {
			w.next = first.next
			return w
		}
	}
	return first
}

// counted returns the wait once it counts.
func counted(w *waits.Wait, t times) wait {
	if w == nil {
		return wait{}
	}
	if left := w.Left(t.floor, t.now); left > 0 {
		return wait{next: left}
	}
	return wait{stalled: &w.Cause}
}

// onDelete reports whether pods get a new revision only when a person deletes them. Nothing waits for that.
func onDelete(ud *kruise.UnitedDeployment) bool {
	switch t := ud.Spec.Template; {
	case t.CloneSetTemplate != nil:
		return t.CloneSetTemplate.Spec.UpdateStrategy.Type == kruise.OnDeleteCloneSetUpdateStrategyType
	case t.StatefulSetTemplate != nil:
		return t.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	case t.AdvancedStatefulSetTemplate != nil:
		return t.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	}
	return false
}

// pastDeadline reports whether the child is a Deployment whose progressDeadlineSeconds have passed.
func pastDeadline(c *child) bool {
	d, ok := c.object.(*appsv1.Deployment)
	if !ok || !c.observed || d.Spec.Paused {
		return false
	}
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == deadlineExceeded
	})
}

// deadlineExceeded is the published reason of a Deployment past its deadline; CloneSets have the same.
const deadlineExceeded = "ProgressDeadlineExceeded"

// deadlineOf says what holds up a child that is past its deadline: what its controller failed with, else the first pod
// that waits, by its name.
func deadlineOf(c *child, pods []*corev1.Pod) *conditions.Cause {
	cause := &conditions.Cause{Reason: deadlineExceeded}
	if c.failed != nil {
		cause.Message = fmt.Sprintf("its pods cannot be created: %s: %s", c.failed.Reason, c.failed.Message)
		return cause
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		if w := waits.Of(pod); w != nil && pod.DeletionTimestamp == nil {
			cause.Message = w.Reason + ": " + w.Message
			return cause
		}
	}
	cause.Message = fmt.Sprintf("its pods are not available within progressDeadlineSeconds; correct the template, "+
		"or take the change back: kubectl describe deployment %s -n %s", c.object.GetName(), c.object.GetNamespace())
	return cause
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// replacePod deletes a pod that its StatefulSet does not replace, unless it changed since it was seen.
func (r *reconciler) replacePod(ctx context.Context, ud *kruise.UnitedDeployment, pod *corev1.Pod) error {
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := r.Client.Delete(ctx, target, client.Preconditions{UID: new(pod.UID), ResourceVersion: new(pod.ResourceVersion)})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the next pass looks again
	}
	if err != nil {
		return fmt.Errorf("delete pod %s, which its StatefulSet does not replace: %w", client.ObjectKeyFromObject(pod), err)
	}
	r.Events.Eventf(ud, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Delete",
		"deleted pod %s: it has an unwanted revision and never was Ready, and its StatefulSet does not replace it", pod.Name)
	return nil
}
