package placement

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func readUnitedDeployment(o client.Object) (Workload, *Refusal) {
	ud := o.(*apps.UnitedDeployment)
	w := newWorkload(ud, apps.UnitedDeploymentKind, ud.Spec.Replicas)
	if err := ud.Spec.Template.Err(field.NewPath("spec", "template")); err != nil {
		return w, undecodable(w.Key, err)
	}
	template, strategy, refusal := readTemplate(w.Key, &ud.Spec.Template)
	if refusal != nil {
		return w, refusal
	}
	if refusal := checkSelector(w.Key, ud.Spec.Selector, template.Labels); refusal != nil {
		return w, refusal
	}
	if len(ud.Spec.Topology.Subsets) == 0 {
		return w, &Refusal{InvalidSubsets, fmt.Sprintf("%s has no subsets; give spec.topology.subsets at least one", w.Key.Sentence())}
	}
	w.Requests = requestsOf(template)
	if t := ud.Spec.Template.CloneSetTemplate; t != nil {
		rolling := t.Spec.UpdateStrategy.RollingUpdate
		w.Paused = rolling != nil && rolling.Paused
	}
	if w.Template, w.Kept, refusal = keptOf(w.Key, ud.Spec.Template, ud.Spec.RevisionHistoryLimit); refusal != nil {
		return w, refusal
	}
	w.Unordered = ud.Spec.Template.CloneSetTemplate == nil
	var partitions map[string]int32
	if manual := ud.Spec.UpdateStrategy.ManualUpdate; manual != nil {
		partitions = manual.Partitions
	}
	if refusal := checkPartitions(w.Key, partitions, ud.Spec.Topology.Subsets); refusal != nil {
		return w, refusal
	}
	var patches, bare [][]byte
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		if wrong := wrongTerm("nodeSelectorTerm", &s.NodeSelectorTerm); wrong != "" {
			return w, &Refusal{InvalidSubsets, fmt.Sprintf("subset %q of %s: %s", s.Name, w.Key.Sentence(), wrong)}
		}
		if len(s.Patch.Raw) > 0 {
			bare = append(bare, s.Patch.Raw)
			patches = append(patches, append([]byte(s.Name+"="), s.Patch.Raw...))
		}
		stays := partitions[s.Name]
		if ud.Spec.Template.DeploymentTemplate != nil {
			stays = 0 // a Deployment has no partition
		}
		w.Subsets = append(w.Subsets, Subset{
			Subset: division.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas},
			Term:   s.NodeSelectorTerm,
			Amounts: func(n int32) lending.Amounts {
				a := strategy(n)
				a.Update = n - min(max(stays, 0), n)
				return a
			},
		})
	}
	readStrategy(&w, &ud.Spec.Topology.ScheduleStrategy)
	if t := ud.Spec.Template.CloneSetTemplate; t != nil {
		w.Remarks = append(w.Remarks, remarkOnScale("template.cloneSetTemplate.spec.scaleStrategy", &t.Spec.ScaleStrategy)...)
	}
	w.Needs = NeedsOf(template, bare...)
	w.Revision, refusal = revisionOf(w.Key, *template, patches...)
	return w, refusal
}

// readStrategy takes over the strategy Adaptive.
func readStrategy(w *Workload, s *apps.UnitedDeploymentScheduleStrategy) {
	if s.Type != apps.AdaptiveUnitedDeploymentScheduleStrategyType {
		return
	}
	w.Adaptive = &Adaptive{Critical: defaultCritical, Closed: defaultClosed}
	times := s.Adaptive
	if times == nil {
		return
	}
	if times.RescheduleCriticalSeconds != nil {
		w.Adaptive.Critical = max(time.Duration(*times.RescheduleCriticalSeconds)*time.Second, leastTime)
	}
	if times.UnschedulableDuration != nil {
		w.Adaptive.Closed = max(time.Duration(*times.UnschedulableDuration)*time.Second, leastTime)
	}
	if times.ReserveUnschedulablePods {
		w.Remarks = append(w.Remarks, "scheduleStrategy.adaptive.reserveUnschedulablePods is not carried out on the hub; pods that find no node move to other subsets")
	}
}

// checkPartitions refuses a partition of a subset that does not exist: it would be a slip of the pen that updates pods.
func checkPartitions(key wire.Key, partitions map[string]int32, subsets []apps.Subset) *Refusal {
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		if !slices.ContainsFunc(subsets, func(s apps.Subset) bool { return s.Name == name }) {
			return &Refusal{InvalidSubsets, fmt.Sprintf("spec.updateStrategy.manualUpdate.partitions of %s names subset %q, which does not exist; correct the name or remove the entry",
				key.Sentence(), name)}
		}
	}
	return nil
}

// readTemplate returns the pod template and the limits of the children, without Update.
func readTemplate(key wire.Key, t *apps.SubsetTemplate) (*corev1.PodTemplateSpec, func(int32) lending.Amounts, *Refusal) {
	switch {
	case t.CloneSetTemplate != nil:
		spec := &t.CloneSetTemplate.Spec
		limits, refusal := readLimits(key, "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate", spec.UpdateStrategy.RollingUpdate)
		return &spec.Template.PodTemplateSpec, limits, refusal
	case t.DeploymentTemplate != nil:
		spec := &t.DeploymentTemplate.Spec
		limits, refusal := readDeploymentLimits(key, &spec.Strategy)
		return &spec.Template, limits, refusal
	case t.StatefulSetTemplate != nil:
		spec := &t.StatefulSetTemplate.Spec
		limits, refusal := readStatefulSetLimits(key, &spec.UpdateStrategy)
		return &spec.Template, limits, refusal
	}
	given := "no template"
	if t.AdvancedStatefulSetTemplate != nil {
		given = "an advancedStatefulSetTemplate, whose kind the members do not run yet"
	}
	return nil, nil, &Refusal{UnsupportedTemplate, fmt.Sprintf("%s has %s; use statefulSetTemplate (apps/v1), cloneSetTemplate or deploymentTemplate", key.Sentence(), given)}
}

func readDeploymentLimits(key wire.Key, strategy *appsv1.DeploymentStrategy) (func(int32) lending.Amounts, *Refusal) {
	if strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return func(n int32) lending.Amounts { return lending.Amounts{Break: n} }, nil
	}
	quarter := new(intstr.FromString("25%")) // the Deployment's own default of both
	unavailable, surge := quarter, quarter
	if rolling := strategy.RollingUpdate; rolling != nil {
		if rolling.MaxUnavailable != nil {
			unavailable = rolling.MaxUnavailable
		}
		if rolling.MaxSurge != nil {
			surge = rolling.MaxSurge
		}
	}
	resolve := func(n int32) (lending.Amounts, error) {
		down, err := budget.Scaled(*unavailable, n, budget.Down)
		if err != nil {
			return lending.Amounts{}, fmt.Errorf("maxUnavailable %w", err)
		}
		up, err := budget.Scaled(*surge, n, budget.Up)
		if err != nil {
			return lending.Amounts{}, fmt.Errorf("maxSurge %w", err)
		}
		if down == 0 && up == 0 {
			down = 1 // with neither, no pod could ever be replaced
		}
		return lending.Amounts{Break: down, Add: up}, nil
	}
	if _, err := resolve(1); err != nil {
		return nil, &Refusal{InvalidAmount, fmt.Sprintf("spec.template.deploymentTemplate.spec.strategy.rollingUpdate of %s: %v", key.Sentence(), err)}
	}
	return func(n int32) lending.Amounts {
		// The error was refused above; it does not depend on n.
		amounts, _ := resolve(n)
		return amounts
	}, nil
}
