//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A CloneSet over the zones of members", func() {
	It("has its numbers in each zone of each member, and a zone that is renamed under it "+
		"restarts nothing", func(ctx SpecContext) {
		ns := bare(ctx, "renamed")
		api := harness.CloneSet(ns, "api")
		for member, zone := range map[string]string{"east": "a", "west": "b", "south": "d"} {
			expectZone(ctx, member, zone)
		}
		enforce(ctx, ns, policy(ns, "zones", "CloneSet")+"  spread: {by: Zone}\n")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 12, "api:1", ""))
		h.ExpectAtRest(ctx, api, 12)
		h.ExpectPods(ctx, api, harness.ByZone, map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
		before := h.Pods.Mark(ctx, ns)

		By("renaming zone a of east")
		DeferCleanup(func(ctx SpecContext) { rezone(ctx, "east", "a", "a") })
		rezone(ctx, "east", "a", "q")
		Eventually(ctx, func(ctx context.Context) (string, error) { return cellsIn(ctx, api, "east") }).
			WithTimeout(harness.Patience).Should(ContainSubstring("q:3 ZoneRenamed"))
		expectZonesIn(ctx, api, "east", `"q":3`)
		h.ExpectAtRest(ctx, api, 12)
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
		answer := h.Flotilla(ctx, "why", "cs/api", "-n", ns, "--zone", "q")
		Expect(answer.Out).To(ContainSubstring("the zone took the place of zone a"))

		By("scaling out: new pods go to the zone by its new name")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=16")
		h.ExpectAtRest(ctx, api, 16)
		// the watcher knows nodes by their first zone
		h.ExpectPods(ctx, api, harness.ByZone, map[string]int{"a": 4, "b": 4, "c": 4, "d": 4})
		history = h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
	})

	It("is divided over members by the subsets of a WorkloadSpread, which its pods are made for", func(ctx SpecContext) {
		ns := bare(ctx, "spread")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policy(ns, "all", "CloneSet"), cloneSet(ns, "api", 0, "api:1", ""), fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: api, namespace: %s}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: api}
  subsets:
  - name: reserved
    maxReplicas: 4
    requiredNodeSelector: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - name: burst
    requiredNodeSelector: {matchExpressions: [{key: topology.flotilla.dev/cluster, operator: In, values: [south]}]}
    patch: {metadata: {labels: {tier: burst}}}
