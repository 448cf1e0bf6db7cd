package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// remains are what is left of the hub's in a member.
type remains struct {
	// by are the workloads with pods there, pods their sum.
	by   []kinds.Pods
	pods int32
	// works and placements are the orders, and the workloads with replicas there.
	works, placements int
}

// leave drains the member of the Cluster and ends its membership. The verdict is nil once it has left, which is told
// already.
func (r *Reconciler) leave(ctx context.Context, f *facts) (*verdict, error) {
	if err := r.fence(ctx, f); err != nil {
		return nil, err
	}
	member, ours := f.named()
	if ours {
		v, err := r.empty(ctx, f, member)
		if v != nil || err != nil {
			return v, err
		}
		if err := r.hub.Delete(ctx, member, client.Preconditions{UID: &member.UID}); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete MemberCluster %s: %w", member.Name, err)
		}
	}
	if ours || member == nil {
		left, err := registration.Forget(ctx, r.hub, f.name())
		if err != nil {
			return nil, err
		}
		if left > 0 {
			return told(topology.ReasonMemberDraining, "it is no member any more, and %d orders for it are being removed", left),
				nil
		}
	}
	r.uninstall(ctx, f, ours || member == nil)
	if err := r.hooks(ctx, f, true); err != nil {
		return nil, err
	}
	if err := r.report(ctx, f, told(topology.ReasonMemberLeft, "it is no member any more")); err != nil {
		return nil, err
	}
	if err := r.managementLive.Get(ctx, client.ObjectKeyFromObject(f.cluster), f.cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	base := f.cluster.DeepCopy()
	controllerutil.RemoveFinalizer(f.cluster, topology.ClusterFinalizer)
	delete(f.cluster.Annotations, topology.AnnotationJoinedAs)
	return nil, r.patchCluster(ctx, f, base)
}

// empty moves what runs in the member elsewhere. The verdict is nil once nothing of the hub's is there, or its time is
// over.
func (r *Reconciler) empty(ctx context.Context, f *facts, member *topology.MemberCluster) (*verdict, error) {
	since, err := r.drain(ctx, f, member)
	if err != nil {
		return nil, err
	}
	timeout, remark := f.timeout(r.options.DrainTimeout)
	left, err := r.remains(ctx, member.Name)
	if err != nil {
		return nil, err
	}
	until := since.Add(timeout)
	over := !f.now.Before(until) || f.nothingRuns(member)
	if !over && left.pods+int32(left.placements) > 0 {
		return told(topology.ReasonMemberDraining, "%s; its machines are kept until then, at most until %s%s",
			left.sentence(), until.UTC().Format(time.RFC3339), remark), nil
	}
	if left.works > 0 && over {
		if err := registration.Preserve(ctx, r.hub, member.Name); err != nil {
			return nil, err
		}
		if left.pods > 0 {
			r.events.Eventf(
				f.cluster,
				nil,
				corev1.EventTypeWarning,
				"DrainTimedOut",
				"Leave",
				"the drain of the member %s ended after %s: %s",
				member.Name,
				timeout,
				left.sentence(),
			)
		}
		return nil, nil
	}
	if left.works > 0 {
		return told(topology.ReasonMemberDraining, "its workloads run elsewhere, and its agent removes the %d objects that "+
				"are left, at most until %s%s", left.works, until.UTC().Format(time.RFC3339), remark),
			registration.Dismiss(ctx, r.hub, member.Name)
	}
	return nil, nil
}

