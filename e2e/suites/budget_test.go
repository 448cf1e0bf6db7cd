//go:build e2e

package suites_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A PodUnavailableBudget", func() {
	It("keeps the pods that must stay while two nodes are drained at once", func(ctx SpecContext) {
		const pods, most = 8, 2
		cluster := alone.Members[north]
		ns := cluster.PlainNamespace(ctx, "budget")
		explain(alone, ns)
		Expect(h.RunAgentOn(ctx, alone, north)).To(Succeed())
		endAfter(fleet.AgentName(north))
		web := harness.CloneSet(ns, "web")
		cluster.Apply(ctx, cloneSet(ns, "web", pods, "a:1", "maxUnavailable: 1"), fmt.Sprintf(`
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: web, namespace: %s}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: web}
  maxUnavailable: %d
`, ns, most))
		alone.ExpectAtRestIn(ctx, north, web, pods)
		cluster.MustKubectl(ctx, "-n", ns, "wait", "pub/web", "--timeout=120s",
			fmt.Sprintf("--for=jsonpath={.status.unavailableAllowed}=%d", most))
		cluster.MustKubectl(ctx, "wait", "validatingwebhookconfiguration/flotilla-pods", "--for=create", "--timeout=60s")

		By("draining the nodes of one zone")
		var nodes corev1.NodeList
		Expect(cluster.Client.List(ctx, &nodes)).To(Succeed())
		before := alone.Pods.Mark(ctx, ns)
		group, groupCtx := errgroup.WithContext(ctx)
		drained := 0
		for _, node := range nodes.Items {
			if node.Labels[corev1.LabelTopologyZone] != "n1" {
				continue
			}
			drained++
			DeferCleanup(func(ctx SpecContext) { cluster.MustKubectl(ctx, "uncordon", node.Name) })
			group.Go(func() error {
				said, err := cluster.Kubectl(groupCtx, "drain", node.Name, "--ignore-daemonsets", "--force",
					"--delete-emptydir-data", "--timeout=300s")
				if err != nil {
					return fmt.Errorf("drain %s: %w: %s", node.Name, err, said)
				}
				return nil
			})
		}
		Expect(drained).To(BeNumerically(">=", 2), "nodes of the zone")
		Expect(group.Wait()).To(Succeed())
		alone.ExpectAtRestIn(ctx, north, web, pods)
		alone.ExpectPods(ctx, web, harness.ByZone, map[string]int{"n2": pods})
		history := alone.Pods.Since(ctx, before)
		expectAtMost(history, ofName("web-", judge.Unavailable(pods)), most, "unavailable pods")

		cluster.MustKubectl(ctx, "-n", ns, "delete", "clone/web", "pub/web", "--timeout=240s")
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(harness.Patience).Should(BeZero())
	})
})
