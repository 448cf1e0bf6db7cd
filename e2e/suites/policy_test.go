//go:build e2e

package suites_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("Who decides about a workload", func() {
	It("without a policy nothing is created; a deleted policy freezes; the next one goes on", func(ctx SpecContext) {
		ns := bare(ctx, "nopolicy")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		for _, w := range []harness.Workload{api, web} {
			h.ExpectTold(ctx, w, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
				Reason: "NoPolicy"},
				w.Sentence(), "FederationPolicy", ns, "create one")
			expectNothing(ctx, w)
		}

		By("creating a policy")
		h.Hub.Apply(ctx, policy(ns, "late", "CloneSet", "UnitedDeployment"))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue})

		By("deleting it: what is placed stays, and a change is not followed")
		placed := replicasOf(h.MustPlacement(ctx, api))
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "delete", "fp/late")
		frozen := metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse, Reason: "PolicyMissing"}
		h.ExpectTold(ctx, api, frozen, api.Sentence(), "FederationPolicy late", "let a policy select it")
		h.ExpectTold(ctx, web, frozen, web.Sentence())
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		expectAnswered(ctx, api)
		Expect(replicasOf(h.MustPlacement(ctx, api))).To(Equal(placed))
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)

		By("creating another policy")
		h.Hub.Apply(ctx, policy(ns, "later", "CloneSet", "UnitedDeployment"))
		h.ExpectAtRest(ctx, api, 12)
		h.ExpectAtRest(ctx, web, 12)
		history = h.Pods.Since(ctx, before)
		Expect(history.Created()).To(HaveLen(3))
		Expect(history.Gone()).To(BeEmpty())
	})

	It("in a namespace that is not federated the hub does nothing, and says so on the policy", func(ctx SpecContext) {
		ns := h.Hub.PlainNamespace(ctx, "plain")
		explain(h, ns)
		h.Hub.Apply(ctx, policy(ns, "hopeful", "CloneSet", "UnitedDeployment"), apiSample(ns), webSample(ns))
		h.ExpectToldOf(ctx, harness.TopologyObject("FederationPolicy", ns, "hopeful"),
			metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: topology.PolicyNamespaceNotFederated},
			ns, topology.LabelFederated, "kubectl label namespace "+ns)
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		expectNothing(ctx, api)
		expectNothing(ctx, web)

		By("labelling it, as the message says")
		h.Kubectl(ctx, "label", "namespace", ns, topology.LabelFederated+"=true")
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
	})
})

// expectNothing expects that a workload has no placement, no Works and no pods.
func expectNothing(ctx context.Context, w harness.Workload) {
	p, err := h.Placement(ctx, w)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, p).To(BeNil(), "%s has a placement", w.Sentence())
	works, err := h.Works(ctx, w)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, works).To(BeEmpty(), "Works of %s", w.Sentence())
	ExpectWithOffset(1, h.PodsOf(w)).To(BeEmpty(), "pods of %s", w.Sentence())
}

// expectAnswered waits until the status answers the newest generation.
func expectAnswered(ctx context.Context, w harness.Workload) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (bool, error) {
		object, err := h.Hub.Get(ctx, w)
		if err != nil {
			return false, err
		}
		status, _ := object.Object["status"].(map[string]any)
		return status["observedGeneration"] == object.GetGeneration(), nil
	}).WithTimeout(harness.Patience).Should(BeTrue(), "status of %s answers its generation", w.Sentence())
}