// drain taints the member as flotilla drain does, unless that is done, and returns since when it leaves.
func (r *Reconciler) drain(ctx context.Context, f *facts, member *topology.MemberCluster) (time.Time, error) {
	since, err := time.Parse(time.RFC3339, member.Annotations[topology.AnnotationLeavingSince])
	tainted := slices.ContainsFunc(member.Spec.Taints, drains)
	if err == nil && tainted {
		return since, nil
	}
	base := member.DeepCopy()
	if err != nil {
		since = f.now
		metav1.SetMetaDataAnnotation(&member.ObjectMeta, topology.AnnotationLeavingSince, since.UTC().Format(time.RFC3339))
	}
	if !tainted {
		member.Spec.Taints = append(
			member.Spec.Taints,
			corev1.Taint{Key: topology.TaintDrain, Effect: corev1.TaintEffectNoExecute},
		)
	}
	// The taints are written whole: those that somebody else set meanwhile must not get lost.
	if err := r.hub.Patch(ctx, member, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		manager); err != nil {
		return since, fmt.Errorf("drain MemberCluster %s: %w", member.Name, err)
	}
	return since, nil
}

// remains returns what is left of the hub's in a member.
func (r *Reconciler) remains(ctx context.Context, name string) (*remains, error) {
	list := &work.WorkList{}
	if err := r.hub.List(ctx, list, client.InNamespace(wire.MemberNamespace(name))); err != nil {
		return nil, fmt.Errorf("list Works of MemberCluster %s: %w", name, err)
	}
	works, workloads, err := registration.Orders(ctx, r.hub, name)
	if err != nil {
		return nil, err
	}
	left := &remains{works: works, placements: len(workloads)}
	left.by, left.pods = kinds.Workloads().PodsOf(list.Items)
	left.by = slices.DeleteFunc(left.by, func(p kinds.Pods) bool { return p.Schedule }) // a placement names it
	return left, nil
}

// sentence tells of what is left in a member.
func (l *remains) sentence() string {
	if l.pods == 0 {
		return fmt.Sprintf("%d workloads have replicas there that no other member takes, and no pods", l.placements)
	}
	const most = 5
	var of []string
	for _, p := range l.by[:min(len(l.by), most)] {
		of = append(of, fmt.Sprintf("%s: %d", p.Key.Sentence(), p.Count))
	}
	if len(l.by) > most {
		of = append(of, "…")
	}
	return fmt.Sprintf("%d pods are left to move elsewhere (%s)", l.pods, strings.Join(of, ", "))
}

// timeout is how long the drain of a Cluster may take, with a remark where what it says of that cannot be read.
func (f *facts) timeout(otherwise time.Duration) (timeout time.Duration, remark string) {
	text, says := f.cluster.Annotations[topology.AnnotationDrainTimeout]
	if !says {
		return otherwise, ""
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout < 0 {
		return otherwise, fmt.Sprintf(
			"; the annotation %s %q is no duration such as 45m, so the default of %s counts",
			topology.AnnotationDrainTimeout,
			text,
			otherwise,
		)
	}
	return timeout, ""
}

// nothingRuns tells whether the member is not heard of and has no machines any more: there is nothing to wait for.
func (f *facts) nothingRuns(member *topology.MemberCluster) bool {
	ready := meta.FindStatusCondition(member.Status.Conditions, topology.MemberReady)
	fence := member.Spec.Fence
	return ready != nil && ready.Status != metav1.ConditionTrue && fence != nil &&
		fence.LostSince.Equal(&ready.LastTransitionTime)
}

// uninstall removes the agent from a cluster that stays. One that does not answer keeps it: its credentials are void.
func (r *Reconciler) uninstall(ctx context.Context, f *facts, ours bool) {
	if f.cluster.DeletionTimestamp != nil || !ours {
		return
	}
	there, v, err := r.reach(ctx, f)
	if err == nil && v == nil {
		err = there.Uninstall(ctx)
	}
	if v != nil {
		err = errors.New(v.message)
	}
	if err != nil {
		log.FromContext(ctx).Info("The agent stays in a cluster that left", "cluster", id(f.cluster), "because", err.Error())
		r.events.Eventf(
			f.cluster,
			nil,
			corev1.EventTypeWarning,
			"AgentLeft",
			"Leave",
			"the agent is left in the cluster, with no rights on the hub: %v",
			err,
		)
	}
}
