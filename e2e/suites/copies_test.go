//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// field returns what kubectl prints of an object of a member by a JSONPath, "" where there is no such object.
func field(ctx context.Context, member, ns, object, path string) (string, error) {
	text, err := h.Members[member].Kubectl(ctx, "-n", ns, "get", object, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
	return strings.TrimSpace(text), err
}

// expectIn waits until an object's field is this in each of the members; "" where it is not to be there.
func expectIn(ctx context.Context, ns, object, path string, want map[string]string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (map[string]string, error) {
		have := map[string]string{}
		for member := range want {
			text, err := field(ctx, member, ns, object, path)
			if err != nil {
				return nil, err
			}
			have[member] = text
		}
		return have, nil
	}).WithTimeout(harness.Patience).Should(Equal(want), "%s of %s in the members", path, object)
}

// everywhere is the same in each of the three members.
func everywhere(value string) map[string]string {
	return map[string]string{"east": value, "south": value, "west": value}
}

// copies is a policy that gives the members copies of these kinds of apiVersion v1.
func copies(ns, clusters string, kinds ...string) string {
	entries := ""
	for _, kind := range kinds {
		entries += fmt.Sprintf("\n  - {apiVersion: v1, kind: %s}", kind)
	}
	return fmt.Sprintf(`
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: copies, namespace: %s}
spec:
  workloads:%s
  clusters: {names: [%s]}
`, ns, entries, clusters)
}

func configMap(ns, name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {key: %s}\n", name,
		ns, value)
}

var _ = Describe("Copies", func() {
	It("a ConfigMap and a Service that a policy selects stand in each member as the "+
		"user wrote them", func(ctx SpecContext) {
		ns := bare(ctx, "copies")
		carried := copies(ns, "east, south, west", "ConfigMap", "Service")
		h.Hub.Apply(ctx, carried, configMap(ns, "settings", "one"), fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %s}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`, ns))
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("one"))
		expectIn(ctx, ns, "service/web", ".spec.ports[0].targetPort", everywhere("8080"))
		for member := range h.Members {
			ip, err := field(ctx, member, ns, "service/web", ".spec.clusterIP")
			Expect(err).NotTo(HaveOccurred())
			Expect(ip).NotTo(BeEmpty(), "a cluster IP of its own in %s", member)
		}
		placement := harness.TopologyObject("WorkloadPlacement", ns, "configmap-settings")
		Expect(h.Kubectl(ctx, "-n", ns, "get", "wp/configmap-settings")).To(ContainSubstring("east south west"))

		By("changing it on the hub, and in a member")
		h.Hub.Apply(ctx, configMap(ns, "settings", "two"))
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("two"))
		h.Members["east"].MustKubectl(ctx, "-n", ns, "patch", "configmap/settings", "-p", `{"data":{"key":"drift"}}`)
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("two"))

		By("an object of that name that was there before is left alone, and the placement says so")
		h.Members["west"].MustKubectl(ctx, "-n", ns, "create", "configmap", "taken", "--from-literal=key=theirs")
		h.Hub.Apply(ctx, configMap(ns, "taken", "ours"))
		expectIn(ctx, ns, "configmap/taken", ".data.key",
			map[string]string{"east": "ours", "south": "ours", "west": "theirs"})
		h.ExpectToldOf(ctx, harness.TopologyObject("WorkloadPlacement", ns, "configmap-taken"),
			metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "Conflict"}, "west", "ConfigMap "+ns+
				"/taken")

		By("narrowing the policy, and deleting the objects")
		h.Hub.Apply(ctx, copies(ns, "east, south", "ConfigMap", "Service"))
		expectIn(ctx, ns, "configmap/settings", ".data.key", map[string]string{"east": "two", "south": "two", "west": ""})
		h.Kubectl(ctx, "-n", ns, "delete", "configmap/settings", "service/web", "--timeout=240s")
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere(""))
		expectIn(ctx, ns, "service/web", ".metadata.name", everywhere(""))
		Eventually(ctx, func(ctx context.Context) error {
			return h.Hub.Client.Get(ctx, keyOf(placement), placement)
		}).WithTimeout(harness.Patience).Should(MatchError(ContainSubstring("not found")))
	})

	It("a Deployment in a federated namespace stays the hub's, and the policy says what to do", func(ctx SpecContext) {
		ns := bare(ctx, "native")
		h.Hub.Apply(ctx, policy(ns, "native", "Deployment\n    apiVersion: apps/v1"))
		h.ExpectToldOf(ctx, harness.TopologyObject("FederationPolicy", ns, "native"),
			metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: topology.PolicyRunsOnHub},
			"Deployment (apps)", "deploymentTemplate")

		By("a Job, too")
		h.Hub.Apply(ctx, policy(ns, "jobs", "Job\n    apiVersion: batch/v1"))
		h.ExpectToldOf(ctx, harness.TopologyObject("FederationPolicy", ns, "jobs"),
			metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: topology.PolicyRunsOnHub}, "Job (batch)",
			"apply the Job in the members that are to run it")
	})
})
