//go:build e2e

package suites_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

func keyOf(o *unstructured.Unstructured) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// needing is a CloneSet whose pods have these fields beside their container.
func needing(ns, name string, replicas int, podFields string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      containers: [{name: main, image: "web:1"}]
      %[4]s
`, ns, name, replicas, podFields)
}

const settingsVolume = `volumes: [{name: settings, configMap: {name: settings}}]`

var _ = Describe("What pods need", func() {
	It("goes with the workloads that name it, before them, and leaves with the last one", func(ctx SpecContext) {
		ns := federated(ctx, "needs")
		one, two := harness.CloneSet(ns, "one"), harness.CloneSet(ns, "two")
		h.Hub.Apply(ctx, configMap(ns, "settings", "one"), needing(ns, "one", 3, settingsVolume),
			needing(ns, "two", 6, settingsVolume))
		h.ExpectAtRest(ctx, one, 3)
		h.ExpectAtRest(ctx, two, 6)
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("one"))
		h.Hub.Apply(ctx, configMap(ns, "settings", "two"))
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("two"))

		By("deleting the first: the second still has it")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/one", "--timeout=240s")
		h.ExpectPods(ctx, one, harness.ByCluster, nil)
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("two"))

		By("a member that has no part of it any more loses it, with the workload")
		h.Hub.Apply(ctx, policyOn(ns, "everywhere", "east, south", "CloneSet", "UnitedDeployment"))
		h.ExpectPlaced(ctx, two, map[string]int{"east": 3, "south": 3})
		expectIn(ctx, ns, "configmap/settings", ".data.key", map[string]string{"east": "two", "south": "two", "west": ""})
		h.ExpectAtRest(ctx, two, 6)

		By("deleting the second")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/two", "--timeout=240s")
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere(""))
		h.ExpectGone(ctx, two)
	})

	It("is named where it does not exist, stands in the way, or may not leave the hub", func(ctx SpecContext) {
		ns := federated(ctx, "needs-told")
		web := harness.CloneSet(ns, "web")
		h.Hub.Apply(ctx, needing(ns, "web", 3, settingsVolume+"\n      imagePullSecrets: [{name: registry}]"))
		h.ExpectPlaced(ctx, web, map[string]int{"east": 1, "south": 1, "west": 1})
		federatedAs := func(reason string) metav1.Condition {
			return metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue, Reason: reason}
		}
		h.ExpectTold(ctx, web, federatedAs("DependencyMissing"), "ConfigMap settings", ns, "create it there",
			"Secret registry", "secrets: Carry")

		By("making it in a member by hand, then on the hub")
		Eventually(ctx, func() error {
			_, err := h.Members["west"].Kubectl(ctx, "-n", ns, "create", "configmap", "settings", "--from-literal=key=theirs")
			return err
		}).WithTimeout(harness.Patience).Should(Succeed()) // the namespace comes with the workload
		h.Hub.Apply(ctx, configMap(ns, "settings", "ours"))
		h.ExpectTold(ctx, web, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "Conflict"}, "west", "ConfigMap "+ns+"/settings")
		h.ExpectTold(ctx, web, federatedAs("SecretsNotCarried"), "Secret registry")
		expectIn(ctx, ns, "configmap/settings", ".data.key",
			map[string]string{"east": "ours", "south": "ours", "west": "theirs"})

		By("doing as the messages say")
		h.Members["west"].MustKubectl(ctx, "-n", ns, "delete", "configmap/settings")
		h.Hub.Apply(ctx, policy(ns, "everywhere", "CloneSet", "UnitedDeployment")+"  dependencies: {secrets: Carry}\n",
			fmt.Sprintf(
				"apiVersion: v1\nkind: Secret\nmetadata: {name: registry, namespace: %s}\nstringData: {key: secret}\n", ns))
		expectIn(ctx, ns, "configmap/settings", ".data.key", everywhere("ours"))
		expectIn(ctx, ns, "secret/registry", ".data.key", everywhere("c2VjcmV0"))
		h.ExpectTold(ctx, web, federatedAs("Placed"))
		h.ExpectAtRest(ctx, web, 3)
	})

	It("a claim is made in the members and stays there as it was made", func(ctx SpecContext) {
		ns := federated(ctx, "claims")
		web := harness.CloneSet(ns, "web")
		h.Hub.Apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: %s}
spec: {accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`, ns), needing(ns, "web", 3, "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"))
		expectIn(ctx, ns, "pvc/data", ".spec.resources.requests.storage", everywhere("1Gi"))

		By("deleting the workload and the claim of the hub: the members' claims stay, without the hub's mark")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/web", "pvc/data", "--timeout=240s")
		h.ExpectGone(ctx, web)
		expectIn(ctx, ns, "pvc/data", ".metadata.labels", everywhere(""))
		expectIn(ctx, ns, "pvc/data", ".spec.resources.requests.storage", everywhere("1Gi"))
		for member := range h.Members {
			going, err := field(ctx, member, ns, "pvc/data", ".metadata.deletionTimestamp")
			Expect(err).NotTo(HaveOccurred())
			Expect(going).To(BeEmpty(), "the claim of %s goes", member)
		}
	})
})
