//go:build e2e

package suites_test

import (
	"context"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("The samples", func() {
	It("apply as they are, become Ready, and kubectl get shows true columns", func(ctx SpecContext) {
		const ns = "shop"
		explain(h, ns)
		// The name is the sample's own: where the specs are repeated, the one of before may be on its way out.
		Eventually(ctx, func(ctx context.Context) error {
			return h.Hub.Client.Get(ctx, client.ObjectKey{Name: ns}, &corev1.Namespace{})
		}).WithTimeout(harness.Patience).Should(Satisfy(apierrors.IsNotFound))
		h.Hub.Apply(ctx, sample("1-namespace.yaml", ns))
		DeferCleanup(func(ctx SpecContext) { h.Kubectl(ctx, "delete", "namespace", ns, "--wait=false") })
		h.Hub.Apply(ctx, sample("2-policy.yaml", ns), webSample(ns), apiSample(ns))
		web, api := harness.UnitedDeployment(ns, "web"), harness.CloneSet(ns, "api")

		By("waiting as a user does")
		h.Kubectl(ctx, "-n", ns, "wait", "--for=condition=Ready", "ud/web", "clone/api", "--timeout=240s")
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3, "south": 3, "west": 3})

		By("reading the columns")
		rows := harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "ud,clone,wp,mc"))
		row := rows["uniteddeployment.apps.kruise.io/web"]
		for _, column := range []string{"DESIRED", "CURRENT", "UPDATED", "READY"} {
			Expect(row).To(HaveKeyWithValue(column, "12"))
		}
		row = rows["cloneset.apps.kruise.io/api"]
		for _, column := range []string{"DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL"} {
			Expect(row).To(HaveKeyWithValue(column, "9"))
		}
		for name, workload := range map[string]harness.Workload{
			"workloadplacement.topology.flotilla.dev/uniteddeployment-web": web,
			"workloadplacement.topology.flotilla.dev/cloneset-api":         api,
		} {
			row := rows[name]
			total := strconv.Itoa(len(h.PodsOf(workload)))
			Expect(row).To(HaveKeyWithValue("KIND", workload.Kind))
			Expect(row).To(HaveKeyWithValue("WORKLOAD", workload.Name))
			Expect(row).To(HaveKeyWithValue("REPLICAS", total))
			Expect(row).To(HaveKeyWithValue("PLACED", total))
			Expect(clustersColumn(row["CLUSTERS"])).To(Equal(harness.Count(h.PodsOf(workload), harness.ByCluster)), name)
		}
		zones := map[string]string{"east": "a,b", "south": "c,d", "west": "b,c"}
		for member, names := range zones {
			row := rows["membercluster.topology.flotilla.dev/"+member]
			Expect(row).To(HaveKeyWithValue("ACCEPTED", "True"))
			Expect(row).To(HaveKeyWithValue("READY", "True"))
			Expect(row).To(HaveKeyWithValue("ZONES", names))
			Expect(row).To(HaveKeyWithValue("NODES", "4/4"))
			Expect(row).To(HaveKeyWithValue("REGION", "eu"))
			Expect(row["VERSION"]).To(HavePrefix("v1."))
		}
	})
})

// clustersColumn reads "east:5 south:3".
func clustersColumn(text string) map[string]int {
	counts := map[string]int{}
	for part := range strings.FieldsSeq(text) {
		name, number, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(number)
		Expect(err).NotTo(HaveOccurred(), text)
		counts[name] = n
	}
	return counts
}
