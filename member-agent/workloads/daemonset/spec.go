package daemonset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
)

// defaultBurst is the published default of burstReplicas.
const defaultBurst = 250

// rollingOf returns the limits of a rolling update; the zero value has the defaults.
func rollingOf(set *v1beta1.DaemonSet) v1beta1.RollingUpdateDaemonSet {
	return ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateDaemonSet{})
}

// hooksOf returns the hooks that a DaemonSet has: preDelete alone.
func hooksOf(set *v1beta1.DaemonSet) *v1beta1.Lifecycle {
	if set.Spec.Lifecycle == nil {
		return nil
	}
	return &v1beta1.Lifecycle{PreDelete: set.Spec.Lifecycle.PreDelete}
}

// limits returns what one decision may do for so many nodes that should run the pod. The amounts that a hub grants hold
// in place of the spec's. The error names the field.
func (f *Facts) limits(desired int32) (pernode.Limits, error) {
	spec, rolling := &f.Set.Spec, rollingOf(f.Set)
	limits, err := budget.PerNode{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
		MaxSurge: rolling.MaxSurge}.Resolve(desired)
	if err != nil {
		return pernode.Limits{}, fmt.Errorf("updateStrategy.rollingUpdate.%w", err)
	}
	burst := ptr.Deref(spec.BurstReplicas, intstr.FromInt32(defaultBurst))
	most, err := budget.Scaled(burst, desired, budget.Down)
	if err != nil {
		return pernode.Limits{}, fmt.Errorf("burstReplicas %w", err)
	}
	if most == 0 && burst.String() != "0" && burst.String() != "0%" {
		most = 1 // a percentage of few nodes
	}
	limits = f.Budget.Limits(limits)
	return pernode.Limits{
		Updated: int(limits.Replicas - limits.Partition), Unavailable: int(limits.MaxUnavailable),
		Surge: int(limits.MaxSurge), Burst: int(most), Manual: f.onDelete(), Paused: f.paused() || f.Budget.Expired,
		OnlyUpdated: spec.ScaleStrategy != nil && spec.ScaleStrategy.PartitionedScaling,
	}, nil
}
