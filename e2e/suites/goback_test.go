//go:build e2e

package suites_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A raised partition", func() {
	It("brings updated pods back in place, over all clusters together, until all were updated", func(ctx SpecContext) {
		ns := federated(ctx, "goback")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		partition := func(value string) {
			h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=merge", "-p",
				`{"spec": {"updateStrategy": {"rollingUpdate": {"partition": `+value+`}}}}`)
		}
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p", `[
			{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"},
			{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 3}]`)
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 3, newAPIImage: 6})
		h.ExpectAtRest(ctx, api, 9)

		By("raising it from 3 to 7: four of the six updated pods go back")
		before := h.Pods.Mark(ctx, ns)
		partition("7")
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 7, newAPIImage: 2})
		h.ExpectAtRest(ctx, api, 9)
		history := h.Pods.Since(ctx, before)
		expectInPlace(history, 4)
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")
		expectAtMost(history, judge.WithImage(newAPIImage), 6, "updated pods")
		row := harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "clone"))["api"]
		Expect(row).To(And(HaveKeyWithValue("UPDATED", "2"), HaveKeyWithValue("READY", "9")))

		By("updating all and raising it then: there is no old revision, nothing moves, and the status says so")
		partition("0")
		h.ExpectPods(ctx, api, byImage, map[string]int{newAPIImage: 9})
		h.ExpectAtRest(ctx, api, 9)
		before = h.Pods.Mark(ctx, ns)
		partition("5")
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionTrue,
			Reason: "AllAvailable"},
			"asks for 4 to be updated", "5 more are updated")
		h.ExpectAtRest(ctx, api, 9)
		history = h.Pods.Since(ctx, before)
		expectInPlace(history, 0)
	})
})
