//go:build e2e

package suites_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("What a policy's spread says", func() {
	// spreading is a policy for all CloneSets of a namespace with this spread.
	spreading := func(ns, spread string) string {
		return policy(ns, "spread", "CloneSet") + "  spread: " + spread + "\n"
	}

	It("bounds clusters, says what no fleet can place, and places it when a bound is raised", func(ctx SpecContext) {
		ns := bare(ctx, "bounds")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, spreading(ns,
			"{places: [{cluster: east, max: 2}, {cluster: west, max: 25%}, {cluster: south, max: 3}]}"), apiSample(ns))
		h.ExpectPlaced(ctx, api, map[string]int{"east": 2, "west": 2, "south": 3})
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "Unplaced"},
			api.Sentence(), "2 replicas of the workload not placed", "raise a max")
		h.Hub.Apply(ctx, spreading(ns, "{places: [{cluster: east, max: 2}]}"))
		h.ExpectAtRest(ctx, api, 9)
		placed := map[string]int{}
		for _, c := range h.MustPlacement(ctx, api).Spec.Cells {
			placed[c.Cluster] += int(c.Replicas)
		}
		Expect(placed["east"]).To(Equal(2))
	})

	It("divides by weights, and refuses bounds that contradict themselves", func(ctx SpecContext) {
		ns := bare(ctx, "weighted")
		api := harness.CloneSet(ns, "api")
		h.Hub.ExpectRefused(ctx, spreading(ns, "{places: [{cluster: east, min: 3, max: 2}]}"), "min 3 is greater than max 2")
		h.Hub.Apply(ctx, spreading(ns,
			"{type: Weighted, places: [{cluster: east, weight: 7}, {cluster: west, weight: 0}, {cluster: south, weight: 2}]}"),
			apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 7, "south": 2})

		By("weights that are all zero are nowhere, and the workload says so")
		none := bare(ctx, "weightless")
		h.Hub.Apply(ctx, spreading(none,
			"{type: Weighted, places: [{cluster: east, weight: 0}, {cluster: west, weight: 0}, {cluster: south, weight: 0}]}"),
			apiSample(none))
		weightless := harness.CloneSet(none, "api")
		h.ExpectTold(ctx, weightless, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "Unplaced"},
			weightless.Sentence(), "9 replicas of the workload not placed")
		h.ExpectPlaced(ctx, weightless, map[string]int{})
	})

	It("bounds a zone over its clusters, and a cluster over its zones", func(ctx SpecContext) {
		ns := bare(ctx, "zones")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, spreading(ns, "{by: Zone, places: [{zone: d, max: 1}, {cluster: west, max: 2}]}"), apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		zones, clusters := map[string]int{}, map[string]int{}
		for _, c := range h.MustPlacement(ctx, api).Spec.Cells {
			zones[c.Zone] += int(c.Replicas)
			clusters[c.Cluster] += int(c.Replicas)
		}
		Expect(zones["d"]).To(Equal(1))
		Expect(clusters["west"]).To(BeNumerically("<=", 2))
	})
})

var _ = Describe("How a spread divides", func() {
	It("Compact fills one member, Available goes by room, and zones differ by no more than maxSkew but for their own "+
		"bounds", func(ctx SpecContext) {
		ns := bare(ctx, "types")
		spread := func(name, text string) {
			selected := strings.Replace(policy(ns, name, "CloneSet"), "- kind: CloneSet", "- {kind: CloneSet, name: "+
				name+"}", 1)
			enforce(ctx, ns, selected+"  spread: "+text+"\n")
			h.Hub.Apply(ctx, cloneSet(ns, name, 9, "a:1", ""))
		}
		spread("compact", "{type: Compact}")
		compact := harness.CloneSet(ns, "compact")
		h.ExpectAtRest(ctx, compact, 9)
		Expect(harness.Count(h.PodsOf(compact), harness.ByCluster)).To(HaveLen(1), "the members with pods")

		spread("available", "{type: Available}")
		available := harness.CloneSet(ns, "available")
		h.ExpectAtRest(ctx, available, 9)
		for member, count := range harness.Count(h.PodsOf(available), harness.ByCluster) {
			Expect(count).To(BeNumerically("~", 3, 1), "%s has about the room of the others", member)
		}

		spread("skewed", "{by: Zone, maxSkew: 1, places: [{zone: d, max: 1}]}")
		skewed := harness.CloneSet(ns, "skewed")
		h.ExpectAtRest(ctx, skewed, 9)
		zones := harness.Count(h.PodsOf(skewed), harness.ByZone)
		Expect(zones["d"]).To(Equal(1))
		for _, zone := range []string{"a", "b", "c"} { // which of them has the odd replica goes by room
			Expect(zones[zone]).To(BeNumerically("~", 2.5, 0.5), "%v", zones)
		}
	})
})

var _ = Describe("What a member can take", func() {
	It("leaves pods unplaced that fit nowhere, and places them when they fit", func(ctx SpecContext) {
		ns := bare(ctx, "room")
		h.Hub.Apply(ctx, policy(ns, "zones", "CloneSet")+"  spread: {by: Zone}\n", apiSample(ns))
		// The hub knows the zones of the members, and so what they have.
		h.ExpectAtRest(ctx, harness.CloneSet(ns, "api"), 9)

		By("asking for more than any zone has")
		large := harness.CloneSet(ns, "large")
		h.Hub.Apply(ctx, fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: large, namespace: %s}
spec:
  replicas: 3
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec:
      containers: [{name: main, image: "%s", resources: {requests: {cpu: "1000"}}}]
`, ns, webImage))
		h.ExpectTold(ctx, large, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "Unplaced"},
			large.Sentence(), "3 replicas of the workload not placed", "no room")

		By("asking for less")
		h.Kubectl(ctx, "-n", ns, "patch", "clone/large", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "10m"}]`)
		h.ExpectAtRest(ctx, large, 3)
	})

	It("is left when it gets a taint with NoExecute", func(ctx SpecContext) {
		ns := federated(ctx, "taints")
		api := harness.CloneSet(ns, "api")
		DeferCleanup(func(ctx SpecContext) {
			h.Kubectl(ctx, "patch", "mc/west", "--type=merge", "-p", `{"spec": {"taints": null}}`)
		})
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		h.Kubectl(ctx, "patch", "mc/west", "--type=merge", "-p",
			`{"spec": {"taints": [{"key": "drain", "effect": "NoExecute"}]}}`)
		Eventually(ctx, func() int {
			return harness.Count(h.PodsOf(api), harness.ByCluster)["west"]
		}).WithTimeout(harness.Patience).Should(BeZero())
		h.ExpectAtRest(ctx, api, 9)

		By("a policy that tolerates it lets its workloads have a part there")
		enforce(ctx, ns, strings.Replace(strings.Replace(policy(ns, "tolerant", "CloneSet"), "- kind: CloneSet",
			"- {kind: CloneSet, name: bold}", 1),
			"clusters: {", "clusters: {tolerations: [{key: drain, operator: Exists}], ", 1))
		bold := harness.CloneSet(ns, "bold")
		h.Hub.Apply(ctx, cloneSet(ns, "bold", 6, "a:1", ""))
		h.ExpectAtRest(ctx, bold, 6)
		h.ExpectPods(ctx, bold, harness.ByCluster, map[string]int{"east": 2, "south": 2, "west": 2})
	})
})
