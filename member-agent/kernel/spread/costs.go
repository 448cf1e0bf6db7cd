package spread

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
)

// step is between the costs of one subset and the next, as published.
const step = 100

// Placements are the active pods of one version of a workload that the rule selects.
type Placements struct {
	// Pods are the pods by their subsets; "" holds those in no subset.
	Pods map[string][]*corev1.Pod
	// Others are how many more pods hold places of each subset and get no costs here, because it is not their turn to be
	// removed; nil for none.
	Others map[string]int32
	// Old says that the workload has a newer version: then the first subsets are emptied first, because the new version
	// fills them first. Only where versions are placed apart.
	Old bool
	// Spare is how many pods above the caps keep the cost of their subset: those that the workload itself is about to
	// remove. A workload whose versions are placed together has max(0, active pods - spec.replicas) during a rollout with
	// surge; all others have 0.
	Spare int32
}

// Costs returns the deletion cost of each of the pods, by its uid: the lower, the earlier it is removed. For subset i
// of n: 100*(n-i) for pods within the cap; -100*(i+1) for those above it, the least healthy ones; -100*(n+1) for pods
// in no subset. In an old version i counts from the end. Pods of subsets that the rule does not have are in no subset.
// Nothing is changed.
func (r Rule) Costs(b Placements) map[types.UID]int32 {
	costs, spare := map[types.UID]int32{}, b.Spare
	for subset, pods := range b.Pods {
		if r.Index(subset) < 0 {
			for _, pod := range pods {
				costs[pod.UID] = r.noneCost()
			}
		}
	}
	for i, s := range r.Subsets {
		pods, above := b.Pods[s.Name], 0
		if s.Cap != Unlimited {
			above = min(len(pods), max(0, len(pods)+int(b.Others[s.Name])-int(s.Cap)))
		}
		spared := min(above, int(max(0, spare)))
		above, spare = above-spared, spare-int32(spared)
		if above > 0 {
			pods = slices.Clone(pods)
			order.Sort(pods, order.Update()...)
		}
		for j, pod := range pods {
			costs[pod.UID] = r.keptCost(i, b.Old)
			if j < above {
				costs[pod.UID] = r.aboveCost(i, b.Old)
			}
		}
	}
	return costs
}

func (r Rule) place(i int, old bool) int32 {
	if old {
		i = len(r.Subsets) - 1 - i
	}
	return int32(i)
}

func (r Rule) keptCost(i int, old bool) int32 {
	return step * (int32(len(r.Subsets)) - r.place(i, old))
}
func (r Rule) aboveCost(i int, old bool) int32 { return -step * (r.place(i, old) + 1) }
func (r Rule) noneCost() int32                 { return -step * (int32(len(r.Subsets)) + 1) }

// firstCost returns the cost of a new pod of the subset, or of one in none: that of a pod within the cap.
func firstCost(ws *v1beta1.WorkloadSpread, subset string) int32 {
	n := int32(len(ws.Spec.Subsets))
	for i := range ws.Spec.Subsets {
		if ws.Spec.Subsets[i].Name == subset {
			return step * (n - int32(i))
		}
	}
	return -step * (n + 1)
}

// CostText returns a cost as the annotation controller.kubernetes.io/pod-deletion-cost has it.
func CostText(cost int32) string { return strconv.FormatInt(int64(cost), 10) }
