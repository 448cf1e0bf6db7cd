//go:build e2e

package suites_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A change of the template", func() {
	It("taken back with undo is the template of before in all clusters, and the "+
		"history tells both", func(ctx SpecContext) {
		ns := federated(ctx, "undo")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		Expect(h.Kubectl(ctx, "-n", ns, "get", "controllerrevisions", "-o", "name")).To(BeEmpty(),
			"creating a workload keeps none")
		refused := h.Flotilla(ctx, "rollout", "undo", "clone/api", "-n", ns)
		Expect(refused.Code).To(Equal(1))
		Expect(refused.Talk).To(ContainSubstring("no earlier template"))

		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"}]`)
		h.ExpectPods(ctx, api, byImage, map[string]int{newAPIImage: 9})
		h.ExpectAtRest(ctx, api, 9)
		revisions := []struct {
			Number  int64
			Current bool
			Images  []string
		}{}
		h.Flotilla(ctx, "rollout", "history", "clone/api", "-n", ns, "-o", "json").Into(&revisions)
		Expect(revisions).To(HaveLen(2))
		Expect(revisions[0].Images).To(Equal([]string{apiImage}))
		Expect(revisions[1].Images).To(Equal([]string{newAPIImage}))
		Expect(revisions[1].Current).To(BeTrue())
		Expect([]int64{revisions[0].Number, revisions[1].Number}).To(Equal([]int64{1, 2}), "numbers have no gaps")
		Expect(h.Flotilla(ctx, "rollout", "diff", "clone/api", "-n",
			ns).Out).To(And(MatchRegexp(`(?m)^-.*image: `+newAPIImage), MatchRegexp(`(?m)^\+.*image: `+apiImage)))

		before := h.Pods.Mark(ctx, ns)
		dry := h.Flotilla(ctx, "rollout", "undo", "clone/api", "-n", ns, "--dry-run")
		Expect(dry.Code).To(BeZero(), "%s%s", dry.Out, dry.Talk)
		Expect(dry.Out).To(And(ContainSubstring(newAPIImage+" → "+apiImage), ContainSubstring("updated in place")))
		undone := h.Flotilla(ctx, "rollout", "undo", "clone/api", "-n", ns)
		Expect(undone.Code).To(BeZero(), "%s%s", undone.Out, undone.Talk)
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 9})
		h.ExpectAtRest(ctx, api, 9)
		history := h.Pods.Since(ctx, before)
		expectInPlace(history, 9)
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")
	})

	It("of a UnitedDeployment taken back with undo is the template of before in all subsets and clusters, within the "+
		"limits of each subset", func(ctx SpecContext) {
		ns := federated(ctx, "undo-ud")
		web := harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, webSample(ns))
		h.ExpectAtRest(ctx, web, 12)
		placed := placedNow(ctx, web)
		h.Kubectl(ctx, "-n", ns, "patch", "ud/web", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image", "value": "`+
				newWebImage+`"}]`)
		h.ExpectPods(ctx, web, byImage, map[string]int{newWebImage: 12})
		h.ExpectAtRest(ctx, web, 12)

		before := h.Pods.Mark(ctx, ns)
		undone := h.Flotilla(ctx, "rollout", "undo", "ud/web", "-n", ns)
		Expect(undone.Code).To(BeZero(), "%s%s", undone.Out, undone.Talk)
		h.ExpectPods(ctx, web, byImage, map[string]int{webImage: 12})
		h.ExpectAtRest(ctx, web, 12)
		history := h.Pods.Since(ctx, before)
		expectInPlace(history, 12)
		for _, subset := range []string{"zone-a", "zone-b", "zone-c", "zone-d"} {
			expectAtMost(history, ofSubset(subset, judge.Unavailable(3)), 1, "unavailable pods of "+subset)
		}
		Expect(placedNow(ctx, web)).To(Equal(placed), "a template moves no replicas")
	})
})
