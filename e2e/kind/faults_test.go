//go:build e2e

package kind

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// pause stops a worker: its pods count no more, nothing is made in their place before Kubernetes gives them up, and
// when it goes on they are what they were.
func (s *site) pause() {
	before := s.settled("api", map[string]int{"app:2": 8}, "east", "west")
	// The scheduler may have left a worker without a pod of api: then it is the other one.
	var node string
	others := maps.Clone(before)
	for i, zone := range zones()["east"] {
		if len(others) < len(before) {
			break
		}
		node = workers(s.clusters["east"])[i]
		maps.DeleteFunc(others, func(_ string, p pod) bool { return p.member == "east" && p.zone == zone })
	}
	s.run("docker pause " + node)
	s.summed("api", int32(len(others)), int32(len(others)))
	s.run("docker unpause " + node)
	s.summed("api", 8, 8)
	s.expectSame("a pause of a node", before, s.settled("api", map[string]int{"app:2": 8}, "east", "west"))
}

// cutOff cuts every node of west off from all others: the hub hears no more of it and moves nothing, and its pods run
// on.
func (s *site) cutOff() {
	west := s.clusters["west"]
	before := s.settled("api", map[string]int{"app:2": 8}, "east", "west")
	addresses := map[string]string{}
	for _, node := range west.nodes {
		addresses[node] = s.address(node)
		s.cut(node)
	}
	s.heard("west", metav1.ConditionFalse)
	for _, node := range workers(west) {
		running := strings.Fields(s.run("docker exec " + node + " crictl ps --quiet --name '^(api|web)$'"))
		if len(running) == 0 {
			s.t.Errorf("no pod runs on %s, which is cut off", node)
		}
	}
	east, err := s.pods(s.t.Context(), "api", "east")
	if err != nil {
		s.t.Fatal(err)
	}
	if len(east) != 4 {
		s.t.Errorf("while west is cut off, east has %d pods, want its 4: no policy moves them", len(east))
	}
	for node, address := range addresses {
		s.join(node, address)
	}
	s.heard("west", metav1.ConditionTrue)
	s.summed("api", 8, 8)
	s.expectSame("a cut", before, s.settled("api", map[string]int{"app:2": 8}, "east", "west"))
}

// die ends every node of west as a power cut does. Its policy says that others stand in; when it is back there are as
// many pods as are asked for.
func (s *site) die() {
	const failover = `'{"spec": {"failover": {"mode": "Replace", "after": "20s"}}}'`
	s.run(`kubectl --namespace shop patch federationpolicy everywhere --type merge --patch ` + failover)
	nodes := strings.Join(s.clusters["west"].nodes, " ")
	s.run("docker kill " + nodes)
	s.heard("west", metav1.ConditionFalse)
	s.settled("api", map[string]int{"app:2": 8}, "east")
	s.summed("api", 8, 8)
	// Zone b is in east too. Zone c is not: its two go on to be counted as they were, and what east stands in for counts
	// once.
	s.settled("web", map[string]int{"app:1": 4}, "east")
	s.eventually("the hub says that web has 6 pods", func(ctx context.Context) string {
		u := &apps.UnitedDeployment{}
		if err := s.clusters[hub].objects.Get(ctx, client.ObjectKey{Namespace: shop, Name: "web"}, u); err != nil {
			return err.Error()
		}
		if u.Status.Replicas != 6 || u.Status.ReadyReplicas != 6 {
			return fmt.Sprintf("it says %d, and %d ready", u.Status.Replicas, u.Status.ReadyReplicas)
		}
		return ""
	})
	s.run("docker start " + nodes)
	s.heard("west", metav1.ConditionTrue)
	s.expectServed(s.settled("api", map[string]int{"app:2": 8}, "east", "west"))
	s.expectServed(s.settled("web", map[string]int{"app:1": 6}, "east", "west"))
	s.summed("api", 8, 8)
}

// upgrade gives every cluster the programs of another image, as the page says. No pod of a workload is touched, and the
// new hub divides.
func (s *site) upgrade() {
	api, web := s.settled("api", map[string]int{"app:2": 8}, "east", "west"),
		s.settled("web", map[string]int{"app:1": 6}, "east", "west")
	s.tag += "-next"
	for _, command := range s.docs["Upgrade"] {
		s.follow(command)
		if strings.Contains(command, "east") {
			s.follow(strings.ReplaceAll(command, "east", "west"))
		}
	}
	s.rolledOut("east", "flotilla-agent")
	s.rolledOut("west", "flotilla-agent")
	s.rolledOut(hub, "flotilla-hub")
	s.rolledOut(hub, "flotilla-approver")
	s.expectSame("an upgrade", api, s.settled("api", map[string]int{"app:2": 8}, "east", "west"))
	s.expectSame("an upgrade", web, s.settled("web", map[string]int{"app:1": 6}, "east", "west"))
	s.run("kubectl --namespace shop scale clone/api --replicas=9")
	s.settled("api", map[string]int{"app:2": 9}, "east", "west")
	s.summed("api", 9, 9)
}

// uninstall takes everything off. What the page's commands move is moved, and within the limits of the workload:
// maxUnavailable is 2. No pod ends by the rest.
func (s *site) uninstall() {
	s.run("kubectl --namespace shop delete ud/web --wait=false") // zone a is in east alone, which is to leave
	s.held("api", s.settled("api", map[string]int{"app:2": 9}, "east", "west"), 9-2, func() {
		s.follow(s.docs["Uninstall"]...)
		s.settled("api", map[string]int{"app:2": 9}, "west")
	}, "east", "west")
	s.eventually("east has no pods", func(ctx context.Context) string {
		left, err := s.pods(ctx, "api", "east")
		if err != nil || len(left) > 0 {
			return fmt.Sprintf("it has %v, %v", slices.Sorted(maps.Keys(left)), err)
		}
		return ""
	})
	before := s.settled("api", map[string]int{"app:2": 9}, "west")
	s.run("helm uninstall flotilla-agent --kube-context west --namespace flotilla-system --wait")
	for name := range zones() {
		s.run("helm uninstall flotilla-crds --namespace flotilla-system --kube-context " + name)
	}
	s.expectSame("uninstall", before, s.settled("api", map[string]int{"app:2": 9}, "west"))
	s.run("kubectl --context west --namespace shop get clone/api")
}
