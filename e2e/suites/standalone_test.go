//go:build e2e

package suites_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("flotilla-agent without a hub", func() {
	It("runs CloneSets and UnitedDeployments of its cluster", func(ctx SpecContext) {
		cluster := alone.Members[north]
		ns := cluster.PlainNamespace(ctx, "alone")
		explain(alone, ns)
		Expect(h.RunAgentOn(ctx, alone, north)).To(Succeed())
		endAfter(fleet.AgentName(north))
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		cluster.Apply(ctx, cloneSet(ns, "api", 5, "a:1", "maxUnavailable: 2"),
			unitedDeployment(ns, "web", 6, subset("one", "n1", "replicas: 2"), subset("two", "n2", "")))
		alone.ExpectAtRestIn(ctx, north, api, 5)
		alone.ExpectAtRestIn(ctx, north, web, 6)
		alone.ExpectPods(ctx, web, harness.ByZone, map[string]int{"n1": 2, "n2": 4})

		By("scaling")
		cluster.MustKubectl(ctx, "-n", ns, "scale", "clone/api", "ud/web", "--replicas=8")
		alone.ExpectAtRestIn(ctx, north, api, 8)
		alone.ExpectAtRestIn(ctx, north, web, 8)
		alone.ExpectPods(ctx, web, harness.ByZone, map[string]int{"n1": 2, "n2": 6})

		By("updating in place, half of them")
		before := alone.Pods.Mark(ctx, ns)
		cluster.MustKubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p", `[
			{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "a:2"},
			{"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": "50%"}]`)
		alone.ExpectAtRestIn(ctx, north, api, 8)
		history := alone.Pods.Since(ctx, before)
		Expect(harness.Count(alone.PodsOf(api), byImage)).To(Equal(map[string]int{"a:1": 4, "a:2": 4}))
		expectInPlace(history, 4)
		expectAtMost(history, ofName("api-", judge.Unavailable(8)), 2, "unavailable pods")

		By("deleting")
		cluster.MustKubectl(ctx, "-n", ns, "delete", "clone/api", "ud/web", "--timeout=240s")
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(harness.Patience).Should(BeZero())
	})
})
