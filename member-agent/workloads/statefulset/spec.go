package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// rollingOf returns the limits of a rolling update with what is the default where nothing is set, as in objects that
// were stored before the schema had defaults.
func rollingOf(set *v1beta1.StatefulSet) v1beta1.RollingUpdateStatefulSetStrategy {
	out := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSetStrategy{})
	if out.PodUpdatePolicy == "" {
		out.PodUpdatePolicy = v1beta1.ReCreatePodUpdatePolicy
	}
	return out
}

// strategy translates the spec for package budget.
func strategy(set *v1beta1.StatefulSet) budget.Strategy {
	rolling := rollingOf(set)
	out := budget.Strategy{
		Defaults:       budget.Defaults{MaxUnavailable: new(intstr.FromInt32(1)), RoundDown: true},
		MaxUnavailable: rolling.MaxUnavailable, Paused: rolling.Paused,
	}
	if rolling.Partition != nil {
		out.Partition = new(intstr.FromInt32(*rolling.Partition))
	}
	if set.Spec.ScaleStrategy != nil {
		out.ScaleMaxUnavailable = set.Spec.ScaleStrategy.MaxUnavailable
	}
	return out
}

// claimSet names the StatefulSet to package volumes.
func claimSet(set *v1beta1.StatefulSet) volumes.Set {
	out := volumes.Set{Identity: volumes.ByOrdinal, Object: set, Kind: v1beta1.StatefulSetKind,
		Templates: set.Spec.VolumeClaimTemplates}
	if set.Spec.Selector != nil {
		out.Labels = set.Spec.Selector.MatchLabels
	}
	if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		out.Retention.WhenDeleted = policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		out.Retention.WhenScaled = policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return out
}

func (f *Facts) hooks() *v1beta1.Lifecycle { return f.Set.Spec.Lifecycle }

// inOrder reports whether pods are created and deleted one by one.
func (f *Facts) inOrder() bool {
	return oneByOne(f.Set)
}

// oneByOne reports whether a StatefulSet creates and deletes its pods one after the other.
func oneByOne(set *v1beta1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

func (f *Facts) onDelete() bool {
	return f.Set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
}

// resizes reports whether claims grow with the update of their pods.
func (f *Facts) resizes() bool {
	return f.Set.Spec.VolumeClaimUpdateStrategy.Type == v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType &&
		!f.onDelete()
}

// rolling returns the limits of a rolling update; the zero value has the defaults.
func (f *Facts) rolling() v1beta1.RollingUpdateStatefulSetStrategy { return rollingOf(f.Set) }