`, ns))
		expectZone(ctx, "east", "a")
		Eventually(ctx, func(ctx context.Context) (bool, error) {
			p, err := h.Placement(ctx, api)
			return p != nil && p.Spec.Spread != nil, err
		}).WithTimeout(harness.Patience).Should(BeTrue(), "the hub knows the WorkloadSpread")

		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=9")
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 4, "south": 5})
		pods := h.PodsOf(api)
		Expect(harness.Count(pods, func(p judge.PodView) string { return p.Cluster + "/" + p.Zone })["east/a"]).To(Equal(4))
		burst := &corev1.PodList{}
		Expect(h.Members["south"].Client.List(ctx, burst, client.InNamespace(ns),
			client.MatchingLabels{"tier": "burst"})).To(Succeed())
		Expect(burst.Items).To(HaveLen(5))
		Expect(h.Flotilla(ctx, "why", "cs/api", "-n", ns, "--subset",
			"burst").Out).To(ContainSubstring("south (subset burst) has 5"))

		By("scaling in: the last subset is emptied first")
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=5")
		h.ExpectAtRest(ctx, api, 5)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 4, "south": 1})
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(HaveLen(4))

		By("case 13: the pods of a removed subset stay, and go first at scale-in")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "ws/api", "--type=json", "-p", `[{"op":"remove","path":"/spec/subsets/0"}]`)
		federated := metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue}
		h.ExpectTold(ctx, api, federated, "4 of reserved in member east", "go first at scale-in")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=6")
		h.ExpectAtRest(ctx, api, 6)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 4, "south": 2})
		history = h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=3")
		h.ExpectAtRest(ctx, api, 3)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 1, "south": 2})
	})
})

var _ = Describe("Regions", func() {
	It("are divided over before their members, bounded, and named by why; a region that is renamed under a workload "+
		"moves nothing", func(ctx SpecContext) {
		ns := bare(ctx, "regions")
		api := harness.CloneSet(ns, "api")
		DeferCleanup(func(ctx SpecContext) { moveTo(ctx, "south", "eu") })
		moveTo(ctx, "south", "us")
		enforce(ctx, ns, policy(ns, "regions", "CloneSet")+"  spread: {by: Region}\n")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 8, "api:1", ""))
		h.ExpectAtRest(ctx, api, 8)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 2, "west": 2, "south": 4})
		Expect(h.Flotilla(ctx, "why", "cs/api", "-n", ns, "-C", "south").Out).To(ContainSubstring("south has 4"))

		By("a bound of one region and a share of the other")
		before := h.Pods.Mark(ctx, ns)
		enforce(ctx, ns, policy(ns, "regions", "CloneSet")+
			"  spread: {by: Region, places: [{region: us, max: 5}, {region: eu, min: 50%}, {cluster: west, max: 3}]}\n")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=14")
		h.ExpectAtRest(ctx, api, 14)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 6, "west": 3, "south": 5})
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())

		By("more than the bounds allow is not placed, and told")
		enforce(ctx, ns, policy(ns, "regions", "CloneSet")+
			"  spread: {by: Region, places: [{region: us, max: 5}, {region: eu, max: 9}]}\n")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=16")
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "Unplaced"}, "2 replicas", "raise a max")

		By("renaming a region, without bounds that would hold for the other one then")
		enforce(ctx, ns, policy(ns, "regions", "CloneSet")+"  spread: {by: Region}\n")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=14")
		h.ExpectAtRest(ctx, api, 14)
		before = h.Pods.Mark(ctx, ns)
		moveTo(ctx, "south", "eu")
		h.ExpectToldOf(ctx, harness.TopologyObject("FederationPolicy", ns, "regions"),
			metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
		h.ExpectStatusEqualsPods(ctx, api, 14)
		history = h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
	})
})

// moveTo gives all nodes of a member the label of a region, and waits until the hub knows.
func moveTo(ctx context.Context, member, region string) {
	h.Members[member].MustKubectl(ctx, "label", "nodes", "--all", "--overwrite", corev1.LabelTopologyRegion+"="+region)
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		mc := &topology.MemberCluster{}
		err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, mc)
		return mc.Status.Region, err
	}).WithTimeout(roomIsTold).Should(Equal(region))
}

// rezone gives all nodes of a member whose names say that they are of a zone the label of another one, and waits until
// the hub knows.
func rezone(ctx context.Context, member, of, zone string) {
	c := h.Members[member].Client
	nodes := &corev1.NodeList{}
	ExpectWithOffset(1, c.List(ctx, nodes)).To(Succeed())
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if strings.HasPrefix(node.Name, member+"-"+of+"-") {
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, zone)
			ExpectWithOffset(1, c.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
		}
	}
	expectZone(ctx, member, zone)
	if of != zone {
		EventuallyWithOffset(1, ctx, func(ctx context.Context) ([]string, error) { return zonesOf(ctx, member) }).
			WithTimeout(roomIsTold).ShouldNot(ContainElement(of))
	}
}

// expectZone waits until the hub knows a zone of a member.
func expectZone(ctx context.Context, member, zone string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) ([]string, error) { return zonesOf(ctx, member) }).
		WithTimeout(roomIsTold).Should(ContainElement(zone))
}

// zonesOf returns the zones that a member has reported.
func zonesOf(ctx context.Context, member string) ([]string, error) {
	mc := &topology.MemberCluster{}
	err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, mc)
	var known []string
	for i := range mc.Status.Zones {
		known = append(known, mc.Status.Zones[i].Name)
	}
	return known, err
}

// cellsIn returns the cells of a workload in a member: "b:3 Even, q:3 ZoneRenamed".
func cellsIn(ctx context.Context, w harness.Workload, member string) (string, error) {
	p, err := h.Placement(ctx, w)
	if err != nil || p == nil {
		return "", err
	}
	var cells []string
	for i := range p.Spec.Cells {
		if c := &p.Spec.Cells[i]; c.Cluster == member {
			cells = append(cells, fmt.Sprintf("%s:%d %s", c.Zone, c.Replicas, c.Reason.Code))
		}
	}
	return strings.Join(cells, ", "), nil
}

// expectZonesIn waits until a member is told zones that contain a text, and its controller acts on them.
func expectZonesIn(ctx context.Context, w harness.Workload, member, text string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		object, err := h.Members[member].Get(ctx, w)
		if err != nil {
			return "", err
		}
		seen, _, err := unstructured.NestedString(object.Object, "status", "observedSpread")
		if err != nil || seen != topology.SpreadSeen(object.GetAnnotations()) {
			return "not seen yet", err
		}
		return object.GetAnnotations()[topology.AnnotationZones], nil
	}).WithTimeout(harness.Patience).Should(ContainSubstring(text))
}
