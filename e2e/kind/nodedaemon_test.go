//go:build e2e

package kind

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/page"
)

// pulls is the namespace of the ImagePullJobs.
const pulls = "pulls"

// nodeDaemon installs the node daemon in a member, as its page says, and pulls an image onto all nodes from a registry
// on each of them: without credentials, with them, and where they are missing.
func (s *site) nodeDaemon() {
	const member = "east"
	c := s.clusters[member]
	s.load(c, c.nodes, ".images/flotilla-node.tar")
	commands, err := page.Commands(filepath.Join(s.root, "docs", "tasks", "install-the-node-daemon.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.follow(commands["Install"]...)
	s.follow(commands["Pull secrets"]...)
	s.rolledOut(member, "flotilla-agent")
	for _, node := range c.nodes {
		s.run("docker cp .kind/registry " + node + ":/usr/local/bin/registry")
		s.run("docker cp .kind/images/1/app.tar " + node + ":/app.tar")
		s.run("docker exec --detach " + node + " registry -archive /app.tar -username user -password secret")
	}
	for _, node := range c.nodes {
		s.eventually("the runtime of "+node, func(ctx context.Context) string {
			image := &apps.NodeImage{}
			if err := c.objects.Get(ctx, types.NamespacedName{Name: node}, image); err != nil {
				return err.Error()
			}
			ready := meta.FindStatusCondition(image.Status.Conditions, "Ready")
			if ready == nil || !strings.HasPrefix(ready.Message, "containerd ") {
				return fmt.Sprintf("%+v", ready)
			}
			return ""
		})
	}
	kubectl := "kubectl --context " + member + " "
	s.run(kubectl + "apply -f e2e/kind/testdata/pulls.yaml")
	s.ended(c, "open", len(c.nodes), 0)
	s.ended(c, "refused", 0, len(c.nodes))
	s.run(kubectl + "--namespace pulls delete imagepulljob refused")
	s.run(kubectl + "--namespace pulls create secret docker-registry login --docker-server 127.0.0.1:5000 " +
		"--docker-username user --docker-password secret")
	s.run(kubectl + "apply -f e2e/kind/testdata/pulls-closed.yaml")
	s.ended(c, "closed", len(c.nodes), 0)
	for _, node := range c.nodes {
		has := s.run("docker exec " + node + " ctr --namespace k8s.io images list --quiet")
		for _, image := range []string{"127.0.0.1:5000/open/app:1", "127.0.0.1:5000/closed/app:1"} {
			if !slices.Contains(strings.Fields(has), image) {
				s.t.Errorf("%s does not have %s:\n%s", node, image, has)
			}
		}
	}
	s.run(kubectl + "--namespace pulls delete imagepulljobs --all")
	s.eventually("no copy of a pull secret is left", func(ctx context.Context) string {
		left := &corev1.SecretList{}
		if err := c.objects.List(ctx, left, client.InNamespace(system),
			client.MatchingLabels{"flotilla.dev/pull-secret": "true"}); err != nil || len(left.Items) > 0 {
			return fmt.Sprintf("%d (%v)", len(left.Items), err)
		}
		return ""
	})
	s.restarts()
	s.probes()
	s.lookInto()
	s.figures()
	s.follow(commands["Remove it"]...)
}

// ended waits until a job has ended on all nodes.
func (s *site) ended(c *cluster, name string, succeeded, failed int) {
	s.t.Helper()
	s.eventually("the ImagePullJob "+name, func(ctx context.Context) string {
		job := &apps.ImagePullJob{}
		if err := c.objects.Get(ctx, types.NamespacedName{Namespace: pulls, Name: name}, job); err != nil {
			return err.Error()
		}
		if job.Status.CompletionTime == nil || int(job.Status.Succeeded) != succeeded || int(job.Status.Failed) != failed {
			return fmt.Sprintf("%+v", job.Status)
		}
		return ""
	})
}
