//go:build e2e

package suites_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("Deleting", func() {
	It("a workload on the hub empties the members: objects, pods, Works and placement", func(ctx SpecContext) {
		ns := federated(ctx, "delete")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		h.Kubectl(ctx, "-n", ns, "delete", "ud/web", "clone/api", "--timeout=240s")
		h.ExpectGone(ctx, web)
		h.ExpectGone(ctx, api)

		By("applying the same name again: it is a workload of its own")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--timeout=240s")
		h.Hub.Apply(ctx, apiSample(ns)) // while the first is on its way out
		h.ExpectAtRest(ctx, api, 9)
	})

	It("a namespace of the hub empties the members", func(ctx SpecContext) {
		ns := federated(ctx, "delete-ns")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		h.Kubectl(ctx, "delete", "namespace", ns, "--timeout=240s")
		h.ExpectGone(ctx, web)
		h.ExpectGone(ctx, api)
	})
})
