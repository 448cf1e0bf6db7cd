//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

const repairImage = "repair:1"

// broadcastJob repairs the nodes with the label job=repair, 12 of 60 at a time.
func broadcastJob(namespace string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: repair, namespace: %s}
spec:
  parallelism: 5
  flotilla: {batches: {size: 20%%, soak: 15s, maxRestarts: 0}}
  template:
    metadata: {annotations: {%s: 1s}}
    spec:
      restartPolicy: Never
      nodeSelector: {job: repair}
      tolerations: [{key: job, operator: Exists}]
      containers: [{name: main, image: %q}]
`, namespace, fleet.AnnotationRunFor, repairImage)
}

// neighbour is a pod beside those of the job on a node.
func neighbour(namespace, node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: neighbour, namespace: %s}
spec:
  nodeName: %s
  tolerations: [{key: job, operator: Exists}]
  containers: [{name: main, image: "web:1"}]
`, namespace, node)
}

var _ = Describe("A BroadcastJob", func() {
	It("halts over three members when a pod beside it restarts, is resumed and ends", func(ctx SpecContext) {
		ns := bare(ctx, "jobs")
		enforce(ctx, ns, strings.Replace(policy(ns, "everywhere", "BroadcastJob"), "- kind: BroadcastJob",
			"- {apiVersion: apps.kruise.io/v1beta1, kind: BroadcastJob}", 1))
		repair := harness.BroadcastJob(ns, "repair")
		DeferCleanup(func(ctx SpecContext) {
			for _, member := range h.Members {
				_, _ = member.Kubectl(ctx, "delete", "nodes", "-l", "job=repair", "--wait=false")
			}
		})
		for _, name := range h.MemberNames() {
			var nodes []fleet.NodeSpec
			for i := range 20 {
				nodes = append(nodes, fleet.NodeSpec{Name: fmt.Sprintf("%s-job-%02d", name, i),
					Labels: map[string]string{"job": "repair"},
					Taints: []corev1.Taint{{Key: "job", Effect: corev1.TaintEffectNoSchedule}}})
			}
			Expect(h.Members[name].AddNodes(ctx, nodes...)).To(Succeed())
		}
		Eventually(ctx, repairable).WithTimeout(harness.Patience).Should(Equal(60), "nodes that a pod of the job fits")
		jobIs := func(what string, is func(*apps.BroadcastJobStatus) bool) {
			GinkgoHelper()
			Eventually(ctx, func(ctx context.Context) error {
				job := &apps.BroadcastJob{}
				if err := h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "repair"}, job); err != nil {
					return err
				}
				if !is(&job.Status) {
					return fmt.Errorf("status %+v, %+v", job.Status, job.Status.Flotilla)
				}
				return nil
			}).WithTimeout(harness.Patience).Should(Succeed(), what)
		}

		By("touching twelve nodes of all members")
		start := h.Pods.Mark(ctx, ns)
		h.Hub.Apply(ctx, broadcastJob(ns))
		jobIs("batch 1 soaks", func(s *apps.BroadcastJobStatus) bool {
			return s.Desired == 60 && s.Succeeded == 12 && s.Flotilla != nil && s.Flotilla.Batch == 1
		})
		// Members take their nodes by name, four in each batch.
		h.Members["east"].Apply(ctx, neighbour(ns, "east-job-05"))

		By("halting in batch 2, since a pod beside it restarts")
		jobIs("batch 2 soaks", func(s *apps.BroadcastJobStatus) bool {
			return s.Succeeded == 24 && s.Flotilla != nil && s.Flotilla.Batch == 2
		})
		h.Members["east"].MustKubectl(ctx, "-n", ns, "set", "image", "pod/neighbour", "main=web:2")
		jobIs("the job halted", func(s *apps.BroadcastJobStatus) bool {
			return s.Phase == apps.PhasePaused && s.Flotilla != nil && s.Flotilla.Halted != nil &&
				s.Flotilla.Halted.Reason == "PodsRestarted"
		})
		Eventually(ctx, func(ctx context.Context) string {
			return h.Flotilla(ctx, "rollout", "status", "bcj/repair", "-n", ns).Out
		}).WithTimeout(harness.Patience).Should(And(ContainSubstring("halted in member east"),
			ContainSubstring("flotilla rollout resume bcj/repair -n "+ns)))
		Consistently(ctx, func() int { return jobPods(h.Pods.Since(ctx, start)) }).WithTimeout(20 * time.Second).
			Should(Equal(24))

		By("resuming it")
		resumed := h.Flotilla(ctx, "rollout", "resume", "bcj/repair", "-n", ns)
		Expect(resumed.Code).To(BeZero(), resumed.Talk)
		jobIs("the job is through", func(s *apps.BroadcastJobStatus) bool {
			return s.Phase == apps.PhaseCompleted && s.Succeeded == 60 && s.CompletionTime != nil
		})
		history := h.Pods.Since(ctx, start)
		Expect(jobPods(history)).To(Equal(60))
		expectAtMost(history, func(pods map[types.UID]judge.PodView) int {
			running := 0
			for _, pod := range pods {
				if pod.Image == repairImage && pod.Ready {
					running++
				}
			}
			return running
		}, 5, "pods that run at once")
		h.Kubectl(ctx, "-n", ns, "delete", "broadcastjobs.apps.kruise.io/repair")
		h.Members["east"].MustKubectl(ctx, "-n", ns, "delete", "pod/neighbour", "--wait=false")
		h.ExpectGone(ctx, repair)
	})
})

// repairable counts the nodes of all members that have the taint of the job alone: new ones are not ready yet.
func repairable(ctx context.Context) (count int, err error) {
	for _, member := range h.Members {
		list := &corev1.NodeList{}
		if err := member.Client.List(ctx, list, client.MatchingLabels{"job": "repair"}); err != nil {
			return 0, err
		}
		for i := range list.Items {
			if len(list.Items[i].Spec.Taints) == 1 {
				count++
			}
		}
	}
	return count, nil
}

// jobPods counts the pods of the job that were created.
func jobPods(history judge.History) int {
	created := 0
	for _, pod := range history.Created() {
		if pod.Image == repairImage {
			created++
		}
	}
	return created
}
