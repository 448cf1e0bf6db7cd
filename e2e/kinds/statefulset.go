package kinds

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/statefulset"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// StatefulSet is the entry of StatefulSets; new ones create and delete their pods in parallel.
func StatefulSet() Kind {
	const quarter = 3 // pods; the partition of a StatefulSet is a number
	k := Kind{
		GroupVersionKind: apps.StatefulSetKind,
		NewList:          func() client.ObjectList { return &apps.StatefulSetList{} },
		Specs:            [][]string{nil},
		Spec: func(app string) map[string]any {
			return map[string]any{"serviceName": app, "podManagementPolicy": string(appsv1.ParallelPodManagement)}
		},
		MinReady: func(seconds int) map[string]any {
			rolling := map[string]any{"minReadySeconds": int64(seconds)}
			return map[string]any{"updateStrategy": map[string]any{"rollingUpdate": rolling}}
		},
		Unique:       true,
		KeepsUpdated: true,
		Desired:      func(object client.Object) *judge.Desired { return desiredStatefulSet(object.(*apps.StatefulSet)) },
		Cell: func(object client.Object, gone bool) *judge.Cell {
			return statefulSetCell(object.(*apps.StatefulSet), gone)
		},
		Controller: Controller{
			Definition: "statefulsets.apps.kruise.io",
			Setup: func(ctx context.Context, mgr ctrl.Manager) error {
				return statefulset.Add(ctx, &workload.Env{Manager: mgr})
			},
			Loosen: func(object client.Object) {
				if rolling := object.(*apps.StatefulSet).Spec.UpdateStrategy.RollingUpdate; rolling != nil {
					loosen(rolling.MaxUnavailable)
				}
			},
			Strategies: statefulSetStrategies(),
		},
	}
	k.Partition = func(quarters int) map[string]any {
		return k.Rolling(map[string]any{"partition": int64(quarter * quarters)})
	}
	return k
}

func statefulSetStrategies() []Strategy {
	const inPlace, reCreate = apps.InPlaceIfPossiblePodUpdatePolicy, apps.ReCreatePodUpdatePolicy
	rolling := func(policy apps.PodUpdatePolicyType, unavailable any) map[string]any {
		return map[string]any{"podUpdatePolicy": policy, "maxUnavailable": unavailable}
	}
	unordered := rolling(inPlace, "20%")
	unordered["unorderedUpdate"] = map[string]any{"priorityStrategy": map[string]any{
		"orderPriority": []any{map[string]any{"orderedKey": appsv1.PodIndexLabel}}}}
	return []Strategy{
		{"in-place", rolling(inPlace, "20%"), []any{3, 8}},
		{"recreate", rolling(reCreate, 3), []any{5}},
		{"unordered", unordered, []any{4, 9}},
	}
}

// statefulSetCell reads a StatefulSet of a member. A budget from the hub is in annotations, which have no generation:
// the number of the order counts, too.
func statefulSetCell(set *apps.StatefulSet, gone bool) *judge.Cell {
	s := &judge.Cell{
		UID: set.UID, Name: set.Name, Of: judge.Place{Workload: set.Name}, Gone: gone,
		Observed: set.Status.ObservedGeneration + set.Status.ObservedSequence, Unique: true,
	}
	if owner := metav1.GetControllerOf(set); owner != nil { // its pods have the same names in each member
		s.Of, s.Unique = judge.Place{Workload: owner.Name, Subset: set.Spec.Template.Labels[apps.LabelSubset]}, false
	}
	rolling := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, apps.RollingUpdateStatefulSetStrategy{})
	s.MinReady = time.Duration(ptr.Deref(rolling.MinReadySeconds, 0)) * time.Second
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	s.Spec = judge.CellSpec{Generation: set.Generation + workload.Sequence(set), Replicas: replicas}
	// What cannot be read permits nothing.
	if amounts, err := workload.AmountsOf(set); err == nil {
		limits := workload.Budget{Amounts: amounts}.Limits(statefulSetLimits(set, replicas))
		s.Spec.MaxUnavailable = limits.MaxUnavailable
	}
	own, _ := ordinals.NewSet(ptr.Deref(set.Spec.Ordinals, apps.StatefulSetOrdinals{}).Start, replicas,
		set.Spec.ReserveOrdinals)
	s.Spec.Has = func(pod string) bool {
		ordinal, ok := podname.Ordinal(set.Name, pod)
		if ok {
			_, ok = own.Position(ordinal)
		}
		return ok
	}
	return s
}

// statefulSetLimits resolves the limits of a StatefulSet in one cluster, or of the user's for so many replicas.
func statefulSetLimits(set *apps.StatefulSet, replicas int32) budget.Limits {
	rolling := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, apps.RollingUpdateStatefulSetStrategy{})
	strategy := budget.Strategy{
		Defaults:       budget.Defaults{MaxUnavailable: new(intstr.FromInt32(1)), RoundDown: true},
		MaxUnavailable: rolling.MaxUnavailable,
	}
	if rolling.Partition != nil {
		strategy.Partition = new(intstr.FromInt32(*rolling.Partition))
	}
	limits, err := budget.Resolve(strategy, replicas)
	if err != nil {
		return budget.Limits{Replicas: replicas, Partition: replicas}
	}
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		limits.MaxUnavailable = 1
	}
	return limits
}

func desiredStatefulSet(set *apps.StatefulSet) *judge.Desired {
	return &judge.Desired{Workload: set.Name, Generation: set.Generation, Replicas: ptr.Deref(set.Spec.Replicas, 1),
		Amounts: func(_ string, n int32) lending.Amounts {
			limits := statefulSetLimits(set, n)
			return lending.Amounts{Updated: n - limits.Partition, Unavailable: limits.MaxUnavailable}
		}}
}
