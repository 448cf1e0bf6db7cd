//go:build e2e

package suites_test

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("Bad input: a member with", func() {
	It("7.7-12: the name of another is refused; the right one goes on", func(ctx SpecContext) {
		ns := federated(ctx, "thief")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		eastID, err := h.Members["east"].ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		thiefID, err := alone.Members[north].ID(ctx)
		Expect(err).NotTo(HaveOccurred())

		const thief = "north-as-east"
		endAfter(thief)
		expectStays(ctx, api, func() {
			Expect(h.RunAgentAs(ctx, "east", thief, alone, north)).To(Succeed())
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "east"),
				metav1.Condition{Type: "Identity", Status: metav1.ConditionFalse, Reason: topology.ReasonClusterIDMismatch},
				"MemberCluster east", eastID, thiefID, "give that cluster a name of its own")
			Eventually(func() (string, error) {
				log, err := os.ReadFile(alone.Fleet.LogFile(thief))
				return string(log), err
			}).WithTimeout(harness.Patience).Should(And(ContainSubstring("another --cluster-name"), ContainSubstring(thiefID)))
		})
		By("scaling: east answers, north has nothing")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 4, "south": 4, "west": 4})
		Expect(alone.Pods.Left(ns)).To(BeZero())
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "east"),
			metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionTrue})
	})

	It("7.7-12: the id of another is not accepted; the first one goes on", func(ctx SpecContext) {
		const first, second = "boreas", "aquilo"
		endAfter("north-as-" + first)
		endAfter("north-as-" + second)
		DeferCleanup(func(ctx SpecContext) { h.Kubectl(ctx, "delete", "mc", first, second, "--ignore-not-found") })
		id, err := alone.Members[north].ID(ctx)
		Expect(err).NotTo(HaveOccurred())

		Expect(h.Fleet.Accept(ctx, first)).To(Succeed())
		Expect(h.RunAgentAs(ctx, first, "north-as-"+first, alone, north)).To(Succeed())
		ready := metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionTrue}
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", first), ready)
		ns := bare(ctx, "twin")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policyOn(ns, "north", first+", "+second, "CloneSet"), cloneSet(ns, "api", 2, "a:1", ""))
		h.ExpectPlaced(ctx, api, map[string]int{first: 2})

		placed := replicasOf(h.MustPlacement(ctx, api))
		Expect(h.Fleet.Accept(ctx, second)).To(Succeed())
		Expect(h.RunAgentAs(ctx, second, "north-as-"+second, alone, north)).To(Succeed())
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", second),
			metav1.Condition{Type: topology.MemberAccepted, Status: metav1.ConditionFalse,
				Reason: topology.ReasonDuplicateClusterID},
			"MemberCluster "+second, id, "MemberCluster "+first, "delete one of the two")
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", first), ready)
		Expect(replicasOf(h.MustPlacement(ctx, api))).To(Equal(placed))
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--timeout=240s")
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(harness.Patience).Should(BeZero())
	})

	It("7.7-12: the hub's own id is not accepted", func(ctx SpecContext) {
		const self = "self"
		id, err := h.Hub.ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(h.Fleet.Kill(ctx, "hub-as-"+self)).To(Succeed())
			Expect(os.Remove(h.Fleet.Dir + "/processes/hub-as-" + self + ".json")).To(Succeed()) // it is not to come back
			h.Kubectl(ctx, "delete", "mc", self, "--ignore-not-found")
		})
		Expect(h.Fleet.Accept(ctx, self)).To(Succeed())
		Expect(h.RunAgentAs(ctx, self, "hub-as-"+self, h, fleet.HubName)).To(Succeed())
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", self),
			metav1.Condition{Type: topology.MemberAccepted, Status: metav1.ConditionFalse, Reason: topology.ReasonHubIsMember},
			"MemberCluster "+self, id, "cannot join itself", "delete it")
	})
})

// endAfter ends a program of the fleet without a hub after the spec.
func endAfter(program string) {
	DeferCleanup(func(ctx SpecContext) { Expect(alone.Fleet.Kill(ctx, program)).To(Succeed()) })
}
