//go:build e2e

package suites_test

import (
	"context"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("Agent and hub killed and restarted", func() {
	It("in the middle of a scale-out and a scale-in: no pod lost, doubled or restarted", func(ctx SpecContext) {
		ns := federated(ctx, "kill-scale")
		mend()
		web := harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, webSample(ns))
		h.ExpectAtRest(ctx, web, 12)

		By("12 → 30 while the agent of east is dead, then the hub too")
		before := h.Pods.Mark(ctx, ns)
		kill(ctx, fleet.AgentName("east"))
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=30")
		want := placedFor(ctx, web, 30)
		part := maps.Clone(want)
		part["east"] = harness.Count(h.PodsOf(web), harness.ByCluster)["east"]
		Expect(part["east"]).To(BeNumerically("<", want["east"]))
		h.ExpectPods(ctx, web, harness.ByCluster, part)
		kill(ctx, fleet.HubProgram)
		restart(ctx, fleet.AgentName("east"))
		restart(ctx, fleet.HubProgram) // an agent that starts reports, and executes nothing new before the hub has answered
		h.ExpectPods(ctx, web, harness.ByCluster, want)
		h.ExpectAtRest(ctx, web, 30)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(18))
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())

		By("30 → 13, with every program killed as soon as the first pod goes")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=13")
		Eventually(func() int { return len(h.PodsOf(web)) }).WithContext(ctx).WithTimeout(harness.Patience).
			Should(BeNumerically("<", 30))
		kill(ctx, programs()...)
		restart(ctx, programs()...)
		h.ExpectAtRest(ctx, web, 13)
		history = h.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		Expect(history.Gone()).To(HaveLen(17))
		Expect(history.Restarted()).To(BeEmpty())
	})

	It("in the middle of a rollout: every pod is updated once, within the limit", func(ctx SpecContext) {
		ns := federated(ctx, "kill-rollout")
		mend()
		slow := harness.CloneSet(ns, "slow")
		// A pod counts after a second: the rollout takes several. Its end is held back, so that it is not over before its
		// middle is hit.
		h.Hub.Apply(ctx, cloneSet(ns, "slow", 9, "slow:1", "maxUnavailable: 2")+"  minReadySeconds: 1\n")
		h.ExpectAtRest(ctx, slow, 9)

		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/slow", "--type=json",
			"-p", `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "slow:2"},
				{"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 4}]`)
		expectUpdated(ctx, slow, 2)
		kill(ctx, fleet.AgentName("west"), fleet.HubProgram)
		restart(ctx, fleet.AgentName("west"), fleet.HubProgram)
		expectUpdated(ctx, slow, 5)
		kill(ctx, programs()...)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/slow", "--type=merge", "-p",
			`{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}`)
		Expect(harness.Count(h.PodsOf(slow), byImage)["slow:1"]).To(Equal(4))
		restart(ctx, programs()...)

		h.ExpectAtRest(ctx, slow, 9)
		history := h.Pods.Since(ctx, before)
		Expect(harness.Count(h.PodsOf(slow), byImage)).To(Equal(map[string]int{"slow:2": 9}))
		expectInPlace(history, 9)
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")
	})

	It("at rest: nothing happens to any pod", func(ctx SpecContext) {
		ns := federated(ctx, "kill-rest")
		mend()
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		placed := replicasOf(h.MustPlacement(ctx, web))

		before := h.Pods.Mark(ctx, ns)
		kill(ctx, programs()...)
		restart(ctx, programs()...)
		Expect(h.Fleet.WaitMembersReady(ctx, harness.Patience)).To(Succeed())
		// A change that every program has to answer shows that all are at work again.
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)
		h.ExpectAtRest(ctx, web, 12)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(3))
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
		Expect(replicasOf(h.MustPlacement(ctx, web))).To(Equal(placed), "a restart decides nothing anew")
	})
})

// placedFor waits until the placement answers this number of replicas and returns the number of each cluster.
func placedFor(ctx context.Context, w harness.Workload, replicas int32) map[string]int {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (int32, error) {
		p, err := h.Placement(ctx, w)
		if p == nil {
			return -1, err
		}
		return p.Spec.Replicas, err
	}).WithTimeout(harness.Patience).Should(Equal(replicas))
	clusters := map[string]int{}
	for _, c := range h.MustPlacement(ctx, w).Spec.Cells {
		clusters[c.Cluster] += int(c.Replicas)
	}
	return clusters
}

// programs are the hub and the agents of its members.
func programs() []string {
	names := []string{fleet.HubProgram}
	for _, member := range h.MemberNames() {
		names = append(names, fleet.AgentName(member))
	}
	return names
}

func kill(ctx context.Context, names ...string) {
	for _, name := range names {
		ExpectWithOffset(1, h.Fleet.Kill(ctx, name)).To(Succeed())
	}
}

func restart(ctx context.Context, names ...string) {
	for _, name := range names {
		ExpectWithOffset(1, h.Fleet.Restart(name)).To(Succeed())
	}
	for _, name := range names {
		ExpectWithOffset(1, h.Fleet.WaitReady(ctx, name)).To(Succeed())
	}
}

// expectUpdated waits until at least count pods are to run slow:2.
func expectUpdated(ctx context.Context, w harness.Workload, count int) {
	EventuallyWithOffset(1, ctx, func() int { return harness.Count(h.PodsOf(w), byImage)["slow:2"] }).
		WithTimeout(harness.Patience).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", count))
}
