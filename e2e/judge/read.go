package judge

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// ReadPod reads a version of a pod; gone is its last one.
func ReadPod(pod *corev1.Pod, gone bool) *Pod {
	p := &Pod{UID: pod.UID, Name: pod.Name, Gone: gone, Active: podstate.Active(pod) && !gone,
		Image: pod.Spec.Containers[0].Image, Sidecar: sidecarOf(pod)}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		p.Owner = owner.UID
	}
	p.Ended = podstate.Ended(pod)
	// what is written there is when the pod is to be gone; a later delete may shorten that
	if at := pod.DeletionTimestamp; at != nil {
		p.Deleted = at.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	gate := podstate.Condition(pod, apps.InPlaceUpdateReady)
	p.Updating = gate != nil && gate.Status != corev1.ConditionTrue || RunsOldImage(pod)
	gate = podstate.Condition(pod, podready.Condition)
	_, marked := pod.Labels[apps.LabelRestarting]
	p.Restarting = gate != nil && gate.Status != corev1.ConditionTrue || marked && !podstate.Ready(pod)
	if ready := podstate.Condition(pod, corev1.PodReady); ready != nil {
		p.Ready = podstate.Ready(pod) && !p.Updating && !p.Restarting && p.Active
		p.ReadySince = ready.LastTransitionTime.Time
	}
	return p
}

// RunsOldImage reports whether a container of the pod still runs an older image: only our controllers change images.
func RunsOldImage(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.Name && !strings.HasSuffix(s.Image, c.Image)
		})
	})
}

// ReadPlacement reads a version of a placement.
func ReadPlacement(p *topology.WorkloadPlacement) *Placement {
	out := &Placement{
		Workload: p.Spec.Workload.Name, Generation: p.Generation, Sequence: p.Spec.Sequence, Replicas: p.Spec.Replicas,
		Subsets: map[string]Subset{},
	}
	for i := range p.Spec.Limits {
		l := &p.Spec.Limits[i]
		out.Subsets[l.Subset] = Subset{
			Whole: true,
			Limit: lending.Amounts{Updated: l.Updated, Unavailable: l.Unavailable, Surge: l.Surge},
		}
	}
	for i := range p.Spec.Cells {
		c := &p.Spec.Cells[i]
		s := out.Subsets[c.Subset]
		s.Replicas += c.Replicas - c.Replaced
		s.Reserved.Updated += c.Reserved.Updated
		s.Reserved.Unavailable += c.Reserved.Unavailable
		s.Reserved.Surge += c.Reserved.Surge
		out.Subsets[c.Subset] = s
		out.Placed += c.Replicas - c.Replaced
	}
	for i := range p.Spec.Unplaced {
		u := &p.Spec.Unplaced[i]
		out.Unplaced += u.Replicas
		for name, s := range out.Subsets {
			if name == u.Subset || u.Subset == "" {
				s.Whole = false
				out.Subsets[name] = s
			}
		}
	}
	return out
}

// ReadMember reads a version of a MemberCluster.
func ReadMember(object client.Object) *Member {
	m := object.(*topology.MemberCluster)
	ready, fence := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady), m.Spec.Fence
	return &Member{
		Unreachable: meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberSilent),
		Fenced: fence != nil && ready != nil && ready.Status != metav1.ConditionTrue &&
			fence.LostSince.Equal(&ready.LastTransitionTime),
	}
}
