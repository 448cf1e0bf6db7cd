//go:build e2e

package suites_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("An update in waves", func() {
	It("goes from cluster to cluster: it soaks, stops at a check that does not hold, is tried again, and waits for a "+
		"person", func(ctx SpecContext) {
		ns := bare(ctx, "waves")
		api := harness.CloneSet(ns, "api")
		// The policy has its waves from the start: the placement names it, so the hub knows them when the template changes.
		h.Hub.Apply(ctx, policy(ns, "waves", "CloneSet")+`
  rollout:
    strategy: Waves
    waves:
    - name: canary
      clusters: {names: [east]}
      soak: 4s
      checks:
      - name: released
        expression: has(object.metadata.labels) && 'released' in object.metadata.labels
        patience: 2s
    - name: second
      clusters: {names: [south]}
      approval: Required
`, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		Expect(h.MustPlacement(ctx, api).Spec.Wave).To(BeNil(), "the first template goes in no waves")

		By("setting a new image: it stops after the first cluster, since its check does not hold")
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"}]`)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 1 of 2 (canary)", `check "released" does not hold`, "flotilla rollout retry")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east " + newAPIImage: 3, "south " + apiImage: 3, "west " +
			apiImage: 3})

		By("letting the check hold and trying again: the second cluster follows, and a person is waited for")
		h.Kubectl(ctx, "-n", ns, "label", "clone/api", "released=yes")
		answer := h.Flotilla(ctx, "rollout", "retry", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionFalse},
			"wave 2 of 2 (second)", "waits for a person")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east " + newAPIImage: 3, "south " + newAPIImage: 3,
			"west " + apiImage: 3})
		history := h.Pods.Since(ctx, before)
		expectAtMost(history, updatedIn(newAPIImage, "west"), 0, "updated pods in west")
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")

		By("approving it: the rest follows")
		answer = h.Flotilla(ctx, "rollout", "approve", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectPods(ctx, api, byImage, map[string]int{newAPIImage: 9})
		h.ExpectAtRest(ctx, api, 9)
		Expect(h.MustPlacement(ctx, api).Spec.Wave.Number).To(BeEquivalentTo(3))
		history = h.Pods.Since(ctx, before)
		expectInPlace(history, 9)
	})

	It("that failed is taken back everywhere with undo, and no pod of it stays behind a wave", func(ctx SpecContext) {
		ns := bare(ctx, "waves-undo")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policy(ns, "waves", "CloneSet")+`
  rollout:
    strategy: Waves
    waves:
    - name: canary
      clusters: {names: [east]}
      size: 1
      checks:
      - name: never
        expression: "false"
        patience: 1s
`, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"}]`)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 1 of 1 (canary)", `check "never" does not hold`, "flotilla rollout undo")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east " + newAPIImage: 1, "east " + apiImage: 2, "south " +
			apiImage: 3, "west " + apiImage: 3})

		By("taking it back: the one pod follows at once, and no wave waits")
		before := h.Pods.Mark(ctx, ns)
		answer := h.Flotilla(ctx, "rollout", "undo", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 9})
		h.ExpectAtRest(ctx, api, 9)
		Expect(h.MustPlacement(ctx, api).Spec.Wave).To(BeNil())
		expectInPlace(h.Pods.Since(ctx, before), 1)
	})

	It("that fails is rolled back where the policy says so, and goes out when it is tried again", func(ctx SpecContext) {
		ns := bare(ctx, "waves-rollback")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policy(ns, "waves", "CloneSet")+`
  rollout:
    strategy: Waves
    onFailure: Rollback
    waves:
    - name: canary
      clusters: {names: [east]}
      checks:
      - name: released
        expression: has(object.metadata.labels) && 'released' in object.metadata.labels
        patience: 1s
`, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"}]`)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 1 of 1 (canary)", "was rolled back", `check "released" does not hold`, "flotilla rollout retry")
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 9})
		history := h.Pods.Since(ctx, before)
		expectAtMost(history, judge.WithImage(newAPIImage), 3, "updated pods")
		Expect(history.Gone()).To(BeEmpty(), "pods were deleted")
		Expect(h.Kubectl(ctx, "-n", ns, "get", "clone/api", "-o",
			"jsonpath={.spec.template.spec.containers[0].image}")).To(Equal(newAPIImage), "the workload is the user's")

		By("letting the check hold and trying again")
		h.Kubectl(ctx, "-n", ns, "label", "clone/api", "released=yes")
		answer := h.Flotilla(ctx, "rollout", "approve", "clone/api", "-n", ns)
		Expect(answer.Code).To(Equal(1), "nothing is left to go on: %s%s", answer.Out, answer.Talk)
		answer = h.Flotilla(ctx, "rollout", "retry", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectPods(ctx, api, byImage, map[string]int{newAPIImage: 9})
		h.ExpectAtRest(ctx, api, 9)
	})
})

// updatedIn counts the pods with an image in a cluster.
func updatedIn(image, cluster string) func(map[types.UID]judge.PodView) int {
	return func(pods map[types.UID]judge.PodView) int {
		n := 0
		for _, pod := range pods {
			if pod.Image == image && pod.Cluster == cluster {
				n++
			}
		}
		return n
	}
}
