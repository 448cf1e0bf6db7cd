//go:build e2e

package suites_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("Overrides", func() {
	It("a registry for one member: its pods use it, and nothing of the other members is touched", func(ctx SpecContext) {
		ns := bare(ctx, "registry")
		everywhere := policy(ns, "everywhere", "CloneSet", "UnitedDeployment")
		h.Hub.Apply(ctx, everywhere, cloneSet(ns, "api", 6, "docker.io/api:1", "maxUnavailable: 1"),
			unitedDeployment(ns, "web", 6, subset("a", "a", ""), subset("d", "d", "")))
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.ExpectAtRest(ctx, api, 6)
		h.ExpectAtRest(ctx, web, 6)
		before := h.Pods.Mark(ctx, ns)

		By("overriding the registry in east")
		h.Hub.Apply(ctx, everywhere+`
  overrides:
  - {clusters: {names: [east]}, imageRegistry: "mirror.east:5000/hub", labels: {mirrored: "yes"}}
`)
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east mirror.east:5000/hub/api:1": 2,
			"south docker.io/api:1": 2, "west docker.io/api:1": 2})
		h.ExpectPods(ctx, web, byClusterAndImage, map[string]int{"east mirror.east:5000/hub/web:1": 3, "south web:1": 3})
		// An image is written before its container restarts, and the hub may be told of neither yet.
		Eventually(ctx, func() (restarted int) {
			for _, pod := range h.Pods.Pods(ns) {
				if pod.Cluster == "east" && pod.Restarts == 1 && pod.Serves() {
					restarted++
				}
			}
			return restarted
		}).WithTimeout(harness.Patience).Should(Equal(5), "pods of east restarted once, and serving")
		expectReady(ctx, api)
		expectReady(ctx, web)
		object, err := h.Members["east"].Get(ctx, api)
		Expect(err).NotTo(HaveOccurred())
		Expect(object.GetLabels()).To(HaveKeyWithValue("mirrored", "yes"))

		By("nothing else: the pods of the others stand, and those of east went one at a time")
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty(), "the image changes in place")
		Expect(history.Gone()).To(BeEmpty())
		for _, pod := range history.Restarted() {
			Expect(pod.Cluster).To(Equal("east"), "%s restarted", pod)
		}
		scaled := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=9")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east mirror.east:5000/hub/api:1": 3,
			"south docker.io/api:1": 3, "west docker.io/api:1": 3})
		history = h.Pods.Since(ctx, scaled)
		Expect(history.Created()).To(HaveLen(3))
		Expect(history.Restarted()).To(BeEmpty())

		By("taking the override out again")
		h.Hub.Apply(ctx, everywhere+"\n  overrides: []\n")
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 6)
	})

	It("a patch that does not fit: nothing is delivered, what runs stays, and the condition says "+
		"which entry", func(ctx SpecContext) {
		ns := bare(ctx, "patch")
		everywhere := policy(ns, "everywhere", "CloneSet")
		api := harness.CloneSet(ns, "api")
		twice := strings.Replace(cloneSet(ns, "api", 3, "api:1", ""), `image: "api:1"`,
			`image: "api:1", env: [{name: PLACE, value: near}, {name: PLACE, value: nearer}]`, 1)
		h.Hub.Apply(ctx, everywhere, twice)
		h.ExpectAtRest(ctx, api, 3)
		before := h.Pods.Mark(ctx, ns)
		h.Hub.Apply(ctx, everywhere+`
  overrides:
  - {annotations: {fits: "yes"}}
  - {clusters: {names: [west]}, patch: [{op: test, path: /spec/template/spec/priorityClassName, value: high}]}
`)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "InvalidOverride"},
			"overrides[1]", "FederationPolicy everywhere", api.Sentence(), "in west", "/spec/template/spec/priorityClassName",
			"correct the path or the value")
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
		object, err := h.Members["east"].Get(ctx, api)
		Expect(err).NotTo(HaveOccurred())
		Expect(object.GetAnnotations()).NotTo(HaveKey("fits"))

		By("case 16: correcting it, with a variable, which is listed twice, for the one member that lies in the zones c " +
			"and d alone: the entry that counts has the value")
		h.Hub.Apply(ctx, everywhere+`
  overrides:
  - {annotations: {fits: "yes"}}
  - {zones: [c, d], env: [{name: PLACE, value: far}]}
  - {clusters: {names: [west]}, patch: [{op: add, path: /spec/template/metadata/annotations, value: {patched: "yes"}}]}
`)
		expectReady(ctx, api)
		Eventually(ctx, func(ctx SpecContext) (map[string]string, error) {
			object, err := h.Members["east"].Get(ctx, api)
			if err != nil {
				return nil, err
			}
			return object.GetAnnotations(), nil
		}).WithTimeout(harness.Patience).Should(HaveKeyWithValue("fits", "yes"))
		place := func(member string) string {
			return h.Members[member].MustKubectl(ctx, "-n", ns, "get", "clone/api", "-o",
				`jsonpath={.spec.template.spec.containers[0].env[?(@.name=="PLACE")].value}`)
		}
		Eventually(ctx, func() string { return place("south") }).WithTimeout(harness.Patience).Should(Equal("near far"))
		h.ExpectAtRest(ctx, api, 3)
		Expect([]string{place("east"), place("west")}).To(HaveEach("near nearer"), "zones a and b, b and c")
	})
})

func byClusterAndImage(p judge.PodView) string { return p.Cluster + " " + p.Image }

// expectReady waits until the workload on the hub is Ready, and nothing stalls it.
func expectReady(ctx SpecContext, w harness.Workload) {
	h.ExpectTold(ctx, w, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionFalse})
	h.ExpectTold(ctx, w, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionTrue})
}
