//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// lossPatience is how long a member takes to be given up: 40 s until it is NotReady, 20 s of failover.after, 40 s of a
// hub that was restarted, and the rest for a busy machine.
const lossPatience = 4 * time.Minute

// failing is a namespace with a policy for CloneSets that has this failover.
func failing(ctx context.Context, name, failover string) string {
	ns := bare(ctx, name)
	failBy(ctx, ns, failover)
	return ns
}

// failBy gives the policy of failing another failover, and waits until the hub has seen it.
func failBy(ctx context.Context, ns, failover string) {
	enforce(ctx, ns, policy(ns, "everywhere", "CloneSet")+"  failover: "+failover+"\n")
}

// leavingOf returns what others stand in for, by member.
func leavingOf(ctx context.Context, w harness.Workload) map[string]int {
	leaving := map[string]int{}
	for _, c := range h.MustPlacement(ctx, w).Spec.Cells {
		if c.Replaced > 0 {
			leaving[c.Cluster] += int(c.Replaced)
		}
	}
	return leaving
}

func expectLeaving(ctx context.Context, w harness.Workload, want map[string]int) {
	EventuallyWithOffset(1, ctx, func() map[string]int {
		return leavingOf(ctx, w)
	}).WithTimeout(lossPatience).WithPolling(200 * time.Millisecond).Should(Equal(want))
}

// readyOf returns the condition Ready of a member.
func readyOf(ctx context.Context, member string) (metav1.Condition, error) {
	m := &topology.MemberCluster{}
	if err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
		return metav1.Condition{}, err
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady); c != nil {
		return *c, nil
	}
	return metav1.Condition{}, fmt.Errorf("MemberCluster %s has no condition Ready", member)
}

func expectNotReady(ctx context.Context, members ...string) {
	for _, member := range members {
		EventuallyWithOffset(1, ctx, func() (metav1.ConditionStatus, error) {
			c, err := readyOf(ctx, member)
			return c.Status, err
		}).WithTimeout(lossPatience).WithPolling(200 * time.Millisecond).Should(Equal(metav1.ConditionFalse))
	}
}

// expectServing waits until this many pods of the workload serve in some members.
func expectServing(ctx context.Context, w harness.Workload, want int, members ...string) {
	EventuallyWithOffset(1, ctx, func() (serving int) {
		for _, pod := range h.PodsOf(w) {
			for _, member := range members {
				if pod.Cluster == member && pod.Serves() {
					serving++
				}
			}
		}
		return serving
	}).WithTimeout(lossPatience).WithPolling(200 * time.Millisecond).Should(Equal(want))
}

