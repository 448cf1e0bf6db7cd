//go:build e2e

package kind

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRealNodes is the story: install, spread, update, lose and upgrade, uninstall.
func TestRealNodes(t *testing.T) {
	s := newSite(t)
	s.step("three clusters", s.create)
	t.Cleanup(s.tell)
	t.Cleanup(s.report)
	s.step("nodes reach services", s.services)
	s.step("images into nodes", s.images)
	s.step("the hub by its chart", func() { s.follow(s.docs["The hub"]...) })
	s.step("two members by chart and command", s.members)

	s.step("a UnitedDeployment over zones", s.spread)
	s.step("a CloneSet over members", func() {
		s.run("kubectl apply -f e2e/kind/testdata/api.yaml")
		s.expectServed(s.settled("api", map[string]int{"app:1": 8}, "east", "west"))
		s.summed("api", 8, 8)
	})
	s.step("a partition over members, in place", func() { s.update("50%", map[string]int{"app:1": 4, "app:2": 4}) })
	s.step("the rest, in place", func() { s.update("0", map[string]int{"app:2": 8}) })
	s.step("cpu and memory in place", s.resize)
	s.step("a StatefulSet over members, in place", s.identities)
	s.step("images pulled by the node daemon", s.nodeDaemon)

	s.step("a node that is paused", s.pause)
	s.step("a member that is cut off", s.cutOff)
	s.step("a member that dies, and returns", s.die)
	s.step("an upgrade of everything", s.upgrade)
	s.step("uninstall", s.uninstall)
}

// services holds that each node reaches the API server as pods do: a kube-proxy that cannot write its rules says
// nothing of it.
func (s *site) services() {
	for _, c := range s.clusters {
		// kind waits for the first node of a cluster alone.
		s.eventually("every node of "+c.name+" is Ready", func(ctx context.Context) string {
			list, err := c.core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err.Error()
			}
			ready := 0
			for i := range list.Items {
				for _, condition := range list.Items[i].Status.Conditions {
					if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
						ready++
					}
				}
			}
			if ready < len(c.nodes) {
				return fmt.Sprintf("%d of %d", ready, len(c.nodes))
			}
			return ""
		})
		for _, node := range c.nodes {
			s.eventually("a service's address on "+node, func(ctx context.Context) string {
				out, err := s.command(ctx, "docker exec "+node+
					" curl --insecure --silent --max-time 5 https://10.96.0.1/readyz").CombinedOutput()
				if err != nil || string(out) != "ok" {
					return fmt.Sprintf("it answers %q, %v", out, err)
				}
				return ""
			})
		}
	}
}

func (s *site) images() {
	for name, c := range s.clusters {
		if name == hub {
			s.load(c, c.nodes, ".images/flotilla-hub.tar", ".kind/images/next/flotilla-hub.tar")
			continue
		}
		s.load(c, workers(c), ".images/flotilla-agent.tar", ".kind/images/next/flotilla-agent.tar", ".kind/images/1/app.tar",
			".kind/images/2/app.tar")
	}
}

// workers are the nodes of a member that take pods.
func workers(c *cluster) []string {
	var out []string
	for _, node := range c.nodes {
		if strings.Contains(node, "-worker") {
			out = append(out, node)
		}
	}
	return out
}

func (s *site) members() {
	commands := s.docs["A member"]
	s.follow(commands[:len(commands)-1]...)
	for _, command := range commands[:len(commands)-1] {
		s.follow(strings.ReplaceAll(command, "east", "west"))
	}
	for _, member := range []string{"east", "west"} {
		s.rolledOut(member, "flotilla-agent")
	}
	s.run("flotilla check --context hub")
}

func (s *site) rolledOut(cluster, program string) {
	s.t.Helper()
	s.run(fmt.Sprintf("kubectl --context %s --namespace %s rollout status deployment/%s --timeout 5m", cluster, system,
		program))
}

// spread holds that subsets are where their zones are, by the labels of real nodes.
func (s *site) spread() {
	s.run("kubectl apply -f e2e/samples/1-namespace.yaml -f e2e/samples/2-policy.yaml -f e2e/kind/testdata/web.yaml")
	where := map[string]int{}
	for _, p := range s.settled("web", map[string]int{"app:1": 6}, "east", "west") {
		where[p.member+" "+p.zone]++
	}
	if want := map[string]int{"east a": 2, "east b": 1, "west b": 1, "west c": 2}; !maps.Equal(where, want) {
		s.t.Errorf("pods are in %v, want %v", where, want)
	}
	s.run("kubectl --namespace shop wait ud/web --for=condition=Ready --timeout=5m")
}

// update rolls out the second image as far as the partition says, and holds that each pod is the one that it was, with
// its address, and that its container was started again exactly if its image changed.
func (s *site) update(partition string, images map[string]int) {
	before := s.settled("api", s.count("api"), "east", "west")
	value := partition
	if strings.HasSuffix(value, "%") {
		value = `"` + value + `"`
	}
	s.run(`kubectl --namespace shop patch clone api --type merge --patch '{"spec": {
		"updateStrategy": {"rollingUpdate": {"partition": ` + value + `}},
		"template": {"spec": {"containers": [{"name": "api", "image": "app:2",
		"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
		"readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}]}}}}'`)
	now := s.settled("api", images, "east", "west")
	for name, p := range before {
		if p.image != now[name].image {
			p.image, p.restarts = now[name].image, p.restarts+1
		}
		before[name] = p
	}
	s.expectSame("an update", before, now)
	s.expectServed(now)
	s.summed("api", 8, int32(images["app:2"]))
}

// count returns how many pods an app has of each image.
func (s *site) count(app string) map[string]int {
	s.t.Helper()
	found, err := s.pods(s.t.Context(), app, "east", "west")
	if err != nil {
		s.t.Fatal(err)
	}
	images := map[string]int{}
	for _, p := range found {
		images[p.image]++
	}
	return images
}

// resize holds that kubelets give running containers what the template asks for, and that nothing is started again by
// that.
func (s *site) resize() {
	before := s.settled("api", map[string]int{"app:2": 8}, "east", "west")
	s.run(`kubectl --namespace shop patch clone api --type json --patch '[
		{"op": "replace", "path": "/spec/template/spec/containers/0/resources",
		"value": {"requests": {"cpu": "20m", "memory": "24Mi"}, "limits": {"cpu": "600m", "memory": "96Mi"}}}]'`)
	s.eventually("containers have what is asked for", func(ctx context.Context) string {
		for _, member := range []string{"east", "west"} {
			list, err := s.clusters[member].core.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{LabelSelector: "app=api"})
			if err != nil {
				return err.Error()
			}
			for i := range list.Items {
				p := &list.Items[i]
				for _, c := range p.Status.ContainerStatuses {
					if c.Resources == nil || c.Resources.Requests.Cpu().Cmp(resource.MustParse("20m")) != 0 ||
						c.Resources.Limits.Memory().Cmp(resource.MustParse("96Mi")) != 0 {
						return fmt.Sprintf("%s in %s has %+v", p.Name, member, c.Resources)
					}
				}
			}
		}
		return ""
	})
	s.summed("api", 8, 8)
	s.expectSame("a change of cpu and memory", before, s.settled("api", map[string]int{"app:2": 8}, "east", "west"))
}
