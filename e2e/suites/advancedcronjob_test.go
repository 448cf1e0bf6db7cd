//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// cron is an AdvancedCronJob with a tick every three seconds, whose jobs make no pods and are all kept.
func cron(namespace string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: clean, namespace: %s}
spec:
  schedule: "@every 3s"
  template:
    jobTemplate:
      spec:
        suspend: true
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: "clean:1"}]
`, namespace)
}

// ticksIn returns the ticks of the jobs in each member.
func ticksIn(ctx context.Context, namespace string) map[string][]string {
	GinkgoHelper()
	ticks := map[string][]string{}
	for name, member := range h.Members {
		jobs := &batchv1.JobList{}
		Expect(member.Client.List(ctx, jobs, client.InNamespace(namespace))).To(Succeed())
		for i := range jobs.Items {
			ticks[name] = append(ticks[name], jobs.Items[i].Annotations[apps.AnnotationScheduledAt])
		}
	}
	return ticks
}

// startsJobs waits until the placement lets one member start the jobs, other than some member, and that member has
// started as many more as asked. It returns the member.
func startsJobs(ctx context.Context, w harness.Workload, other string, more int) (name string) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		name = ""
		placement, err := h.Placement(ctx, w)
		Expect(err).NotTo(HaveOccurred())
		if placement == nil {
			return name
		}
		for i := range placement.Spec.Cells {
			if placement.Spec.Cells[i].Replicas == 1 {
				name = placement.Spec.Cells[i].Cluster
			}
		}
		return name
	}).WithTimeout(lossPatience).ShouldNot(BeElementOf("", other))
	before := len(ticksIn(ctx, w.Namespace)[name])
	Eventually(ctx, func() int { return len(ticksIn(ctx, w.Namespace)[name]) }).WithTimeout(harness.Patience).
		WithPolling(200*time.Millisecond).Should(BeNumerically(">=", before+more), "jobs of %s", name)
	return name
}

var _ = Describe("An AdvancedCronJob with placement One", func() {
	It("moves from a member that is lost and fenced, which comes back: no tick runs twice", func(ctx SpecContext) {
		ns := bare(ctx, "crons")
		mend()
		enforce(ctx, ns, policy(ns, "everywhere", "AdvancedCronJob")+
			"  placement: One\n  failover: {mode: Fence, after: 20s}\n")
		clean := harness.AdvancedCronJob(ns, "clean")
		h.Hub.Apply(ctx, cron(ns))
		first := startsJobs(ctx, clean, "", 2)
		Expect(ticksIn(ctx, ns)).To(HaveLen(1))

		By("losing " + first + ", which keeps the schedule until a person has confirmed it")
		kill(ctx, fleet.AgentName(first))
		expectNotReady(ctx, first)
		Expect(placedNow(ctx, clean)).To(HaveKeyWithValue(first, 1))
		had := ticksIn(ctx, ns)[first]
		fenced := h.Flotilla(ctx, "fence", first, "--confirm")
		Expect(fenced.Code).To(BeZero(), "%s%s", fenced.Out, fenced.Talk)
		second := startsJobs(ctx, clean, first, 2)
		h.ExpectTold(ctx, clean, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionTrue,
			Reason: "Scheduled"}, "1 member starts the jobs")

		By(first + " returns, and starts none: its order is that another member has the schedule")
		restart(ctx, fleet.AgentName(first))
		Expect(h.Fleet.WaitMembersReady(ctx, lossPatience)).To(Succeed())
		Eventually(ctx, func() string {
			return h.Members[first].MustKubectl(ctx, "-n", ns, "get", "acj/clean", "-o=jsonpath={.spec.paused}")
		}).WithTimeout(lossPatience).Should(Equal("true"))
		Expect(startsJobs(ctx, clean, first, 2)).To(Equal(second))
		Expect(ticksIn(ctx, ns)[first]).To(ConsistOf(had))

		By("another member gets the schedule when " + second + " is drained")
		DeferCleanup(func(ctx SpecContext) { h.Flotilla(ctx, "drain", second, "--undo") })
		drained := h.Flotilla(ctx, "drain", second, "--wait", "--timeout=3m")
		Expect(drained.Code).To(BeZero(), "%s%s", drained.Out, drained.Talk)
		startsJobs(ctx, clean, second, 2)

		times := map[string]int{}
		for _, ticks := range ticksIn(ctx, ns) {
			for _, tick := range ticks {
				times[tick]++
			}
		}
		for tick, n := range times {
			Expect(n).To(Equal(1), "the tick of %s", tick)
		}
		h.Kubectl(ctx, "-n", ns, "delete", "acj/clean")
	})
})
