package kinds

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// CloneSet is the entry of CloneSets.
func CloneSet() Kind {
	const quarter = 25
	k := Kind{
		GroupVersionKind: apps.CloneSetKind,
		NewList:          func() client.ObjectList { return &apps.CloneSetList{} },
		Specs:            [][]string{nil},
		Spec:             func(string) map[string]any { return nil },
		MinReady:         minReady,
		Surges:           true,
		Desired: func(object client.Object) *judge.Desired {
			cs := object.(*apps.CloneSet)
			return desired(cs, cs.Spec.Replicas, &cs.Spec, nil)
		},
		Cell: func(object client.Object, gone bool) *judge.Cell { return cellOf(object.(*apps.CloneSet), gone) },
		Controller: Controller{
			Definition: "clonesets.apps.kruise.io",
			Setup: func(ctx context.Context, mgr ctrl.Manager) error {
				return cloneset.Add(ctx, &workload.Env{Manager: mgr})
			},
			Loosen: func(object client.Object) {
				if rolling := object.(*apps.CloneSet).Spec.UpdateStrategy.RollingUpdate; rolling != nil {
					loosen(rolling.MaxUnavailable)
				}
			},
			Strategies: strategies(),
		},
	}
	k.Partition = func(quarters int) map[string]any {
		return k.Rolling(map[string]any{"partition": fmt.Sprintf("%d%%", quarter*quarters)})
	}
	return k
}

func strategies() []Strategy {
	const inPlace, reCreate = apps.InPlaceIfPossiblePodUpdatePolicy, apps.ReCreatePodUpdatePolicy
	rolling := func(policy apps.PodUpdatePolicyType, unavailable, surge any) map[string]any {
		return map[string]any{"podUpdatePolicy": policy, "maxUnavailable": unavailable, "maxSurge": surge}
	}
	return []Strategy{
		{"in-place", rolling(inPlace, "20%", 0), []any{3, 8}},
		{"recreate", rolling(reCreate, 3, 0), []any{5}},
		{"surge", rolling(reCreate, 0, "25%"), []any{"50%"}},
		{"surge-in-place", rolling(inPlace, 1, 2), []any{"30%", "90%"}},
		{"percent", rolling(inPlace, "20%", "10%"), []any{"25%", "60%", "99%"}},
	}
}

// loosen doubles maxUnavailable.
func loosen(maxUnavailable *intstr.IntOrString) {
	if maxUnavailable == nil {
		return
	}
	maxUnavailable.IntVal *= 2
	if maxUnavailable.StrVal != "" {
		maxUnavailable.StrVal = "40%" // strategies have 20 %
	}
}

// minReady returns the change of spec that sets minReadySeconds of CloneSets.
func minReady(seconds int) map[string]any { return map[string]any{"minReadySeconds": int64(seconds)} }

func cellOf(cs *apps.CloneSet, gone bool) *judge.Cell {
	s := &judge.Cell{
		UID: cs.UID, Name: cs.Name, Of: judge.Place{Workload: cs.Name}, Observed: cs.Status.ObservedGeneration, Gone: gone,
		MinReady: time.Duration(cs.Spec.MinReadySeconds) * time.Second,
	}
	if owner := metav1.GetControllerOf(cs); owner != nil {
		s.Of = judge.Place{Workload: owner.Name, Subset: cs.Spec.Template.Labels[apps.LabelSubset]}
	}
	replicas := ptr.Deref(cs.Spec.Replicas, 1)
	s.Spec = judge.CellSpec{Generation: cs.Generation, Replicas: replicas}
	strategy := strategyOf(cs.Spec.UpdateStrategy.RollingUpdate)
	strategy.Paused = cs.Spec.UpdateStrategy.RollingUpdate != nil && cs.Spec.UpdateStrategy.RollingUpdate.Paused
	// What cannot be resolved permits nothing.
	if limits, err := budget.Resolve(strategy, replicas); err == nil {
		s.Spec.MaxUnavailable, s.Spec.MaxSurge = limits.MaxUnavailable, limits.MaxSurge
	}
	return s
}

func strategyOf(rolling *apps.RollingUpdateCloneSetStrategy) budget.Strategy {
	if rolling == nil {
		return budget.Strategy{}
	}
	return budget.Strategy{Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
		MaxSurge: rolling.MaxSurge}
}

// desired reads a user's object: the limits are those of spec, and the partitions of subsets those of manual, nil for a
// kind without subsets.
func desired(object client.Object, replicas *int32, spec *apps.CloneSetSpec, manual *apps.ManualUpdate) *judge.Desired {
	strategy := strategyOf(spec.UpdateStrategy.RollingUpdate)
	amounts := func(subset string, n int32) lending.Amounts {
		limits, err := budget.Resolve(strategy, n)
		if err != nil {
			return lending.Amounts{}
		}
		kept := limits.Partition
		if subset != "" {
			kept = 0
			if manual != nil {
				kept = min(max(manual.Partitions[subset], 0), n)
			}
		}
		return lending.Amounts{Updated: n - kept, Unavailable: limits.MaxUnavailable, Surge: limits.MaxSurge}
	}
	return &judge.Desired{Workload: object.GetName(), Generation: object.GetGeneration(), Replicas: ptr.Deref(replicas, 1),
		Amounts: amounts}
}
