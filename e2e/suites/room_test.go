//go:build e2e

package suites_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// roomIsTold bounds how long the hub may take to know the room of a member: agents look at amounts every 33 s at most, and
// the rest is for a busy machine.
const roomIsTold = 3 * time.Minute

// expectZones waits until the hub knows the zones of a member, and how many of its nodes are ready: "6/6".
func expectZones(ctx context.Context, member, zones, nodes string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		m := &topology.MemberCluster{}
		err := h.Hub.Client.Get(ctx, types.NamespacedName{Name: member}, m)
		return m.Status.ZoneNames + " " + m.Status.Nodes, err
	}).WithTimeout(harness.Patience).Should(Equal(zones + " " + nodes))
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
	It("7.7-9: one cluster in three zones, a zone whose nodes take nothing new, and a zone label that disappears", func(ctx SpecContext) {
		ns := bare(ctx, "three-zones")
		east, api := h.Members["east"], harness.CloneSet(ns, "api")
		DeferCleanup(func(ctx SpecContext) {
			east.MustKubectl(ctx, "uncordon", "east-b-0", "east-b-1")
			east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"=a", "--overwrite")
			expectZones(ctx, "east", "a,b", "4/4")
		})
		east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"=third", "--overwrite")
		expectZones(ctx, "east", "a,b,third", "4/4")
		h.Hub.Apply(ctx, policyOn(ns, "zones", "east", "CloneSet")+"  spread: {by: Zone}\n", cloneSet(ns, "api", 6, "api:1", "maxUnavailable: 2"))
		inZones(ctx, api, map[string]int{"a": 2, "b": 2, "third": 2})
		h.ExpectAtRest(ctx, api, 6)

		By("a zone without capacity: what it has stays, what is new goes to the others")
		east.MustKubectl(ctx, "cordon", "east-b-0", "east-b-1")
		expectZones(ctx, "east", "a,b,third", "2/4")
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
		expectAtMost(history, harness.Unavailable(10), 2, "unavailable pods")

		By("the label comes back")
		east.MustKubectl(ctx, "label", "node", "east-a-1", corev1.LabelTopologyZone+"=third")
		expectZones(ctx, "east", "a,b,third", "4/4")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		inZones(ctx, api, map[string]int{"a": 5, "b": 5, "third": 2})
		h.ExpectAtRest(ctx, api, 12)
	})
})
