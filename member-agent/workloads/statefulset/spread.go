package statefulset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Spread is the WorkloadSpread that says in which subsets new pods start.
type Spread struct {
	Object *v1beta1.WorkloadSpread
	// Rule is what Object means for the StatefulSet.
	Rule spread.Rule
	// Selector is how the StatefulSet finds its pods.
	Selector labels.Selector
}

// spread returns the WorkloadSpread that rules the StatefulSet; nil without one, or if it cannot be used, which its
// controller reports.
func (r *Reconciler) spread(ctx context.Context, s *scope, selector labels.Selector) *Spread {
	ws := r.ruling(ctx, s.Key)
	if ws == nil {
		return nil
	}
	rule, err := spread.Resolve(ws, s.facts.Limits.Replicas)
	if err != nil {
		return nil
	}
	return &Spread{Object: ws, Rule: rule, Selector: selector}
}

// stampKey names a stamped template.
type stampKey struct{ revision, subset string }

// stamp returns the revision as the pod at this position among the ordinals gets it: with what its subset adds to the
// template. If the subset's patch cannot be merged, or would make the StatefulSet lose its pods, the pod starts in no
// subset, and the controller of WorkloadSpreads reports it.
func (p *planner) stamp(revision workload.Revision, position int) workload.Revision {
	template := revision.Template
	if p.Spread == nil || !p.Spread.Rule.Selects(&corev1.Pod{ObjectMeta: template.ObjectMeta}) {
		return revision
	}
	subset, _ := p.Spread.Rule.PickOrdinal(int32(position))
	key := stampKey{revision.Name, subset}
	if p.stamped[key] == nil {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		if err := spread.Stamp(pod, p.Spread.Object, subset, p.Spread.Selector); err == nil {
			template = &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		}
		p.stamped[key] = template
	}
	revision.Template = p.stamped[key]
	return revision
}
