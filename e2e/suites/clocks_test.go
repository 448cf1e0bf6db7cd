//go:build e2e

package suites_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("Clocks", func() {
	It("that are minutes apart, ahead and behind: members stay Ready, a rollout goes on within its limits, and the "+
		"members and flotilla check say so with the remedy", func(ctx SpecContext) {
		ns := federated(ctx, "clocks")
		mend()
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 9, "a:1", "maxUnavailable: 2"))
		h.ExpectAtRest(ctx, api, 9)
		before := h.Pods.Mark(ctx, ns)
		wrong := map[string]time.Duration{"east": 11 * time.Minute, "west": -7 * time.Minute}
		for member, by := range wrong {
			sessions := sessionsOf(ctx)[member]
			undo, err := h.WrongClock(ctx, member, by)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				sessions := sessionsOf(ctx)[member]
				Expect(undo(ctx)).To(Succeed())
				expectSessions(ctx, map[string]int64{member: sessions})
			})
			expectSessions(ctx, map[string]int64{member: sessions})
		}
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "a:2"}]`)
		h.ExpectPods(ctx, api, byImage, map[string]int{"a:2": 9})
		h.ExpectAtRest(ctx, api, 9)
		history := h.Pods.Since(ctx, before)
		expectInPlace(history, 9)
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")

		By("saying so")
		apart := metav1.Condition{Type: topology.MemberClockInSync, Status: metav1.ConditionFalse,
			Reason: topology.ReasonClocksApart}
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "east"), apart, "MemberCluster east", "11m",
			"ahead of the hub's", "time servers")
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "west"), apart, "MemberCluster west",
			"behind the hub's", "time servers")
		for member := range wrong {
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", member),
				metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionTrue})
		}
		answer := h.Flotilla(ctx, "check")
		Expect(answer.Out).To(And(ContainSubstring("east: ClockInSync"), ContainSubstring("west: ClockInSync"),
			ContainSubstring("same time servers"),
			Not(ContainSubstring("does not renew its Lease"))), answer.Talk)
	})
})
