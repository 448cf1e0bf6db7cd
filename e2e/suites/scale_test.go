//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/topology/division"
)

var _ = Describe("Scaling a UnitedDeployment with kubectl scale", func() {
	It("changes the zones as the rules say, 12 → 30 → 7 → 8, and nothing else moves", func(ctx SpecContext) {
		ns := federated(ctx, "scale")
		web := harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, webSample(ns))
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
		cells := expectCells(ctx, web, 12, nil)

		By("12 → 30: a quarter, rounded to 8, in zone a; 22 over the three open zones")
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=30")
		h.ExpectAtRest(ctx, web, 30)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 8, "b": 7, "c": 7, "d": 8})
		cells = expectCells(ctx, web, 30, cells)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(18))
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())

		By("30 → 7")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=7")
		h.ExpectAtRest(ctx, web, 7)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 2, "b": 1, "c": 2, "d": 2})
		cells = expectCells(ctx, web, 7, cells)
		history = h.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		Expect(history.Gone()).To(HaveLen(23))
		Expect(history.Restarted()).To(BeEmpty())

		By("7 → 8: one pod more, in one cell")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=8")
		h.ExpectAtRest(ctx, web, 8)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 2, "b": 2, "c": 2, "d": 2})
		expectCells(ctx, web, 8, cells)
		history = h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(1))
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
	})

	It("goes to zero and comes back, with a Deployment in its template", func(ctx SpecContext) {
		ns := federated(ctx, "deploy")
		shop := harness.UnitedDeployment(ns, "shop")
		h.Hub.Apply(ctx, `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: shop, namespace: `+ns+`}
spec:
  replicas: 6
  selector: {matchLabels: {app: shop}}
  template:
    deploymentTemplate:
      metadata: {labels: {app: shop}}
      spec:
        selector: {matchLabels: {app: shop}}
        template:
          metadata: {labels: {app: shop}}
          spec:
            containers: [{name: main, image: "shop:1"}]
  topology:
    subsets:
    - `+subset("b", "b", "replicas: 50%")+`
    - `+subset("d", "d", "")+`
`)
		h.ExpectAtRest(ctx, shop, 6)
		h.ExpectPods(ctx, shop, harness.ByZone, map[string]int{"b": 3, "d": 3})
		h.Kubectl(ctx, "-n", ns, "scale", "ud/shop", "--replicas=0")
		h.ExpectAtRest(ctx, shop, 0)
		h.Kubectl(ctx, "-n", ns, "scale", "ud/shop", "--replicas=4")
		h.ExpectAtRest(ctx, shop, 4)
		h.ExpectPods(ctx, shop, harness.ByZone, map[string]int{"b": 2, "d": 2})
	})
})

// cell names a subset in a cluster.
type cell struct{ subset, cluster string }

// expectCells holds that placement and pods are what package division says of the sample UnitedDeployment, starting
// from the cells of the last decision, and returns the cells. Which of two equal cells of a subset has the odd replica
// goes by the room that their members reported last, so that either may; nothing else is open.
func expectCells(ctx context.Context, web harness.Workload, replicas int32, last map[cell]int) map[cell]int {
	quarter := intstr.FromString("25%")
	in := division.Input{
		Replicas: replicas, Salt: web.Key().String(),
		Subsets: []division.Subset{{Name: "zone-a", Replicas: &quarter}, {Name: "zone-b"}, {Name: "zone-c"},
			{Name: "zone-d"}},
	}
	for _, c := range []cell{
		{"zone-a", "east"}, {"zone-b", "east"}, {"zone-b", "west"}, {"zone-c", "west"}, {"zone-c", "south"},
		{"zone-d", "south"},
	} {
		in.Cells = append(in.Cells, division.Cell{Subset: c.subset, Cluster: c.cluster, Weight: 1, Current: int32(last[c])})
	}
	plan, err := division.Divide(in)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	want := map[cell]int{}
	for _, share := range plan.Cells {
		if share.Replicas > 0 {
			want[cell{share.Subset, share.Cluster}] = int(share.Replicas)
		}
	}
	placed := map[cell]int{}
	for _, c := range h.MustPlacement(ctx, web).Spec.Cells {
		if c.Replicas > 0 {
			placed[cell{c.Subset, c.Cluster}] = int(c.Replicas)
		}
	}
	ExpectWithOffset(1, bySubset(placed)).To(Equal(bySubset(want)), "the placement, %v instead of %v", placed, want)
	before, now := bySubset(last), bySubset(placed)
	for c, had := range last {
		if grew := sum(now[c.subset]) - sum(before[c.subset]); grew >= 0 {
			ExpectWithOffset(1, placed[c]).To(BeNumerically(">=", had), "%v, which grew by %d", c, grew)
		} else {
			ExpectWithOffset(1, placed[c]).To(BeNumerically("<=", had), "%v, which shrank by %d", c, -grew)
		}
	}
	pods := map[cell]int{}
	for _, pod := range h.PodsOf(web) {
		pods[cell{pod.Subset, pod.Cluster}]++
	}
	ExpectWithOffset(1, pods).To(Equal(placed), "the pods")
	return placed
}

