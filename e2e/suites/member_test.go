//go:build e2e

package suites_test

import (
	"slices"
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
	It("is NotReady after 40 s without a word, keeps what it has, gets nothing new, blocks no deletion, and comes back unharmed", func(ctx SpecContext) {
		ns, other := federated(ctx, "stopped"), federated(ctx, "stopped-ns")
		mend()
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		doomed := harness.CloneSet(other, "api")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns), apiSample(other))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectAtRest(ctx, doomed, 9)
		placed := replicasOf(h.MustPlacement(ctx, web))
		before := h.Pods.Mark(ctx, ns)

		By("stopping south's control plane; its agent lives on and reaches the hub")
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
			metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionFalse, Reason: topology.ReasonLeaseExpired}, "south", "40s", "look at the agent")

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

		By("starting it again")
		Expect(h.Fleet.Member("south").Start(ctx)).To(Succeed())
		Expect(h.Fleet.WaitMembersReady(ctx, comeback)).To(Succeed())
		h.ExpectAtRest(ctx, api, 13)
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 5, "south": 3, "west": 5})
		h.ExpectGone(ctx, doomed)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(4))
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())

		By("it takes part again, at once")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=18")
		h.ExpectAtRest(ctx, api, 18)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 6, "south": 6, "west": 6})
	})
})

var _ = Describe("The hub's control plane is stopped", func() {
	It("and started: members go on and heal drift, nothing happens to any pod, and the next order is carried out", func(ctx SpecContext) {
		ns := federated(ctx, "hubless")
		mend()
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		before := h.Pods.Mark(ctx, ns)
		Expect(h.Fleet.Hub().Stop(ctx)).To(Succeed())

		By("scaling a member's object: its agent needs no hub to put it right")
		west := h.Members["west"]
		west.MustKubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=4")
		expectReplicas(ctx, west, api, 3)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3, "south": 3, "west": 3})

		By("starting the hub again")
		Expect(h.Fleet.Hub().Start(ctx)).To(Succeed())
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		history := h.Pods.Since(ctx, before)
		gone := slices.DeleteFunc(history.Gone(), func(p harness.Pod) bool { return p.Cluster == "west" })
		Expect(gone).To(BeEmpty())
		Expect(len(history.Gone())).To(Equal(len(history.Created())), "the pod too many, if there was time for it")
		Expect(history.Restarted()).To(BeEmpty())
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)
	})
})
