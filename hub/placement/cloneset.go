package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func readCloneSet(o client.Object) (Workload, *Refusal) {
	cs := o.(*apps.CloneSet)
	w := newWorkload(cs, apps.CloneSetKind, cs.Spec.Replicas)
	if err := cs.Spec.Template.Err(field.NewPath("spec", "template")); err != nil {
		return w, undecodable(w.Key, err)
	}
	if refusal := checkSelector(w.Key, cs.Spec.Selector, cs.Spec.Template.Labels); refusal != nil {
		return w, refusal
	}
	var refusal *Refusal
	if w.Template, w.Kept, refusal = keptOf(w.Key, cs.Spec.Template.PodTemplateSpec, cs.Spec.RevisionHistoryLimit); refusal != nil {
		return w, refusal
	}
	rolling := cs.Spec.UpdateStrategy.RollingUpdate
	if cs.Spec.UpdateStrategy.Type == apps.OnDeleteCloneSetUpdateStrategyType {
		rolling = nil // the type does not use it
	}
	limits, refusal := readLimits(w.Key, "spec.updateStrategy.rollingUpdate", rolling)
	if refusal != nil {
		return w, refusal
	}
	w.Revision, w.Open, w.Needs = history.Hash(w.Template, nil), true, NeedsOf(&cs.Spec.Template.PodTemplateSpec)
	w.Requests = requestsOf(&cs.Spec.Template.PodTemplateSpec)
	w.Paused = rolling != nil && rolling.Paused
	w.Subsets = []Subset{{Amounts: limits}}
	if len(cs.Spec.ScaleStrategy.PodsToDelete) > 0 {
		w.Remarks = append(w.Remarks, "scaleStrategy.podsToDelete is not carried to members yet; set the label "+apps.LabelSpecifiedDelete+" on the pods in their member")
	}
	w.Remarks = append(w.Remarks, remarkOnScale("scaleStrategy", &cs.Spec.ScaleStrategy)...)
	return w, nil
}

// undecodable rejects a workload whose template cannot be decoded.
func undecodable(key wire.Key, err error) *Refusal {
	return &Refusal{InvalidTemplate, fmt.Sprintf("the template of %s cannot be used: %v", key.Sentence(), err)}
}

// remarkOnScale tells of a number that is not divided. A percentage means the same in each member but for the rounding.
func remarkOnScale(path string, strategy *apps.CloneSetScaleStrategy) []string {
	limit := strategy.MaxUnavailable
	if limit == nil || limit.Type != intstr.Int {
		return nil
	}
	return []string{fmt.Sprintf("%s.maxUnavailable %d is not divided yet; it holds in each member", path, limit.IntVal)}
}

// revisionOf returns the hash of a pod template, by meaning, and of the texts that change it.
func revisionOf(key wire.Key, template corev1.PodTemplateSpec, patches ...[]byte) (string, *Refusal) {
	data, err := history.Canonical(template)
	if err != nil {
		return "", &Refusal{InvalidTemplate, fmt.Sprintf("the pod template of %s cannot be read: %v; correct it", key.Sentence(), err)}
	}
	for _, patch := range patches {
		data = append(append(data, '\n'), patch...)
	}
	return history.Hash(data, nil), nil
}

// readLimits returns the limits of a CloneSet's rolling update for n replicas, by the rules of the kind. The strategy is
// resolved once here, to refuse what can never be resolved; percentages are resolved anew for each n.
func readLimits(key wire.Key, path string, rolling *apps.RollingUpdateCloneSetStrategy) (func(n int32) lending.Amounts, *Refusal) {
	var strategy budget.Strategy
	if rolling != nil {
		strategy.Partition, strategy.MaxUnavailable, strategy.MaxSurge = rolling.Partition, rolling.MaxUnavailable, rolling.MaxSurge
	}
	if _, err := budget.Resolve(strategy, 1); err != nil {
		return nil, &Refusal{InvalidAmount, fmt.Sprintf("%s of %s: %v", path, key.Sentence(), err)}
	}
	return func(n int32) lending.Amounts {
		// The error was refused above; it does not depend on n.
		limits, _ := budget.Resolve(strategy, n)
		return lending.Amounts{Update: n - limits.Partition, Break: limits.MaxUnavailable, Add: limits.MaxSurge}
	}, nil
}
