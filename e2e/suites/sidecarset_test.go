//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// sidecars puts a sidecar before the containers of pods with the label e2e=<name>, in all members, and updates it in
// waves: east first.
func sidecars(name string) string {
	return fmt.Sprintf(`
apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: %[1]s}
spec:
  workloads: [{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, name: %[1]s}]
  rollout:
    strategy: Waves
    waves:
    - {name: first, clusters: {names: [east]}}
    - {name: rest}
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata:
  name: %[1]s
  labels: {topology.flotilla.dev/federated: "true"}
spec:
  selector: {matchLabels: {e2e: %[1]s}}
  containers: [{name: log, image: "log:1"}]
  updateStrategy: {maxUnavailable: 2}
`, name)
}

// expectSidecars waits until the SidecarSet on the hub counts so many pods and updated ones, with this status of Ready.
func expectSidecars(
	ctx context.Context, name string, ready metav1.ConditionStatus, matched, updated int32, says string,
) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		set := &apps.SidecarSet{}
		if err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, set); err != nil {
			return err
		}
		s := &set.Status
		c := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
		if c == nil || c.Status != ready || !strings.Contains(c.Message, says) || s.ObservedGeneration != set.Generation ||
			s.MatchedPods != matched || s.UpdatedPods != updated ||
			ready == metav1.ConditionTrue && (s.ReadyPods != matched || s.UpdatedReadyPods != updated) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	}).WithTimeout(harness.Patience).Should(Succeed(), "%d of %d pods are updated", updated, matched)
}

// expectInjected waits until new pods of each member get the sidecar.
func expectInjected(ctx context.Context, name string) {
	GinkgoHelper()
	for _, member := range h.Members {
		Eventually(ctx, func(ctx context.Context) (int, error) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "sidecar-",
				Labels: map[string]string{"e2e": name}}}
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: webImage}}
			err := member.Client.Create(ctx, pod, client.DryRunAll)
			return len(pod.Spec.Containers), err
		}).WithTimeout(harness.Patience).Should(Equal(2), member.Name)
	}
}

var _ = Describe("A SidecarSet on a hub", func() {
	It("updates the sidecar of running pods member by member, stops at an image that cannot be pulled, and heals",
		func(ctx SpecContext) {
			ns := federated(ctx, "sidecars")
			web := harness.CloneSet(ns, "web")
			image := func(image string) {
				h.Kubectl(ctx, "patch", "sidecarsets.apps.kruise.io/"+ns, "--type=merge", "-p",
					fmt.Sprintf(`{"spec": {"containers": [{"name": "log", "image": %q}]}}`, image))
			}
			DeferCleanup(func(ctx SpecContext) {
				h.Kubectl(ctx, "delete", "--ignore-not-found", "sidecarsets.apps.kruise.io/"+ns)
				h.Kubectl(ctx, "delete", "--ignore-not-found", "clusterfederationpolicies.topology.flotilla.dev/"+ns)
			})

			By("giving new pods of three members the sidecar")
			h.Hub.Apply(ctx, sidecars(ns))
			expectInjected(ctx, ns)
			h.Hub.Apply(ctx, strings.Replace(cloneSet(ns, "web", 9, webImage, ""), "metadata: {labels: {app: web}}",
				fmt.Sprintf("metadata: {labels: {app: web, e2e: %s}}", ns), 1))
			expectSidecars(ctx, ns, metav1.ConditionTrue, 9, 9, "")
			h.ExpectPods(ctx, web, byClusterAndImage, map[string]int{"east log:1": 3, "south log:1": 3, "west log:1": 3})

			By("changing its image: east is first, and at most two pods are unavailable over all members")
			start := h.Pods.Mark(ctx, ns)
			image("log:2")
			expectSidecars(ctx, ns, metav1.ConditionTrue, 9, 9, "")
			h.ExpectPods(ctx, web, byImage, map[string]int{"log:2": 9})
			history := h.Pods.Since(ctx, start)
			expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")
			Expect(history.Gone()).To(BeEmpty(), "pods stay")
			Expect(history.Restarted()).To(HaveLen(9))
			expectWave(history, "log:2", 3)

			By("why and tree: each member has the whole object")
			why := h.Flotilla(ctx, "why", "sidecarset/"+ns)
			Expect(why.Code).To(BeZero(), why.Talk)
			Expect(why.Out).To(And(ContainSubstring("SidecarSet "+ns+": placed by ClusterFederationPolicy "+ns),
				ContainSubstring("east has 3: ")))
			tree := h.Flotilla(ctx, "tree", "sidecarset/"+ns)
			Expect(tree.Code).To(BeZero(), tree.Talk)
			Expect(tree.Out).To(ContainSubstring("SidecarSet " + ns))

			By("giving an image that cannot be pulled: it gets no further than the limit in east")
			start = h.Pods.Mark(ctx, ns)
			image("does-not-exist:1")
			expectSidecars(ctx, ns, metav1.ConditionFalse, 9, 2, "wave 1 of 2 (first)")
			h.ExpectPods(ctx, web, byClusterAndImage, map[string]int{"east does-not-exist:1": 2, "east log:2": 1,
				"south log:2": 3, "west log:2": 3})

			By("creating pods meanwhile: they get the earlier image where the wave has not come")
			h.Kubectl(ctx, "-n", ns, "scale", "clonesets.apps.kruise.io/web", "--replicas=12")
			expectSidecars(ctx, ns, metav1.ConditionFalse, 12, 3, "")
			h.ExpectPods(ctx, web, byClusterAndImage, map[string]int{"east does-not-exist:1": 3, "east log:2": 1,
				"south log:2": 4, "west log:2": 4})

			By("giving the earlier image again")
			image("log:2")
			expectSidecars(ctx, ns, metav1.ConditionTrue, 12, 12, "")
			h.ExpectPods(ctx, web, byImage, map[string]int{"log:2": 12})
			expectAtMost(h.Pods.Since(ctx, start), judge.WithImage("does-not-exist:1"), 3, "pods with the broken image")

			By("deleting it: pods keep their sidecars")
			start = h.Pods.Mark(ctx, ns)
			h.Kubectl(ctx, "delete", "sidecarsets.apps.kruise.io/"+ns)
			for _, name := range h.MemberNames() {
				Eventually(ctx, func(ctx context.Context) error {
					return h.Members[name].Client.Get(ctx, client.ObjectKey{Name: ns}, &apps.SidecarSet{})
				}).WithTimeout(harness.Patience).Should(MatchError(ContainSubstring("not found")), name)
			}
			harness.ExpectUntouched(h.Pods.Since(ctx, start))
		})
})

// expectWave wants that no pod outside of east had the image before so many pods of east had it and served.
func expectWave(history judge.History, image string, first int) {
	GinkgoHelper()
	serving := map[string]bool{}
	for i := range history.Events {
		pod := history.Events[i].After
		if pod == nil || pod.Image != image {
			continue
		}
		if pod.Cluster == "east" && pod.Serves() && strings.HasSuffix(pod.Running, image) {
			serving[string(pod.UID)] = true
		}
		if pod.Cluster != "east" {
			Expect(serving).To(HaveLen(first), "%s has %s", pod, image)
		}
	}
}