var _ = Describe("A member is lost", func() {
	It("7.7-4: its replicas run elsewhere after failover.after, also with a hub that is restarted meanwhile; it "+
		"returns, and its pods go only as the others are available", func(ctx SpecContext) {
		ns := failing(ctx, "lost", "{mode: Replace, after: 20s}")
		mend()
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		before := h.Pods.Mark(ctx, ns)

		By("killing south's agent: its pods run on, and nobody knows")
		kill(ctx, fleet.AgentName("south"))
		killed := time.Now()
		expectNotReady(ctx, "south")
		detected := time.Since(killed)
		lostSince, err := readyOf(ctx, "south")
		Expect(err).NotTo(HaveOccurred())
		kill(ctx, fleet.HubProgram)
		restart(ctx, fleet.HubProgram)

		expectLeaving(ctx, api, map[string]int{"south": 3})
		decided := time.Since(killed)
		since, err := readyOf(ctx, "south")
		Expect(err).NotTo(HaveOccurred())
		Expect(since.LastTransitionTime.Equal(&lostSince.LastTransitionTime)).To(BeTrue(), "the countdown began anew")
		expectServing(ctx, api, 9, "east", "west")
		serving := time.Since(killed)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionTrue})
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue,
			Reason: "Placed"}, "south", "lost", "3 replicas")
		Expect(harness.Count(h.PodsOf(api), harness.ByCluster)["south"]).To(Equal(3), "nobody told its pods to go")
		why := h.Flotilla(ctx, "why", "clone/api", "-n", ns, "--member", "south")
		Expect(why.Out).To(ContainSubstring("lost"))

		By("the agent comes back")
		restart(ctx, fleet.AgentName("south"))
		expectLeaving(ctx, api, map[string]int{})
		h.ExpectAtRest(ctx, api, 9)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(3), "as many as were replaced")
		Expect(history.Gone()).To(HaveLen(3))
		for _, pod := range history.Gone() {
			Expect(pod.Cluster).To(Equal("south"), "replacements that run stay: %s", pod)
		}
		Expect(history.Restarted()).To(BeEmpty())
		expectAtMost(history, judge.Unavailable(9), 0, "pods are missing")
		AddReportEntry("failover", ReportEntryVisibilityAlways, fmt.Sprintf(
			"from the end of the agent: NotReady after %.1f s, placed elsewhere after %.1f s (40 s, and failover.after 20 "+
				"s), all replacements Ready after %.1f s; for 3 lost replicas %d pods were created and %d removed after the return",
			detected.Seconds(), decided.Seconds(), serving.Seconds(), len(history.Created()), len(history.Gone())))
	})

	It("together with others: none of them is given up; the hub down for all: no member is judged, no "+
		"pod comes or goes", func(ctx SpecContext) {
		const replace, never = "{mode: Replace, after: 20s}", "{mode: Never}"
		// While agents go and come, which they need not do at once, nobody is to be given up.
		ns, drifting := failing(ctx, "many", never), federated(ctx, "hubless")
		mend()
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		placed := replicasOf(h.MustPlacement(ctx, api))
		before := h.Pods.Mark(ctx, ns)
		lost := []string{"south", "west"}

		By("stopping two of three agents")
		kill(ctx, fleet.AgentName("south"), fleet.AgentName("west"))
		expectNotReady(ctx, lost...)
		for _, member := range lost {
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", member),
				metav1.Condition{Type: topology.MemberFailoverHeld, Status: metav1.ConditionTrue,
					Reason: topology.ReasonMassFailure}, member, "flotilla fence")
		}
		failBy(ctx, ns, replace)
		Eventually(ctx, func() string { return h.Flotilla(ctx, "why", "clone/api", "-n", ns, "--member", "south").Out }).
			WithTimeout(lossPatience).WithPolling(time.Second).Should(ContainSubstring("too many members"))
		// Longer than failover.after: each of them alone would be given up.
		Consistently(ctx, func() map[string]int {
			return leavingOf(ctx, api)
		}).WithTimeout(25 * time.Second).WithPolling(time.Second).Should(BeEmpty())
		failBy(ctx, ns, never)
		restart(ctx, fleet.AgentName("south"), fleet.AgentName("west"))
		Expect(h.Fleet.WaitMembersReady(ctx, lossPatience)).To(Succeed())
		for _, member := range lost {
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", member),
				metav1.Condition{Type: topology.MemberFailoverHeld, Status: metav1.ConditionFalse,
					Reason: topology.ReasonNoMassFailure})
		}
		failBy(ctx, ns, replace)

		By("stopping the hub's control plane for longer than it takes to give a member up")
		drifted, web := harness.CloneSet(drifting, "api"), harness.UnitedDeployment(drifting, "web")
		h.Hub.Apply(ctx, apiSample(drifting), webSample(drifting))
		h.ExpectAtRest(ctx, drifted, 9)
		h.ExpectAtRest(ctx, web, 12)
		beforeDrift := h.Pods.Mark(ctx, drifting)
		since := map[string]metav1.Time{}
		for _, member := range h.MemberNames() {
			c, err := readyOf(ctx, member)
			Expect(err).NotTo(HaveOccurred())
			since[member] = c.LastTransitionTime
		}
		Expect(h.Fleet.Hub().Stop(ctx)).To(Succeed())
		away := time.Now()

		By("scaling a member's object: its agent needs no hub to put it right")
		west := h.Members["west"]
		west.MustKubectl(ctx, "-n", drifting, "scale", "clone/api", "--replicas=4")
		expectReplicas(ctx, west, drifted, 3)
		h.ExpectPods(ctx, drifted, harness.ByCluster, map[string]int{"east": 3, "south": 3, "west": 3})
		const judged = 65 * time.Second // 40 s until a member is NotReady, 20 s of failover.after
		Consistently(ctx, func() int { return len(h.Pods.Pods(ns)) }).WithTimeout(max(time.Second,
			judged-time.Since(away))).WithPolling(time.Second).Should(Equal(9))

		By("starting the hub again")
		Expect(h.Fleet.Hub().Start(ctx)).To(Succeed())
		Expect(h.Mend(ctx)).To(Succeed())
		h.ExpectAtRest(ctx, api, 9)
		Expect(replicasOf(h.MustPlacement(ctx, api))).To(Equal(placed))
		harness.ExpectUntouched(h.Pods.Since(ctx, before))
		for _, member := range h.MemberNames() {
			c, err := readyOf(ctx, member)
			Expect(err).NotTo(HaveOccurred())
			Expect(c.Status).To(Equal(metav1.ConditionTrue))
			at := since[member]
			Expect(c.LastTransitionTime.Equal(&at)).To(BeTrue(), "%s was NotReady for a while", member)
		}
		h.ExpectAtRest(ctx, drifted, 9)
		h.ExpectAtRest(ctx, web, 12)
		history := h.Pods.Since(ctx, beforeDrift)
		gone := slices.DeleteFunc(history.Gone(), func(p judge.PodView) bool { return p.Cluster == "west" })
		Expect(gone).To(BeEmpty())
		Expect(len(history.Gone())).To(Equal(len(history.Created())), "the pod too many, if there was time for it")
		Expect(history.Restarted()).To(BeEmpty())
		h.Kubectl(ctx, "-n", drifting, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, drifted, 12)
	})
})

