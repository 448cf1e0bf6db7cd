package try

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
)

// Tree is what runs where: members, and the workloads as `flotilla tree` shows them.
type Tree struct {
	Members   []Member        `json:"members"`
	Workloads []tree.Workload `json:"workloads"`
}

// Member is one member cluster as the hub sees it.
type Member struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Zones string `json:"zones"`
	Nodes string `json:"nodes"`
	// Message says why it is not Ready.
	Message string `json:"message,omitempty"`
}

// buildTree makes the tree of the hub's members and of what runs on them.
func buildTree(members []topology.MemberCluster, workloads *tree.Tree) *Tree {
	t := &Tree{Members: []Member{}, Workloads: workloads.Workloads}
	for i := range members {
		t.Members = append(t.Members, memberOf(&members[i]))
	}
	slices.SortFunc(t.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return t
}

func memberOf(m *topology.MemberCluster) Member {
	member := Member{Name: m.Name, Zones: m.Status.ZoneNames, Nodes: m.Status.Nodes}
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	switch {
	case ready == nil:
		member.Message = "the hub has not looked at it yet"
	case ready.Status == metav1.ConditionTrue:
		member.Ready = true
	default:
		member.Message = ready.Message
	}
	return member
}
