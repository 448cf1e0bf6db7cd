//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("Bad input", func() {
	It("a subset that no member matches: what matches is placed, the rest is named", func(ctx SpecContext) {
		ns := federated(ctx, "unmatched")
		lost := harness.UnitedDeployment(ns, "lost")
		h.Hub.Apply(ctx, unitedDeployment(ns, "lost", 6, subset("a", "a", ""), subset("moon", "z", "replicas: 2")))
		words := []string{lost.Sentence(), `"moon"`, `"z"`, "a, b, c, d",
			"correct the subset's nodeSelectorTerm or join a member"}
		h.ExpectTold(ctx, lost, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "SubsetUnmatched"}, words...)
		h.ExpectTold(ctx, lost, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "SubsetUnmatched"}, words...)
		h.ExpectPods(ctx, lost, harness.ByZone, map[string]int{"a": 4})
		row := harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "wp"))["uniteddeployment-lost"]
		Expect(row).To(And(HaveKeyWithValue("REPLICAS", "6"), HaveKeyWithValue("PLACED", "4")))
	})

	It("a subset that no member matches, added to what runs: everything stays as it was", func(ctx SpecContext) {
		ns := federated(ctx, "unmatched-later")
		web := harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, unitedDeployment(ns, "web", 6, subset("a", "a", ""), subset("d", "d", "")))
		h.ExpectAtRest(ctx, web, 6)
		expectStays(ctx, web, func() {
			h.Hub.Apply(ctx, unitedDeployment(ns, "web", 6, subset("a", "a", ""), subset("d", "d", ""),
				subset("moon", "z", "replicas: 2")))
			h.ExpectTold(ctx, web, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
				Reason: "SubsetUnmatched"},
				web.Sentence(), `"moon"`, `"z"`, "what is placed stays as it was")
		})

		By("taking it out again")
		h.Hub.Apply(ctx, unitedDeployment(ns, "web", 6, subset("a", "a", ""), subset("d", "d", "")))
		h.ExpectAtRest(ctx, web, 6)
	})

	It("percentages that cannot be met exactly are met as well as can be, those over 100% "+
		"are refused", func(ctx SpecContext) {
		ns := federated(ctx, "percent")
		thirds, halves := harness.UnitedDeployment(ns, "thirds"), harness.UnitedDeployment(ns, "halves")
		h.Hub.Apply(ctx, unitedDeployment(ns, "thirds", 10, subset("a", "a", "replicas: 33%"),
			subset("b", "b", "replicas: 33%"), subset("d", "d", "replicas: 34%")),
			unitedDeployment(ns, "halves", 5, subset("a", "a", "replicas: 50%"), subset("d", "d", "replicas: 50%")))
		h.ExpectAtRest(ctx, thirds, 10)
		h.ExpectPods(ctx, thirds, harness.ByZone, map[string]int{"a": 3, "b": 3, "d": 4})
		h.ExpectAtRest(ctx, halves, 5)
		zones := harness.Count(h.PodsOf(halves), harness.ByZone)
		Expect(zones["a"]).To(BeNumerically("~", 2.5, 0.5), "%v", zones)

		By("scaling through every number: each has an answer")
		for _, n := range []int{11, 1, 7} {
			h.Kubectl(ctx, "-n", ns, "scale", "ud/thirds", fmt.Sprintf("--replicas=%d", n))
			h.ExpectAtRest(ctx, thirds, n)
		}
		h.Hub.ExpectRefused(ctx, unitedDeployment(ns, "much", 10, subset("a", "a", "replicas: 60%"),
			subset("b", "b", "replicas: 50%")), "much", "110", "100%", "lower them")
	})

	It("min over max is refused when it is applied, and what runs stays", func(ctx SpecContext) {
		ns := federated(ctx, "minmax")
		web := harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, unitedDeployment(ns, "web", 6, subset("a", "a", "minReplicas: 1, maxReplicas: 2"),
			subset("d", "d", "")))
		h.ExpectAtRest(ctx, web, 6)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 2, "d": 4})
		expectStays(ctx, web, func() {
			h.Hub.ExpectRefused(ctx, unitedDeployment(ns, "web", 6, subset("a", "a", "minReplicas: 3, maxReplicas: 2"),
				subset("d", "d", "")),
				"web", "minReplicas", "3", "2")
		})
	})

	It("two policies on one workload: the one that placed it stays, the other is Conflicted", func(ctx SpecContext) {
		ns := bare(ctx, "policies")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policyOn(ns, "first", "east, west", "CloneSet"), cloneSet(ns, "api", 6, "api:1", ""))
		h.ExpectAtRest(ctx, api, 6)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3, "west": 3})
		expectStays(ctx, api, func() {
			second := strings.Replace(policyOn(ns, "second", "south", "CloneSet"), "- kind: CloneSet",
				"- {kind: CloneSet, name: api}", 1)
			h.Hub.Apply(ctx, second)
			h.ExpectToldOf(ctx, harness.TopologyObject("FederationPolicy", ns, "second"),
				metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: topology.PolicyConflicted},
				"FederationPolicy second", "CloneSet "+ns+"/api", "FederationPolicy first", "narrow one of the two")
			row := harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "fp"))["second"]
			Expect(row).To(And(HaveKeyWithValue("READY", "False"), HaveKeyWithValue("REASON", "Conflicted")))
		})
	})

	It("names over their limits are refused when they are applied, with the name, its length "+
		"and the limit", func(ctx SpecContext) {
		ns := federated(ctx, "names")
		long := strings.Repeat("n", 53)
		h.Hub.ExpectRefused(ctx, cloneSet(ns, long, 1, "a:1", ""), long, "53", "52", "shorter name")
		h.Hub.ExpectRefused(ctx, unitedDeployment(ns, long, 1, subset("a", "a", "")), long, "53", "52", "shorter name")
		h.Hub.ExpectRefused(ctx, unitedDeployment(ns, strings.Repeat("n", 40), 1, subset("zone-a", "a", "")), "45", "zone-a",
			"shorter names")
		h.Hub.ExpectRefused(ctx, `{apiVersion: topology.flotilla.dev/v1alpha1, kind: MemberCluster, metadata: {name: `+long+
			`}}`, long, "53", "52", "shorter")
		longest := strings.Repeat("n", 52)
		h.Hub.Apply(ctx, cloneSet(ns, longest, 3, "a:1", ""))
		h.ExpectAtRest(ctx, harness.CloneSet(ns, longest), 3)
	})

	It("a selector that does not match the template is refused when it is applied, and "+
		"what runs stays", func(ctx SpecContext) {
		ns := federated(ctx, "selector")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 3, "a:1", ""))
		h.ExpectAtRest(ctx, api, 3)
		expectStays(ctx, api, func() {
			wrong := strings.Replace(cloneSet(ns, "api", 3, "a:1", ""), "metadata: {labels: {app: api}}",
				"metadata: {labels: {app: other}}", 1)
			h.Hub.ExpectRefused(ctx, wrong, "api", "selector does not match", "give the template the labels")
		})
		wrong := strings.ReplaceAll(unitedDeployment(ns, "web", 3, subset("a", "a", "")), "metadata: {labels: {app: web}}",
			"metadata: {labels: {app: other}}")
		h.Hub.ExpectRefused(ctx, wrong, "web", "selector does not match", "give them the labels")
	})

	It("an unknown kind in a policy is named on the policy, and what it placed stays", func(ctx SpecContext) {
		ns := federated(ctx, "kind")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 3, "a:1", ""))
		h.ExpectAtRest(ctx, api, 3)
		expectStays(ctx, api, func() {
			h.Hub.Apply(ctx, policy(ns, "everywhere", "CloneSet", "UnitedDeployment", "ReplicationController"))
			h.ExpectToldOf(ctx, harness.TopologyObject("FederationPolicy", ns, "everywhere"),
				metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: topology.PolicyUnknownKind},
				"FederationPolicy everywhere", "ReplicationController", "CloneSet", "UnitedDeployment")
		})
	})
})

// expectStays runs change, and expects that the placement and the pods of the workload stay as they are.
func expectStays(ctx context.Context, w harness.Workload, change func()) {
	was := h.MustPlacement(ctx, w)
	before := h.Pods.Mark(ctx, w.Namespace)
	change()
	is := h.MustPlacement(ctx, w)
	ExpectWithOffset(1, is.UID).To(Equal(was.UID))
	ExpectWithOffset(1, replicasOf(is)).To(Equal(replicasOf(was)))
	ExpectWithOffset(1, is.Spec.Placed).To(Equal(was.Spec.Placed))
	history := h.Pods.Since(ctx, before)
	harness.ExpectUntouched(history)
}
