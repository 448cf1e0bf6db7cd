//go:build e2e

package suites_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("A member is stopped", func() {
	It("is NotReady after 40 s without a word, keeps what it has, gets nothing new, blocks no deletion, and comes back "+
		"unharmed; with Fence nothing runs twice before a person says that nothing runs there", func(ctx SpecContext) {
		ns, other, fenced := federated(ctx, "stopped"), federated(ctx, "stopped-ns"),
			failing(ctx, "fenced", "{mode: Fence, after: 20s}")
		mend()
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		doomed, single := harness.CloneSet(other, "api"), harness.CloneSet(fenced, "api")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns), apiSample(other), apiSample(fenced))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectAtRest(ctx, doomed, 9)
		h.ExpectAtRest(ctx, single, 9)
		h.ExpectPlaced(ctx, single, map[string]int{"east": 3, "south": 3, "west": 3})
		placed := replicasOf(h.MustPlacement(ctx, web))
		before, beforeFence := h.Pods.Mark(ctx, ns), h.Pods.Mark(ctx, fenced)
		refused := h.Flotilla(ctx, "fence", "south", "--confirm")
		Expect(refused.Code).NotTo(Equal(0))
		Expect(refused.Talk).To(ContainSubstring("flotilla drain south"))

		By("stopping south's control plane, with its nodes; its agent lives on and reaches the hub")
		Expect(h.Fleet.Member("south").Stop(ctx)).To(Succeed())
		south := &topology.MemberCluster{}
		Eventually(ctx, func() (metav1.ConditionStatus, error) {
			err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: "south"}, south)
			if c := meta.FindStatusCondition(south.Status.Conditions, topology.MemberReady); c != nil {
				return c.Status, err
			}
			return "", err
		}).WithTimeout(lossPatience).WithPolling(200 * time.Millisecond).Should(Equal(metav1.ConditionFalse))
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "south"),
			metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionFalse, Reason: topology.ReasonLeaseExpired},
			"south", "40s", "look at the agent")

		By("its replicas stay placed and counted, and the status says that they are of before")
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionUnknown}, "south")
		h.ExpectStatusEqualsPods(ctx, api, 9)
		h.ExpectStatusEqualsPods(ctx, web, 12)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		Expect(replicasOf(h.MustPlacement(ctx, web))).To(Equal(placed))

		By("new replicas go elsewhere")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=13")
		h.ExpectPlaced(ctx, api, map[string]int{"east": 5, "south": 3, "west": 5})
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 5, "south": 3, "west": 5})

		By("a namespace that has replicas there is deleted")
		h.Kubectl(ctx, "delete", "namespace", other, "--timeout=240s")

		By("with Fence: only after a person has confirmed it do others stand in")
		Eventually(ctx, func() string { return h.Flotilla(ctx, "why", "clone/api", "-n", fenced, "--member", "south").Out }).
			WithTimeout(lossPatience).WithPolling(time.Second).Should(ContainSubstring("flotilla fence south --confirm"))
		Expect(leavingOf(ctx, single)).To(BeEmpty())
		Expect(h.Pods.Pods(fenced)).To(HaveLen(9))
		Expect(h.Flotilla(ctx, "fence", "south").Code).To(Equal(2), "it wants to be confirmed")
		Expect(h.Flotilla(ctx, "fence", "south", "--confirm").Code).To(Equal(0))
		expectLeaving(ctx, single, map[string]int{"south": 3})
		expectServing(ctx, single, 9, "east", "west")

		By("starting it again: the word does not hold for the next loss")
		Expect(h.Fleet.Member("south").Start(ctx)).To(Succeed())
		Expect(h.Fleet.WaitMembersReady(ctx, comeback)).To(Succeed())
		expectLeaving(ctx, single, map[string]int{})
		h.ExpectAtRest(ctx, single, 9)
		history := h.Pods.Since(ctx, beforeFence)
		Expect(history.Created()).To(HaveLen(3))
		Expect(history.Gone()).To(HaveLen(3))
		h.ExpectAtRest(ctx, api, 13)
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 5, "south": 3, "west": 5})
		h.ExpectGone(ctx, doomed)
		history = h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(4))
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())

		By("it takes part again, at once")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=18")
		h.ExpectAtRest(ctx, api, 18)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 6, "south": 6, "west": 6})
	})
})
