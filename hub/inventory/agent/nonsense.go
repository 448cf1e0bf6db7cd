package agent

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// nonsense knows which Works have reports that cannot be true. It looks at each report once, when it comes. It is safe
// for concurrent use.
type nonsense struct {
	table kinds.Table // reads reports

	mu sync.Mutex
	// said is by member and by name of the Work.
	said map[string]map[string]string
}

func newNonsense(table kinds.Table) *nonsense {
	return &nonsense{table: table, said: map[string]map[string]string{}}
}

// first returns what the first Work of a member by name says, empty if all can be true.
func (n *nonsense) first(member string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	works := slices.Sorted(maps.Keys(n.said[member]))
	if len(works) == 0 {
		return ""
	}
	return fmt.Sprintf("%s in Work %s", n.said[member][works[0]], works[0])
}

// set records what a report says and tells whether that is news.
func (n *nonsense) set(o client.Object, says string) bool {
	member, ok := wire.MemberOf(o.GetNamespace())
	if !ok {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[member][o.GetName()] == says {
		return false
	}
	if says == "" {
		delete(n.said[member], o.GetName())
		return true
	}
	if n.said[member] == nil {
		n.said[member] = map[string]string{}
	}
	n.said[member][o.GetName()] = says
	return true
}

// changed lets through the Works whose reports became true or false; thousands of others come each second.
func (n *nonsense) changed() predicate.Predicate {
	look := func(o client.Object) bool {
		_, says := n.table.ReportOf(o.(*work.Work))
		return n.set(o, says)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return look(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return look(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return n.set(e.Object, "") },
	}
}

// maxCPUs is more cores than a node has; the most that a member reports is that many for each of its nodes.
const maxCPUs = 1 << 20

// nonsenseOf returns what a member reports of itself that cannot be true, empty if all can.
func nonsenseOf(m *topology.MemberCluster) string {
	for i := range m.Status.Zones {
		z := &m.Status.Zones[i]
		switch {
		case z.Nodes < 0, z.Ready < 0, z.Ready > z.Nodes:
			return fmt.Sprintf("%d ready nodes of %d in zone %q", z.Ready, z.Nodes, z.Name)
		}
		for _, list := range []corev1.ResourceList{z.Allocatable, z.Requested} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				quantity := list[name]
				if quantity.Sign() < 0 {
					return fmt.Sprintf("%s of %s in zone %q", quantity.String(), name, z.Name)
				}
			}
		}
		if cpu := z.Allocatable[corev1.ResourceCPU]; cpu.AsApproximateFloat64() > maxCPUs*float64(max(z.Nodes, 1)) {
			return fmt.Sprintf("%s of %s for %d nodes in zone %q", cpu.String(), corev1.ResourceCPU, z.Nodes, z.Name)
		}
	}
	return ""
}
