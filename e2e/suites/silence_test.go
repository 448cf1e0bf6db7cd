//go:build e2e

package suites_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

var _ = Describe("A member that is cut off in the middle of a rollout", func() {
	It("stops updating after 40 s, the others go on with its share, and nothing "+
		"exceeds the limits", func(ctx SpecContext) {
		ns := federated(ctx, "silence")
		mend()
		slow := harness.CloneSet(ns, "slow")
		const replicas, most = 15, 3
		h.Hub.Apply(ctx, cloneSet(ns, "slow", replicas, "slow:1", fmt.Sprint("maxUnavailable: ", most)))
		h.ExpectAtRest(ctx, slow, replicas)
		relay, undo, err := h.Relay(ctx, "east")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			through := sessionsOf(ctx)["east"]
			Expect(undo(ctx)).To(Succeed())
			expectSessions(ctx, map[string]int64{"east": through})
		})
		Expect(h.Fleet.WaitMembersReady(ctx, harness.Patience)).To(Succeed())
		expectSessions(ctx, nil)
		h.ExpectAtRest(ctx, slow, replicas)
		ownAt := func(image, cluster string) int {
			n := 0
			for _, pod := range h.PodsOf(slow) {
				if pod.Image == image && pod.Cluster == cluster {
					n++
				}
			}
			return n
		}

		before := h.Pods.Mark(ctx, ns)
		// A pod counts as available 20 s after it is ready, so that a member with one pod at a time needs 100 s for its five.
		h.Kubectl(ctx, "-n", ns, "patch", "clone/slow", "--type=json", "-p", `[
			{"op": "add", "path": "/spec/minReadySeconds", "value": 20},
			{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "slow:2"}]`)
		By("cutting east off as soon as it has updated a pod")
		Eventually(ctx, func() int {
			return ownAt("slow:2", "east")
		}).WithTimeout(2 * harness.Patience).Should(BeNumerically(">", 0))
		relay.SetCut(true)
		By("east stops, and says why")
		Eventually(ctx, func(ctx context.Context) (string, error) {
			object, err := h.Members["east"].Get(ctx, slow)
			if err != nil {
				return "", err
			}
			told, err := harness.Conditions(object)
			for _, c := range told {
				if c.Type == apps.ConditionReady && c.Status == metav1.ConditionFalse {
					return c.Reason, err
				}
			}
			return "", err
		}).WithTimeout(2 * harness.Patience).Should(Equal(conditions.ReasonHubSilent))
		Expect(h.Pods.CatchUp(ctx, ns)).To(Succeed()) // the condition may have come before the last pod
		left := ownAt("slow:1", "east")
		Expect(left).To(BeNumerically(">", 0), "east was done before it was silent")
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "east"),
			metav1.Condition{Type: topology.MemberSilent, Status: metav1.ConditionTrue,
				Reason: topology.ReasonAllowancesReclaimed}, "east", "1m20s")

		By("the others finish, with what east held")
		Eventually(ctx, func() map[string]int {
			return map[string]int{"south": ownAt("slow:2", "south"), "west": ownAt("slow:2", "west")}
		}).WithTimeout(3 * harness.Patience).Should(Equal(map[string]int{"south": 5, "west": 5}))
		Expect(h.Pods.CatchUp(ctx, ns)).To(Succeed())
		Expect(ownAt("slow:1", "east")).To(Equal(left), "east went on without the hub")

		relay.SetCut(false)
		By("east is back, and goes on, now without a wait after each pod")
		h.Kubectl(ctx, "-n", ns, "patch", "clone/slow", "--type=merge", "-p", `{"spec": {"minReadySeconds": 0}}`)
		h.ExpectPods(ctx, slow, byImage, map[string]int{"slow:2": replicas})
		h.ExpectAtRest(ctx, slow, replicas)
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "east"),
			metav1.Condition{Type: topology.MemberSilent, Status: metav1.ConditionFalse, Reason: topology.ReasonHeard})
		history := h.Pods.Since(ctx, before)
		expectInPlace(history, replicas)
		expectAtMost(history, judge.Unavailable(replicas), most, "unavailable pods")
	})
})
