//go:build e2e

package suites_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/apis/protection"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

const guarded = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata:
  namespace: %s
  name: guarded
  labels: {policy.kruise.io/delete-protection: Cascading}
spec:
  replicas: 3
  selector: {matchLabels: {app: guarded}}
  template:
    metadata: {labels: {app: guarded}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
`

var _ = Describe("Deletion protection", func() {
	It("refuses kubectl a namespace and a CloneSet, on the hub and in a member", func(ctx SpecContext) {
		ns := federated(ctx, "guarded")
		DeferCleanup(func(ctx SpecContext) { // what federated removes afterwards must not be refused
			h.Kubectl(ctx, "label", "namespace", ns, protection.Label+"-")
			for _, c := range h.Members {
				_, _ = c.Kubectl(ctx, "label", "namespace", ns, protection.Label+"-")
			}
			h.Kubectl(ctx, "-n", ns, "label", "clone", "--all", protection.Label+"-")
		})
		refused := func(c *harness.Cluster, text string, args ...string) {
			GinkgoHelper()
			_, err := c.Kubectl(ctx, append([]string{"-n", ns, "delete", "--dry-run=server"}, args...)...)
			Expect(err).To(MatchError(ContainSubstring("(Forbidden)")))
			Expect(err).To(MatchError(ContainSubstring(protection.Refused + text)))
		}
		h.Hub.Apply(ctx, fmt.Sprintf(guarded, ns))
		set := harness.CloneSet(ns, "guarded")
		h.ExpectAtRest(ctx, set, 3)

		By("refusing the CloneSet, everywhere")
		refused(h.Hub, "Cascading and replicas 3>0", "clone/guarded")
		east := h.Members["east"]
		refused(east, "Cascading and replicas 1>0", "clone/guarded")

		By("refusing the namespace on the hub and in a member")
		h.Kubectl(ctx, "label", "namespace", ns, protection.Label+"=Cascading")
		refused(h.Hub, "Cascading and placed workloads 1>0", "namespace/"+ns)
		east.MustKubectl(ctx, "label", "namespace", ns, protection.Label+"=Cascading")
		refused(east, "Cascading and active pods 1>0", "namespace/"+ns)

		By("letting the hub decide on what it brought")
		h.Kubectl(ctx, "-n", ns, "label", "clone/guarded", protection.Label+"-")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/guarded")
		h.ExpectGone(ctx, set)
		east.MustKubectl(ctx, "delete", "namespace", ns, "--dry-run=server")
	})
})
