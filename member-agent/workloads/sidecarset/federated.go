package sidecarset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// Reporting is what reports to a hub ask about SidecarSets. An order is observed by its sequence, because a budget
// alone does not change the generation.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			set, err := workload.Decode(live, &v1beta1.SidecarSet{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.SidecarSetUse(&set.Status)}, nil
		},
		Observed: func(live *unstructured.Unstructured) bool {
			return workload.Observed(live) && workload.ObservedSequence(live)
		},
	}
}

// grant returns what a hub grants, nil where the limits of the spec hold.
func (s *scope) grant() *rollout.Grant {
	amounts := s.Budget.Amounts
	if amounts == nil {
		return nil
	}
	return &rollout.Grant{Updated: amounts.Updated, Unavailable: amounts.Unavailable}
}

// paused reports whether the user or the hub pauses the update.
func (s *scope) paused() bool { return s.Budget.Paused(s.set.Spec.UpdateStrategy.Paused) }

// toUpdate returns how many pods are to get the current revision, as far as the hub lets them.
func (s *scope) toUpdate() int32 {
	c := s.plan.Counts
	wanted := c.Matched - c.NotUpdatable
	if grant := s.grant(); grant != nil {
		wanted = min(wanted, grant.Updated)
	}
	return max(wanted-c.Updated, 0)
}

// silent returns why no pod is updated while the hub is out of contact, nil where nothing waits for it.
func (s *scope) silent() *conditions.Cause {
	if !s.Budget.Expired || s.toUpdate() == 0 {
		return nil
	}
	return &conditions.Cause{Reason: conditions.ReasonHubSilent, Message: fmt.Sprintf("%d pods are to be updated; the "+
		"hub was not in contact for 40 s, so no pod is updated until it is again: look at the agent's way to the hub",
		s.toUpdate())}
}
