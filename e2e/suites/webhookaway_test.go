//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// sidecarsUnder gives the pods of an application a sidecar.
func sidecarsUnder(namespace, app, failurePolicy string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: %[1]s-%[2]s}
spec:
  selector: {matchLabels: {app: %[2]s}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  flotilla: {failurePolicy: %[3]s}
  containers: [{name: proxy, image: "proxy:1"}]
`, namespace, app, failurePolicy)
}

// protects lets one pod of an application be unavailable.
func protects(namespace, app, failurePolicy string) string {
	return fmt.Sprintf(`
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: %[2]s}}
  maxUnavailable: 1
  flotilla: {failurePolicy: %[3]s}
`, namespace, app, failurePolicy)
}

// deployed is a Deployment, which needs no agent.
func deployed(namespace, app string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "main:1"}]
`, namespace, app, replicas)
}

// inApp are the pods of an application that are not on their way out, and how many of them have no sidecar.
func inApp(ctx context.Context, c *harness.Cluster, namespace, app string) (pods []corev1.Pod, bare int) {
	GinkgoHelper()
	var list corev1.PodList
	Expect(c.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app": app})).To(Succeed())
	for _, pod := range list.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		pods = append(pods, pod)
		if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "proxy" }) {
			bare++
		}
	}
	return pods, bare
}

func evict(ctx context.Context, c *harness.Cluster, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return c.Client.SubResource("eviction").Create(ctx, pod, eviction)
}

var _ = Describe("An agent whose webhook is killed in the middle of a scale-out", func() {
	It("leaves pods to the failure policy of what selects them, and other pods alone", func(ctx SpecContext) {
		const few, some, all = 2, 4, 8
		cluster := alone.Members[north]
		ns := cluster.PlainNamespace(ctx, "away")
		explain(alone, ns)
		Expect(h.RunAgentOn(ctx, alone, north)).To(Succeed())
		endAfter(fleet.AgentName(north))
		DeferCleanup(func(ctx SpecContext) { // what refuses while no agent answers goes first
			cluster.MustKubectl(ctx, "delete", "--ignore-not-found", "sidecarsets.apps.kruise.io", ns+"-injected",
				ns+"-tried")
			cluster.MustKubectl(ctx, "-n", ns, "delete", "pub", "--all")
		})
		apps := []string{"injected", "tried", "kept", "free", "plain"}
		cluster.Apply(ctx, sidecarsUnder(ns, "injected", "Fail"), sidecarsUnder(ns, "tried", "Ignore"),
			protects(ns, "kept", "Fail"),
			protects(ns, "free", "Ignore"))
		for _, kind := range []string{"mutating", "validating"} {
			cluster.MustKubectl(ctx, "wait", kind+"webhookconfiguration/flotilla-pods", "--for=create", "--timeout=60s")
		}
		cluster.MustKubectl(ctx, "-n", ns, "wait", "pub/kept", "--for=condition=Enforced", "--timeout=60s")
		has := func(app string, n int) {
			GinkgoHelper()
			Eventually(ctx, func() int {
				pods, _ := inApp(ctx, cluster, ns, app)
				return len(pods)
			}).WithTimeout(harness.Patience).Should(Equal(n), "pods of "+app)
		}
		// The API server may take a moment to know the webhooks; what it has not asked about comes again.
		Eventually(ctx, func() int {
			var bare int
			for _, app := range []string{"injected", "tried"} {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe",
					Labels: map[string]string{"app": app}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}}}
				if err := cluster.Client.Create(ctx, pod, client.DryRunAll); err != nil || len(pod.Spec.Containers) == 1 {
					bare++
				}
			}
			return bare
		}).WithTimeout(harness.Patience).Should(BeZero(), "applications whose pods get no sidecar")
		for _, app := range apps {
			cluster.Apply(ctx, deployed(ns, app, few))
		}
		for _, app := range apps {
			has(app, few)
		}
		cluster.MustKubectl(ctx, "-n", ns, "wait", "deploy", "--all", "--for=condition=Available", "--timeout=60s")

		By("killing the agent in the middle of a scale-out")
		scale := func(n int) {
			GinkgoHelper()
			args := []string{"-n", ns, "scale", fmt.Sprint("--replicas=", n)}
			for _, app := range apps {
				args = append(args, "deploy/"+app)
			}
			cluster.MustKubectl(ctx, args...)
		}
		scale(some)
		for _, app := range apps {
			has(app, some)
		}
		Expect(alone.Fleet.Kill(ctx, fleet.AgentName(north))).To(Succeed())
		scale(all)
		for _, app := range []string{"plain", "tried", "free", "kept"} {
			has(app, all)
		}
		pods, bare := inApp(ctx, cluster, ns, "tried")
		Expect(bare).To(Equal(all-some), "of %d pods under Ignore start without a sidecar", len(pods))
		Eventually(ctx, func() (string, error) {
			return cluster.Kubectl(ctx, "-n", ns, "get", "deploy/injected", "-o",
				`jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].status}`)
		}).WithTimeout(harness.Patience).Should(Equal("True"))
		pods, bare = inApp(ctx, cluster, ns, "injected")
		Expect([]int{len(pods), bare}).To(Equal([]int{some, 0}), "pods under Fail, and those without a sidecar")

		By("asking for pods of budgets to go")
		kept, _ := inApp(ctx, cluster, ns, "kept")
		Expect(cluster.Client.Delete(ctx, &kept[0])).To(MatchError(apierrors.IsInternalError, "an internal error"))
		Expect(evict(ctx, cluster, &kept[0])).To(MatchError(apierrors.IsInternalError, "an internal error"))
		for _, app := range []string{"free", "plain"} {
			pods, _ := inApp(ctx, cluster, ns, app)
			Expect(cluster.Client.Delete(ctx, &pods[0])).To(Succeed(), app)
			Expect(evict(ctx, cluster, &pods[1])).To(Succeed(), app)
		}

		By("starting the agent again")
		Expect(h.RunAgentOn(ctx, alone, north)).To(Succeed())
		has("injected", all)
		_, bare = inApp(ctx, cluster, ns, "injected")
		Expect(bare).To(BeZero(), "pods under Fail without a sidecar")
		cluster.MustKubectl(ctx, "-n", ns, "wait", "pub/kept", "--for=jsonpath={.status.unavailableAllowed}=1",
			"--timeout=120s")
		Expect(evict(ctx, cluster, &kept[0])).To(Succeed())
		Expect(evict(ctx, cluster, &kept[1])).To(MatchError(apierrors.IsTooManyRequests, "too many requests"))
	})
})
