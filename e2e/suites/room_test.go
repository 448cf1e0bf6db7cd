//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// roomIsTold bounds how long the hub may take to know the room of a member: agents look at amounts every 33 s at most,
// and the rest is for a busy machine.
const roomIsTold = 3 * time.Minute

// expectZones waits until the hub knows the zones of a member, and how many of its nodes are ready: "6/6".
func expectZones(ctx context.Context, member, zones, nodes string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		m := &topology.MemberCluster{}
		err := h.Hub.Client.Get(ctx, types.NamespacedName{Name: member}, m)
		return m.Status.ZoneNames + " " + m.Status.Nodes, err
	}).WithTimeout(harness.Patience).Should(Equal(zones + " " + nodes))
}

// hubHasSeen waits until the hub has answered a policy that comes now, and that no workload of the namespace needs:
// what members had told by then it knows. A workload that is scaled at once could be divided by what was before.
func hubHasSeen(ctx context.Context, ns, what string) {
	enforce(ctx, ns, policyOn(ns, what, "east", "UnitedDeployment"))
}

// inZones waits until the placement of a workload has these replicas by zone, those without any left out.
func inZones(ctx context.Context, w harness.Workload, want map[string]int) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (map[string]int, error) {
		p, err := h.Placement(ctx, w)
		zones := map[string]int{}
		if err == nil && p != nil {
			for _, c := range p.Spec.Cells {
				if c.Replicas > 0 {
					zones[c.Zone] += int(c.Replicas)
				}
			}
		}
		return zones, err
	}).WithTimeout(harness.Patience).Should(Equal(want), w.Sentence()+" by zone")
}

// federation.md 7.7, number 9.
var _ = Describe("Zones inside a member", func() {
	It("7.7-9: one cluster in three zones, a zone whose nodes take nothing new, and a zone label "+
		"that disappears", func(ctx SpecContext) {
		ns := bare(ctx, "three-zones")
		east, api := h.Members["east"], harness.CloneSet(ns, "api")
		DeferCleanup(func(ctx SpecContext) {
			east.MustKubectl(ctx, "uncordon", "east-b-0", "east-b-1")
			east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"=a", "--overwrite")
			expectZones(ctx, "east", "a,b", "4/4")
		})
		east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"=third", "--overwrite")
		expectZones(ctx, "east", "a,b,third", "4/4")
		// by then the hub knows the zone, too
		enforce(ctx, ns, policyOn(ns, "zones", "east", "CloneSet")+"  spread: {by: Zone}\n")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 6, "api:1", "maxUnavailable: 2"))
		inZones(ctx, api, map[string]int{"a": 2, "b": 2, "third": 2})
		h.ExpectAtRest(ctx, api, 6)

		By("a zone without capacity: what it has stays, what is new goes to the others")
		east.MustKubectl(ctx, "cordon", "east-b-0", "east-b-1")
		expectZones(ctx, "east", "a,b,third", "2/4")
		hubHasSeen(ctx, ns, "zone-shut")
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=10")
		inZones(ctx, api, map[string]int{"a": 4, "b": 2, "third": 4})
		h.ExpectAtRest(ctx, api, 10)
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
		for _, pod := range history.Created() {
			Expect(pod.Node).NotTo(HavePrefix("east-b-"), pod.String())
		}
		east.MustKubectl(ctx, "uncordon", "east-b-0", "east-b-1")
		expectZones(ctx, "east", "a,b,third", "4/4")

		By("the label of a zone disappears: its replicas go to the zones that are left, and none is lost")
		before = h.Pods.Mark(ctx, ns)
		east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"-")
		inZones(ctx, api, map[string]int{"a": 5, "b": 5})
		h.ExpectAtRest(ctx, api, 10)
		history = h.Pods.Since(ctx, before)
		expectAtMost(history, judge.Unavailable(10), 2, "unavailable pods")

		By("the label comes back")
		east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"=third")
		expectZones(ctx, "east", "a,b,third", "4/4")
		hubHasSeen(ctx, ns, "zone-back")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		inZones(ctx, api, map[string]int{"a": 5, "b": 5, "third": 2})
		h.ExpectAtRest(ctx, api, 12)
	})
})

var _ = Describe("Room of a member", func() {
	It("is shared by workloads that come together, and what one leaves another one gets", func(ctx SpecContext) {
		ns := bare(ctx, "share")
		// Three pods fit on a node, by what the member reports: six in a zone.
		node := &corev1.Node{}
		Expect(h.Members["south"].Client.Get(ctx, client.ObjectKey{Name: "south-c-0"}, node)).To(Succeed())
		cpu := node.Status.Allocatable[corev1.ResourceCPU]
		pod := cpu.MilliValue() * 30 / 100
		large := func(name string) string {
			return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: 8
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      containers: [{name: main, image: "web:1", resources: {requests: {cpu: %[3]dm}}}]
`, ns, name, pod)
		}
		one, two := harness.CloneSet(ns, "one"), harness.CloneSet(ns, "two")
		enforce(ctx, ns, policyOn(ns, "south", "south", "CloneSet"))
		h.Hub.Apply(ctx, large("one"), large("two"))
		placed := func(w harness.Workload) (n int) {
			if p, err := h.Placement(ctx, w); err == nil && p != nil {
				n = int(p.Spec.Placed)
			}
			return n
		}
		ready := func(w harness.Workload) (n int) {
			for _, pod := range h.PodsOf(w) {
				if pod.Serves() {
					n++
				}
			}
			return n
		}
		// Pods that wait for their node for long, as on a busy machine, may have their room given once more; what does not
		// fit waits there.
		Eventually(ctx, func() string {
			all, pods := placed(one)+placed(two), len(h.PodsOf(one))+len(h.PodsOf(two))
			return fmt.Sprintf("enough placed %t, all of that made %t, %d ready", all >= 12, pods == all, ready(one)+ready(two))
		}).WithTimeout(roomIsTold).Should(Equal("enough placed true, all of that made true, 12 ready"))
		short := one
		if ready(one) == 8 {
			short = two
		}
		if placed(short) < 8 {
			h.ExpectTold(ctx, short, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
				Reason: "Unplaced"}, "no room")
		}

		By("deleting one: the other one gets what it leaves")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/"+map[bool]string{true: "two", false: "one"}[short == one])
		Eventually(ctx, func() string {
			return fmt.Sprintf("%d placed, %d ready", placed(short), ready(short))
		}).WithTimeout(roomIsTold).Should(Equal("8 placed, 8 ready"))
		h.ExpectAtRest(ctx, short, 8)
	})
})