var _ = Describe("A member is drained", func() {
	It("within the limits of each workload, and tells its progress; undone, what has moved stays", func(ctx SpecContext) {
		ns := federated(ctx, "drained")
		DeferCleanup(func(ctx SpecContext) { Expect(h.Flotilla(ctx, "drain", "west", "--undo").Code).To(Equal(0)) })
		api, surge := harness.CloneSet(ns, "api"), harness.CloneSet(ns, "surge")
		h.Hub.Apply(ctx, apiSample(ns), cloneSet(ns, "surge", 6, "slow:1", "maxSurge: 1, maxUnavailable: 0"))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, surge, 6)
		before := h.Pods.Mark(ctx, ns)

		drained := h.Flotilla(ctx, "drain", "west", "--wait", "--timeout=8m")
		Expect(drained.Code).To(Equal(0), drained.Talk)
		Expect(drained.Out).To(ContainSubstring(surge.Sentence()))
		Expect(drained.Out).To(HaveSuffix("0 pods are left\n"))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, surge, 6)
		history := h.Pods.Since(ctx, before)
		expectAtMost(history, ofName("api", judge.Unavailable(9)), 2, "pods of api are missing")
		expectAtMost(history, ofName("api", judge.Existing), 9, "pods of api exist")
		expectAtMost(history, ofName("surge", judge.Unavailable(6)), 0, "pods of surge are missing")
		expectAtMost(history, ofName("surge", judge.Existing), 7, "pods of surge exist")
		Expect(history.Restarted()).To(BeEmpty())

		By("undoing it")
		again := h.Pods.Mark(ctx, ns)
		Expect(h.Flotilla(ctx, "drain", "west", "--undo").Code).To(Equal(0))
		h.ExpectAtRest(ctx, api, 9)
		harness.ExpectUntouched(h.Pods.Since(ctx, again))
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)
		h.ExpectPods(ctx, api, harness.ByCluster, placedNow(ctx, api))
		Expect(harness.Count(h.PodsOf(api), harness.ByCluster)["west"]).To(Equal(3))
	})
})

// replicasOf is what a placement says of pods: the replicas of each cell. What is lent to a cell, the number of its
// order and the reason of both follow what members report, also where nothing happens to any pod.
func replicasOf(p *topology.WorkloadPlacement) map[string]int32 {
	cells := map[string]int32{}
	for i := range p.Spec.Cells {
		c := &p.Spec.Cells[i]
		cells[fmt.Sprintf("subset %q in %s, zone %q", c.Subset, c.Cluster, c.Zone)] = c.Replicas
	}
	return cells
}

// placedNow is what the placement gives each member.
func placedNow(ctx context.Context, w harness.Workload) map[string]int {
	clusters := map[string]int{}
	for _, c := range h.MustPlacement(ctx, w).Spec.Cells {
		clusters[c.Cluster] += int(c.Replicas)
	}
	return clusters
}
