//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	budgets "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// podBudget protects the pods of CloneSet web over all members.
func podBudget(namespace string) string {
	return fmt.Sprintf(`
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: web, namespace: %s}
spec:
  selector: {matchLabels: {app: web}}
  maxUnavailable: 1
`, namespace)
}

func webBudget(namespace string) harness.Workload {
	return harness.Workload{GroupVersionKind: budgets.PodUnavailableBudgetKind, Namespace: namespace, Name: "web"}
}

// expectBudget waits until the status of the budget on the hub has these numbers.
func expectBudget(ctx context.Context, namespace string, total, available, allowed int64) {
	GinkgoHelper()
	w := webBudget(namespace)
	Eventually(ctx, func(ctx context.Context) (string, error) {
		pub, err := h.Hub.Get(ctx, w)
		if err != nil {
			return "", err
		}
		number := func(field string) int64 {
			n, _, _ := unstructured.NestedInt64(pub.Object, "status", field)
			return n
		}
		if number("totalReplicas") == total && number("currentAvailable") == available &&
			number("unavailableAllowed") == allowed {
			return "", nil
		}
		return fmt.Sprint(pub.Object["status"]), nil
	}).WithTimeout(harness.Patience).Should(BeEmpty())
}

var _ = Describe("A PodUnavailableBudget on a hub", func() {
	It("holds over three members while kubectl drains a node in two of them at once", func(ctx SpecContext) {
		ns := federated(ctx, "budget")
		enforce(ctx, ns, strings.Replace(policy(ns, "budgets", "PodUnavailableBudget"), "- kind: PodUnavailableBudget",
			"- {apiVersion: policy.kruise.io/v1beta1, kind: PodUnavailableBudget}", 1))
		web := harness.CloneSet(ns, "web")
		h.Hub.Apply(ctx, cloneSet(ns, "web", 12, webImage, "maxUnavailable: 2"), podBudget(ns))
		h.ExpectAtRest(ctx, web, 12)
		expectBudget(ctx, ns, 12, 12, 1)

		By("draining a node with pods in east and in west")
		nodes := map[string]string{}
		for _, pod := range h.PodsOf(web) {
			nodes[pod.Cluster] = pod.Node
		}
		DeferCleanup(func(ctx SpecContext) {
			for _, member := range []string{"east", "west"} {
				h.Members[member].MustKubectl(ctx, "uncordon", nodes[member])
			}
		})
		start := h.Pods.Mark(ctx, ns)
		errs := make([]error, 2)
		var drains sync.WaitGroup
		for i, member := range []string{"east", "west"} {
			drains.Go(func() {
				_, errs[i] = h.Members[member].Kubectl(ctx, "drain", nodes[member], "--pod-selector=app=web", "--timeout=5m")
			})
		}
		drains.Wait()
		Expect(errs).To(Equal([]error{nil, nil}))
		h.ExpectAtRest(ctx, web, 12)
		history := h.Pods.Since(ctx, start)
		expectAtMost(history, judge.Unavailable(12), 1, "unavailable pods")
		gone := harness.Count(history.Gone(), harness.ByCluster)
		Expect(gone["east"]).To(BeNumerically(">", 0))
		Expect(gone["west"]).To(BeNumerically(">", 0))
		Expect(podsWhere(h.PodsOf(web), func(p judge.PodView) bool {
			return slices.Contains([]string{nodes["east"], nodes["west"]}, p.Node)
		})).To(BeEmpty())
		expectBudget(ctx, ns, 12, 12, 1)

		By("rolling out an image, of which the CloneSet allows 2 at a time and the budget 1")
		start = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clonesets.apps.kruise.io/web", "--type=merge", "-p", fmt.Sprintf(
			`{"spec": {"template": {"spec": {"containers": [{"name": "main", "image": %q}]}}}}`, newWebImage))
		h.ExpectAtRest(ctx, web, 12)
		expectAtMost(h.Pods.Since(ctx, start), judge.Unavailable(12), 1, "unavailable pods")

		By("deleting the budget: no pod changes")
		start = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "delete", "podunavailablebudgets.policy.kruise.io/web")
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return h.Works(ctx, webBudget(ns)) }).
			WithTimeout(harness.Patience).Should(BeEmpty())
		harness.ExpectUntouched(h.Pods.Since(ctx, start))
	})
})
