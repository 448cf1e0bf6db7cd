//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// reschedulePatience is how long a pod without a node may take to run elsewhere: 15 s of reschedule.after, and the rest
// for a busy machine. retryPatience adds the minute that the member gets nothing more.
const (
	reschedulePatience = 4 * time.Minute
	retryPatience      = 5 * time.Minute
)

// rememberedOf returns what is remembered of a member that found no node, nil if nothing is.
func rememberedOf(ctx context.Context, w harness.Workload, member string) *topology.Unschedulable {
	for _, c := range h.MustPlacement(ctx, w).Spec.Cells {
		if c.Cluster == member {
			return c.Unschedulable
		}
	}
	return nil
}

// expectRunning waits until the pods of a workload serve in the members as wanted, and there are no others.
func expectRunning(ctx context.Context, w harness.Workload, want map[string]int) {
	EventuallyWithOffset(1, ctx, func() map[string]int {
		serving := map[string]int{}
		for _, pod := range h.PodsOf(w) {
			if pod.Serves() {
				serving[pod.Cluster]++
			} else {
				serving[pod.Cluster+", not serving"]++
			}
		}
		return serving
	}).WithTimeout(reschedulePatience).WithPolling(200 * time.Millisecond).Should(Equal(want))
}

var _ = Describe("A member finds no node", func() {
	It("moves pods that a member cannot schedule, and uses capacity that returns", func(ctx SpecContext) {
		ns := bare(ctx, "reschedule")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		east := h.Members["east"]
		enforce(ctx, ns, policy(ns, "everywhere", "CloneSet", "UnitedDeployment")+"  reschedule: {after: 15s}\n")
		DeferCleanup(func(ctx SpecContext) {
			if out, err := east.Kubectl(ctx, "taint", "node", "--all", "story-"); err != nil {
				Expect(err).To(MatchError(ContainSubstring("not found")), out) // the spec took it away itself
			}
		})
		By("tainting the nodes of east: the hub does not see that")
		east.MustKubectl(ctx, "taint", "node", "--all", "story=full:NoSchedule")
		before := h.Pods.Mark(ctx, ns)
		h.Hub.Apply(ctx, cloneSet(ns, "api", 6, "api:1", ""), fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web, namespace: %s}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    deploymentTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec:
            containers: [{name: main, image: "web:1"}]
  topology:
    subsets: [{name: all}]
`, ns))
		expectRunning(ctx, api, map[string]int{"south": 3, "west": 3})
		Eventually(ctx, func() int {
			return harness.Count(h.PodsOf(web), harness.ByCluster)["east"]
		}).WithTimeout(reschedulePatience).Should(BeZero())
		By("all run elsewhere")
		h.ExpectAtRest(ctx, api, 6)
		h.ExpectAtRest(ctx, web, 3)
		history := h.Pods.Since(ctx, before)
		for _, pod := range history.Gone() {
			Expect(pod.Cluster).To(Equal("east"), "only pods without a node go: %s", pod)
		}
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue,
			Reason: "Placed"}, "member east found nodes for no more than 0 replicas")
		why := h.Flotilla(ctx, "why", "clone/api", "-n", ns, "--member", "east")
		Expect(why.Out).To(ContainSubstring("found no node"))

		By("taking the taint away: nothing that runs moves, and what is added comes there when its time has come")
		before = h.Pods.Mark(ctx, ns)
		east.MustKubectl(ctx, "taint", "node", "--all", "story-")
		Eventually(ctx, func() bool {
			had := rememberedOf(ctx, api, "east")
			return had != nil && had.RetryAfter.Time.Before(time.Now())
		}).WithTimeout(retryPatience).WithPolling(200 * time.Millisecond).Should(BeTrue())
		By("one is tried")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=7")
		h.ExpectPlaced(ctx, api, map[string]int{"east": 1, "south": 3, "west": 3})
		h.ExpectAtRest(ctx, api, 7)
		By("it runs: the member gets what it lacks")
		Eventually(ctx, func() *topology.Unschedulable {
			return rememberedOf(ctx, api, "east")
		}).WithTimeout(reschedulePatience).Should(BeNil())
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=9")
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		h.ExpectAtRest(ctx, api, 9)
		history = h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
	})

	It("with the strategy Adaptive what no member of a subset takes runs in the next subset, and what is added goes "+
		"where nodes came back", func(ctx SpecContext) {
		ns := bare(ctx, "adaptive")
		web, west := harness.UnitedDeployment(ns, "web"), h.Members["west"]
		enforce(ctx, ns, policy(ns, "everywhere", "UnitedDeployment"))
		DeferCleanup(func(ctx SpecContext) {
			if out, err := west.Kubectl(ctx, "taint", "node", "--all", "adaptive-"); err != nil {
				Expect(err).To(MatchError(ContainSubstring("not found")), out) // the spec took it away itself
			}
		})
		By("tainting the nodes of west: the hub does not see that")
		west.MustKubectl(ctx, "taint", "node", "--all", "adaptive=full:NoSchedule")
		in := func(name, member, numbers string) string {
			return fmt.Sprintf(`{name: %s, nodeSelectorTerm: {matchExpressions: [{key: %s, operator: In, values: [%s]}]}%s}`,
				name, topology.LabelCluster, member, prefixed(numbers))
		}
		// The published example: the second of three subsets finds no node.
		h.Hub.Apply(ctx, unitedDeployment(ns, "web", 3, in("one", "east", "maxReplicas: 2"),
			in("two", "west", "maxReplicas: 2"), in("three", "south", ""))+
			"    scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 5, unschedulableDuration: 15}}\n")
		expectRunning(ctx, web, map[string]int{"east": 2, "south": 1})
		h.ExpectAtRest(ctx, web, 3)
		h.ExpectTold(ctx, web, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue,
			Reason: "Placed"},
			"by the strategy Adaptive subset two has 0 of its 1 replicas, and instead subset three has 1 more")
		Expect(h.Flotilla(ctx, "why", "ud/web", "-n", ns, "--member", "south").Out).To(ContainSubstring("[StandIn]"))
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=5")
		expectRunning(ctx, web, map[string]int{"east": 2, "south": 3})

		By("taking the taint away: nothing that runs moves, and what is added goes to the subsets in their order")
		h.ExpectAtRest(ctx, web, 5)
		before := h.Pods.Mark(ctx, ns)
		west.MustKubectl(ctx, "taint", "node", "--all", "adaptive-")
		Eventually(ctx, func() bool {
			had := rememberedOf(ctx, web, "west")
			return had != nil && had.RetryAfter.Time.Before(time.Now())
		}).WithTimeout(retryPatience).WithPolling(200 * time.Millisecond).Should(BeTrue())
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=7")
		h.ExpectAtRest(ctx, web, 7)
		h.ExpectPods(ctx, web, harness.ByCluster, map[string]int{"east": 2, "south": 3, "west": 2})
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
	})
})
