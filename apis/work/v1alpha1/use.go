package v1alpha1

import (
	"math"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

// CloneSetUse is what a CloneSet of a member uses of its share, by its status. desired is how many pods it asks for.
func CloneSetUse(desired int32, status *apps.CloneSetStatus) SubsetUse {
	return SubsetUse{
		Desired: desired,
		Total:   status.Replicas, Ready: status.ReadyReplicas, Available: status.AvailableReplicas,
		Updated: status.UpdatedReplicas, UpdatedReady: status.UpdatedReadyReplicas,
		UpdatedAvailable: status.UpdatedAvailableReplicas,
		CanGoBack:        status.CanGoBack(),
	}
}

// StatefulSetUse is what a StatefulSet of a member uses of its share, by its status. desired is how many pods it asks
// for. A higher partition brings no updated pod back.
func StatefulSetUse(desired int32, status *apps.StatefulSetStatus) SubsetUse {
	return SubsetUse{
		Desired: desired,
		Total:   status.Replicas, Ready: status.ReadyReplicas, Available: status.AvailableReplicas,
		Updated: status.UpdatedReplicas, UpdatedReady: status.UpdatedReadyReplicas,
		UpdatedAvailable: status.UpdatedAvailableReplicas,
	}
}

// UnitedDeploymentUse is what the subsets of a UnitedDeployment of a member use of their shares, by its status.
func UnitedDeploymentUse(status *apps.UnitedDeploymentStatus) []SubsetUse {
	uses := make([]SubsetUse, 0, len(status.SubsetStatuses))
	for i := range status.SubsetStatuses {
		s := &status.SubsetStatuses[i]
		old := max(0, s.Replicas-s.UpdatedReplicas)
		uses = append(uses, SubsetUse{
			Subset: s.Name, Desired: s.DesiredReplicas, Total: s.Replicas, Ready: s.ReadyReplicas,
			Available: s.AvailableReplicas,
			Updated:   s.UpdatedReplicas, UpdatedReady: s.UpdatedReadyReplicas,
			// An older definition of the kind does not count these. This many must be: even if all old pods are available.
			UpdatedAvailable: max(s.UpdatedAvailableReplicas, min(s.UpdatedReadyReplicas, max(0, s.AvailableReplicas-old))),
			CanGoBack:        s.CanGoBack,
		})
	}
	return uses
}

// ResourceDistributionUse is what a ResourceDistribution of a member uses: its copies count as pods.
func ResourceDistributionUse(status *apps.ResourceDistributionStatus) SubsetUse {
	return SubsetUse{Desired: status.Desired, Total: status.Succeeded, Ready: status.Succeeded,
		Available: status.Succeeded}
}

// PodProbeMarkerUse is what a PodProbeMarker of a member uses: nothing. The pods that it probes are those of other
// workloads, and it has no limits, so their number makes no order.
func PodProbeMarkerUse() SubsetUse { return SubsetUse{} }

// DaemonSetUse is what a DaemonSet of a member uses of its share, by its status. A pod of a node that gets another one
// beside it counts once as ready and available. Updated pods never go back.
func DaemonSetUse(status *apps.DaemonSetStatus) SubsetUse {
	var counts apps.DaemonSetNodeCounts
	if status.NodeCounts != nil {
		counts = *status.NodeCounts
	}
	return SubsetUse{
		Desired: status.DesiredNumberScheduled,
		Total:   status.CurrentNumberScheduled + counts.Surging,
		Ready:   status.NumberReady, Available: status.NumberAvailable,
		// Updated pods that are available are ready; how many more are ready is not counted.
		Updated: status.UpdatedNumberScheduled, UpdatedReady: counts.UpdatedAvailable,
		UpdatedAvailable: counts.UpdatedAvailable,
		NodeUse: NodeUse{
			Surging: counts.Surging, Withheld: counts.Withheld, NotUpdatable: counts.NotUpdatable,
			LostUnavailable: counts.LostUnavailable, LostOutdated: counts.LostOutdated,
		},
	}
}

// SidecarSetUse is what a SidecarSet of a member uses of its share, by its status. Pods that are ready count as
// available. Updated pods never go back.
func SidecarSetUse(status *apps.SidecarSetStatus) SubsetUse {
	return SubsetUse{
		Desired: status.MatchedPods, Total: status.MatchedPods, Ready: status.ReadyPods, Available: status.ReadyPods,
		Updated: status.UpdatedPods, UpdatedReady: status.UpdatedReadyPods, UpdatedAvailable: status.UpdatedReadyPods,
		NodeUse: NodeUse{NotUpdatable: status.NotUpdatablePods},
	}
}

// AdvancedCronJobUse is what an AdvancedCronJob of a member uses: one while it may start jobs, none while it is paused.
func AdvancedCronJobUse(spec *apps.AdvancedCronJobSpec) SubsetUse {
	if spec.Paused != nil && *spec.Paused {
		return SubsetUse{Desired: 1, NodeUse: NodeUse{Withheld: 1}}
	}
	return SubsetUse{Desired: 1, Total: 1, Ready: 1, Available: 1}
}

// BroadcastJobUse is what a BroadcastJob of a member uses of its share, by its status. Nodes count as pods: updated are
// those with a pod, and unavailable are those whose pod has not ended. Pods that leave other nodes count as desired.
func BroadcastJobUse(status *apps.BroadcastJobStatus) SubsetUse {
	var counts apps.BroadcastJobNodeCounts
	if status.NodeCounts != nil {
		counts = *status.NodeCounts
	}
	desired := max(status.Desired, counts.Active)
	return SubsetUse{
		Desired: desired, Total: desired, Ready: desired - counts.Active, Available: desired - counts.Active,
		Updated: counts.Touched, UpdatedReady: counts.Proven, UpdatedAvailable: counts.Proven,
	}
}

// ImagePullJobUse is what an ImagePullJob of a member uses of its share, by its status. Nodes count as pods: updated
// are those that were asked to pull, and unavailable are those that pull now.
func ImagePullJobUse(status *apps.ImagePullJobStatus) SubsetUse {
	ended := max(status.Succeeded, 0) + max(status.Failed, 0)
	active := max(status.Active, 0)
	desired := max(status.Desired, active+ended)
	return SubsetUse{
		Desired: desired, Total: desired, Ready: desired - active, Available: desired - active,
		Updated: active + ended, UpdatedReady: ended, UpdatedAvailable: ended,
	}
}

// PodUnavailableBudgetUse is what a PodUnavailableBudget of a member uses of its share, by its status. Pods that wait
// to become unavailable count as pods to update: what others do not use is lent to such a member.
func PodUnavailableBudgetUse(status *policy.PodUnavailableBudgetStatus) SubsetUse {
	total := max(status.TotalReplicas, 0)
	available := min(max(status.CurrentAvailable, 0), total)
	return SubsetUse{
		Desired: total, Total: total, Ready: available, Available: available,
		Updated: max(total-int32(min(len(status.WaitingPods), math.MaxInt16)), 0),
	}
}
