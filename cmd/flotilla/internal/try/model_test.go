package try

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
)

func member(name, zones string, ready metav1.ConditionStatus, message string) topology.MemberCluster {
	return topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: topology.MemberClusterStatus{
			ZoneNames: zones, Nodes: "4/4",
			Conditions: []metav1.Condition{{Type: topology.MemberReady, Status: ready, Message: message}},
		},
	}
}

// TestStatus holds that try status shows members, and workloads as flotilla tree does.
func TestStatus(t *testing.T) {
	pods := tree.Pods{Desired: 4, Placed: 4, Ready: 4, Updated: 4}
	shown := buildTree([]topology.MemberCluster{
		member("west", "b,c", metav1.ConditionFalse, "its Lease was renewed last 52 s ago"),
		member("east", "a,b", metav1.ConditionTrue, ""),
	}, &tree.Tree{Workloads: []tree.Workload{{
		Kind: "CloneSet", Namespace: "shop", Name: "api", Pods: pods, Stale: []string{"west"},
		Images: []tree.Image{{Images: []string{"httpd:2.5"}, Pods: 4}},
		Zones: []tree.Zone{{Pods: pods, Clusters: []tree.Cluster{
			{Name: "east", Pods: tree.Pods{Desired: 4, Placed: 4, Ready: 4, Updated: 4}}}}},
	}}})
	var out strings.Builder
	if err := render(&out, shown); err != nil {
		t.Fatal(err)
	}
	const want = `
MEMBER   READY   ZONES   NODES
east     yes     a,b     4/4
west     no      b,c     4/4
west: its Lease was renewed last 52 s ago

WORKLOAD                DESIRED   PLACED   READY   UPDATED   STATE
└── CloneSet shop/api   4         4        4       4         stale: west; httpd:2.5 ×4
    └── any zone        4         4        4       4
        └── east        4         4        4       4
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}
