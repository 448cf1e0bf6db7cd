package cloneset

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

func (p *planner) updatePolicy() v1beta1.PodUpdatePolicyType {
	if rolling := p.CloneSet.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.PodUpdatePolicy != "" {
		return rolling.PodUpdatePolicy
	}
	return v1beta1.ReCreatePodUpdatePolicy
}

func (p *planner) onDelete() bool {
	return p.CloneSet.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType
}

func (p *planner) paused() bool {
	rolling := p.CloneSet.Spec.UpdateStrategy.RollingUpdate
	return rolling != nil && rolling.Paused
}

// policy reports whether pods may move between revisions, and whether all of them can do so in place.
func (p *planner) policy() (mayUpdate, allInPlace bool, err error) {
	mayUpdate = !p.onDelete() && !p.paused() && !p.Budget.Expired
	policy := p.updatePolicy()
	if policy == v1beta1.ReCreatePodUpdatePolicy {
		return mayUpdate, false, nil
	}
	allInPlace = true
	for _, side := range []struct {
		from *bucket
		to   workload.Revision
	}{{&p.old, p.Update}, {&p.new, p.Current}} {
		field, err := p.refusal(side.from, side.to)
		if err != nil {
			return false, false, err
		}
		if field == "" {
			continue
		}
		allInPlace = false
		if policy == v1beta1.InPlaceOnlyPodUpdatePolicy && !p.onDelete() {
			mayUpdate = false
			p.plan.Stalled = workload.InPlaceImpossible(field)
			p.plan.Sooner(p.moves.Again())
		}
	}
	return mayUpdate, allInPlace, nil
}

// refusal returns a field that keeps a pod of the bucket from coming to a revision in place, or "".
func (p *planner) refusal(b *bucket, to workload.Revision) (string, error) {
	last, alike := "", false // pods of one revision come in a row, nearly always
	for _, list := range [][]*corev1.Pod{b.available, b.unavailable, b.busy} {
		for _, pod := range list {
			label := pod.Labels[podset.LabelRevision]
			if label == last && alike {
				continue
			}
			v, err := p.moves.Of(pod, to)
			last, alike = label, label != "" && len(v.Change.Environment) == 0
			if err != nil || v.Refusal != "" {
				return v.Refusal, err
			}
		}
	}
	return "", nil
}