// bySubset returns the numbers of each subset's cells, sorted.
func bySubset(cells map[cell]int) map[string][]int {
	numbers := map[string][]int{}
	for c, n := range cells {
		numbers[c.subset] = append(numbers[c.subset], n)
	}
	for _, list := range numbers {
		slices.Sort(list)
	}
	return numbers
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

var _ = Describe("Cells that are to have fewer pods", func() {
	It("give them up as others are available, within the limits over all members, where subsets get other numbers or "+
		"one is added", func(ctx SpecContext) {
		ns := federated(ctx, "renumbered")
		web, surge := harness.UnitedDeployment(ns, "web"), harness.UnitedDeployment(ns, "surge")
		renumber := func(subsets string) {
			GinkgoHelper()
			before := h.Pods.Mark(ctx, ns)
			h.Hub.Apply(ctx, inSubsets(ns, "web", "maxUnavailable: 2", subsets),
				inSubsets(ns, "surge", "maxSurge: 2, maxUnavailable: 0", subsets))
			Eventually(ctx,
				func(ctx context.Context) (string, error) {
					return reasonsOf(ctx, web)
				}).WithTimeout(harness.Patience).Should(ContainSubstring("Shrinking"))
			h.ExpectAtRest(ctx, web, 12)
			h.ExpectAtRest(ctx, surge, 12)
			history := h.Pods.Since(ctx, before)
			expectWithin(history, "web", 2, 0)
			expectWithin(history, "surge", 0, 2)
			Expect(history.Restarted()).To(BeEmpty())
			Expect(len(history.Created())).To(Equal(len(history.Gone())))
		}
		h.Hub.Apply(ctx, inSubsets(ns, "web", "maxUnavailable: 2", "b=25%, c="),
			inSubsets(ns, "surge", "maxSurge: 2, maxUnavailable: 0", "b=25%, c="))
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectAtRest(ctx, surge, 12)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"b": 3, "c": 9})

		By("a quarter in zone b becomes three quarters")
		renumber("b=75%, c=")
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"b": 9, "c": 3})
		h.ExpectPods(ctx, surge, harness.ByZone, map[string]int{"b": 9, "c": 3})

		By("a subset for zone d is added, and takes half of the rest")
		renumber("b=50%, c=, d=")
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"b": 6, "c": 3, "d": 3})
		h.ExpectPods(ctx, surge, harness.ByZone, map[string]int{"b": 6, "c": 3, "d": 3})
	})

	It("give them up as others are available where a drain is taken back half way", func(ctx SpecContext) {
		ns := federated(ctx, "undrained")
		DeferCleanup(func(ctx SpecContext) { Expect(h.Flotilla(ctx, "drain", "west", "--undo").Code).To(Equal(0)) })
		few, surge := harness.CloneSet(ns, "few"), harness.CloneSet(ns, "surge")
		h.Hub.Apply(ctx, cloneSet(ns, "few", 12, "slow:1", "maxUnavailable: 1"),
			cloneSet(ns, "surge", 12, "slow:1", "maxSurge: 1, maxUnavailable: 0"))
		h.ExpectAtRest(ctx, few, 12)
		h.ExpectAtRest(ctx, surge, 12)
		before := h.Pods.Mark(ctx, ns)

		Expect(h.Flotilla(ctx, "drain", "west").Code).To(Equal(0))
		for _, w := range []harness.Workload{few, surge} {
			Eventually(ctx, func() int {
				return harness.Count(h.PodsOf(w), harness.ByCluster)["west"]
			}).WithTimeout(harness.Patience).Should(BeNumerically("<", 4))
		}
		Expect(h.Flotilla(ctx, "drain", "west", "--undo").Code).To(Equal(0))
		h.ExpectAtRest(ctx, few, 12)
		h.ExpectAtRest(ctx, surge, 12)
		history := h.Pods.Since(ctx, before)
		expectWithin(history, "few", 1, 0)
		expectWithin(history, "surge", 0, 1)
		Expect(history.Restarted()).To(BeEmpty())
	})
})

// expectWithin holds that of a workload of 12 pods never more than missing were not available, and never more than
// added beyond 12 existed.
func expectWithin(history judge.History, name string, missing, added int) {
	GinkgoHelper()
	const pods = 12
	expectAtMost(history, ofName(name, judge.Unavailable(pods)), missing, "pods of "+name+" are missing")
	expectAtMost(history, ofName(name, judge.Existing), pods+added, "pods of "+name+" exist")
}

// inSubsets is a UnitedDeployment of 12 pods that start slowly, with a subset for each of zones, "b=25%, c=" for
// example: with what stands behind = as its number. Strategy is the inside of rollingUpdate.
func inSubsets(namespace, name, strategy, zones string) string {
	text := fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: 12
  selector: {matchLabels: {app: %[2]s}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: %[2]s}}
      spec:
        template:
          metadata: {labels: {app: %[2]s}}
          spec: {containers: [{name: main, image: "slow:1"}]}
        updateStrategy: {type: RollingUpdate, rollingUpdate: {%[3]s}}
  topology:
    subsets:
`, namespace, name, strategy)
	for _, subset := range strings.Split(zones, ", ") {
		zone, number, _ := strings.Cut(subset, "=")
		text += fmt.Sprintf("    - name: zone-%[1]s\n      nodeSelectorTerm: {matchExpressions: [{key: "+
			"topology.kubernetes.io/zone, operator: In, values: [%[1]s]}]}\n", zone)
		if number != "" {
			text += "      replicas: " + number + "\n"
		}
	}
	return text
}

// reasonsOf returns the reasons of all cells of a workload.
func reasonsOf(ctx context.Context, w harness.Workload) (string, error) {
	p, err := h.Placement(ctx, w)
	if p == nil || err != nil {
		return "", err
	}
	text := ""
	for i := range p.Spec.Cells {
		text += p.Spec.Cells[i].Reason.Code + " "
	}
	return text, nil
}
