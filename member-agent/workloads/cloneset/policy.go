package cloneset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// verdict is how pods of one revision come to another.
type verdict struct {
	change  inplace.Change
	refusal string
}

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
			p.plan.Stalled = inPlaceImpossible(field)
		}
	}
	return mayUpdate, allInPlace, nil
}

func inPlaceImpossible(field string) *conditions.Cause {
	return &conditions.Cause{Reason: "InPlaceImpossible", Message: fmt.Sprintf(
		"podUpdatePolicy is InPlaceOnly, but field %s of the template cannot be changed in running pods: change it back, "+
			"or use InPlaceIfPossible", field)}
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
			v, err := p.verdictOn(pod, to)
			last, alike = label, label != "" && len(v.change.Environment) == 0
			if err != nil || v.refusal != "" {
				return v.refusal, err
			}
		}
	}
	return "", nil
}

// verdictOn returns how this very pod comes to the revision to: whether a running container sees new metadata depends
// on who runs on its node.
func (p *planner) verdictOn(pod *corev1.Pod, to workload.Revision) (verdict, error) {
	v, err := p.verdict(pod, to)
	if err == nil && v.refusal == "" {
		v.refusal = v.change.Possible(pod)
	}
	return v, err
}

// verdict returns how the pod comes to the revision to. Pods of one revision share the answer.
func (p *planner) verdict(pod *corev1.Pod, to workload.Revision) (verdict, error) {
	label := pod.Labels[podset.LabelRevision]
	key := history.ShortName(label) + ">" + to.Hash
	if v, ok := p.changes[key]; ok {
		return v, nil
	}
	var v verdict
	stored := history.Named(p.Stored, label)
	switch {
	case stored == nil:
		// Without its revision nobody knows what the pod was made from.
		v.refusal = "metadata.labels[" + podset.LabelRevision + "]"
	case history.ShortHash(stored) == to.Hash:
	default:
		from, err := workload.RevisionOf(stored)
		if err != nil {
			return v, err
		}
		if v.change, v.refusal, err = inplace.Diff(from.Template, to.Template); err != nil {
			return v, fmt.Errorf("compare revisions %s and %s: %w", from.Name, to.Name, err)
		}
		if v.refusal == "" && p.NoResize {
			v.refusal = resized(v.change, to.Template)
		}
	}
	p.changes[key] = v
	return v, nil
}

// resized returns the first resources of the template that the change changes, or "".
func resized(change inplace.Change, template *corev1.PodTemplateSpec) string {
	for i := range template.Spec.Containers {
		if _, ok := change.Resources[template.Spec.Containers[i].Name]; ok {
			return fmt.Sprintf("spec.containers[%d].resources", i)
		}
	}
	return ""
}
