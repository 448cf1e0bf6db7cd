//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// daemonSet is an advanced DaemonSet of which two nodes may be unavailable.
func daemonSet(namespace string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: log, namespace: %s}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec: {containers: [{name: main, image: "log:1"}]}
  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}
`, namespace)
}

// expectDaemons waits until the DaemonSet on the hub is Ready with a pod on each of so many nodes, as the pods of all
// members are, so many of which have the image.
func expectDaemons(ctx context.Context, w harness.Workload, nodes, updated int, image string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		set := &apps.DaemonSet{}
		if err := h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, set); err != nil {
			return err
		}
		ready := ""
		for _, c := range set.Status.Conditions {
			if string(c.Type) == apps.ConditionReady {
				ready = string(c.Status)
			}
		}
		pods := h.PodsOf(w)
		have := []int{len(pods), harness.Count(pods, func(p judge.PodView) string { return p.Image })[image]}
		s := &set.Status
		told := []int32{s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.NumberAvailable,
			s.UpdatedNumberScheduled, s.NumberUnavailable}
		n, u := int32(nodes), int32(updated)
		if ready != "True" || s.ObservedGeneration != set.Generation || have[0] != nodes || have[1] != updated ||
			fmt.Sprint(told) != fmt.Sprint([]int32{n, n, n, n, u, 0}) {
			return fmt.Errorf("%d pods, %d with %s; status %+v", have[0], have[1], image, s)
		}
		return nil
	}).WithTimeout(harness.Patience).Should(Succeed(), "%d of %d nodes have %s", updated, nodes, image)
}

var _ = Describe("An advanced DaemonSet", func() {
	It("updates selected nodes, then all but a partition, over three members whose nodes come, go and get taints",
		func(ctx SpecContext) {
			ns := bare(ctx, "daemons")
			enforce(ctx, ns, strings.Replace(policy(ns, "everywhere", "DaemonSet"), "- kind: DaemonSet",
				"- {apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet}", 1))
			log := harness.DaemonSet(ns, "log")
			rolling := func(fields, image string) {
				h.Kubectl(ctx, "-n", ns, "patch", "daemonsets.apps.kruise.io/log", "--type=merge", "-p", fmt.Sprintf(
					`{"spec": {"updateStrategy": {"rollingUpdate": %s},
					"template": {"spec": {"containers": [{"name": "main", "image": %q}]}}}}`, fields, image))
			}
			east := h.Members["east"]
			added := fleet.NodeSpec{Name: "east-b-9", Region: "eu", Zone: "b"}
			DeferCleanup(func(ctx SpecContext) {
				for _, member := range h.Members {
					member.MustKubectl(ctx, "label", "nodes", "--all", "canary-")
					_, _ = member.Kubectl(ctx, "taint", "node", "--all", "daemons-") // it fails where no node has the taint
				}
				node := &corev1.Node{}
				node.Name = added.Name
				Expect(client.IgnoreNotFound(east.Client.Delete(ctx, node))).To(Succeed())
			})

			By("running a pod on each of the twelve nodes")
			for _, name := range h.MemberNames() {
				zone := map[string]string{"east": "a", "west": "b", "south": "c"}[name]
				h.Members[name].MustKubectl(ctx, "label", "node", name+"-"+zone+"-0", "canary=yes")
			}
			h.Hub.Apply(ctx, daemonSet(ns))
			expectDaemons(ctx, log, 12, 12, "log:1")

			By("why, tree and plan: each member has the whole object")
			why := h.Flotilla(ctx, "why", "daemonsets.apps.kruise.io/log", "-n", ns)
			Expect(why.Code).To(BeZero(), why.Talk)
			Expect(why.Out).To(And(ContainSubstring("DaemonSet "+ns+"/log: placed by FederationPolicy everywhere"),
				ContainSubstring("east has 4: "), ContainSubstring("[PerMember]")))
			tree := h.Flotilla(ctx, "tree", "daemonsets.apps.kruise.io/log", "-n", ns)
			Expect(tree.Code).To(BeZero(), tree.Talk)
			Expect(tree.Out).To(ContainSubstring("DaemonSet " + ns + "/log"))
			changed := filepath.Join(GinkgoT().TempDir(), "log.yaml")
			Expect(os.WriteFile(changed, []byte(strings.Replace(daemonSet(ns), "log:1", "log:2", 1)), 0o600)).To(Succeed())
			planned := h.Flotilla(ctx, "plan", "-f", changed, "-n", ns)
			Expect(planned.Code).To(BeZero(), planned.Talk)
			Expect(planned.Out).To(ContainSubstring("DaemonSet " + ns + "/log: placed on 3 clusters"))

			By("updating the nodes with the label canary, one in each member")
			start := h.Pods.Mark(ctx, ns)
			rolling(`{"selector": {"matchLabels": {"canary": "yes"}}}`, "log:2")
			expectDaemons(ctx, log, 12, 3, "log:2")
			for _, pod := range h.PodsOf(log) {
				Expect(pod.Image == "log:2").To(Equal(strings.HasSuffix(pod.Node, map[string]string{
					"east": "a-0", "west": "b-0", "south": "c-0"}[pod.Cluster])), "%s", pod)
			}
			canary := h.Pods.Since(ctx, start)
			expectAtMost(canary, judge.Unavailable(12), 2, "unavailable pods")
			expectAtMost(canary, judge.WithImage("log:2"), 3, "updated pods")

			By("updating all but five nodes, whichever members they are in")
			start = h.Pods.Mark(ctx, ns)
			rolling(`{"selector": null, "partition": 5}`, "log:2")
			expectDaemons(ctx, log, 12, 7, "log:2")

			By("adding a node to east, which counts for the twelve others")
			Expect(east.AddNodes(ctx, added)).To(Succeed())
			expectDaemons(ctx, log, 13, 8, "log:2")

			By("giving a node that is not updated a taint: it keeps its pod as it is")
			kept := podsWhere(h.PodsOf(log), func(p judge.PodView) bool {
				return p.Image == "log:1" && p.Node != added.Name
			})[0]
			tainted := h.Members[kept.Cluster]
			tainted.MustKubectl(ctx, "taint", "node", kept.Node, "daemons=no:NoSchedule")
			expectDaemons(ctx, log, 13, 8, "log:2")
			expectAtMost(h.Pods.Since(ctx, start), judge.WithImage("log:2"), 8, "updated pods")

			By("updating the others, with a node of east removed meanwhile")
			rolling(`{"partition": 0}`, "log:2")
			node := &corev1.Node{}
			node.Name = added.Name
			Expect(east.Client.Delete(ctx, node)).To(Succeed())
			expectDaemons(ctx, log, 12, 11, "log:2")
			Expect(podsWhere(h.PodsOf(log), func(p judge.PodView) bool { return p.UID == kept.UID })).To(HaveLen(1))

			By("taking the taint back")
			tainted.MustKubectl(ctx, "taint", "node", kept.Node, "daemons-")
			expectDaemons(ctx, log, 12, 12, "log:2")
			expectAtMost(h.Pods.Since(ctx, start), judge.Unavailable(12), 2, "unavailable pods")
			h.Kubectl(ctx, "-n", ns, "delete", "daemonsets.apps.kruise.io/log")
			h.ExpectGone(ctx, log)
		})
})

// podsWhere returns the pods for which is holds.
func podsWhere(pods []judge.PodView, is func(judge.PodView) bool) (out []judge.PodView) {
	for _, pod := range pods {
		if is(pod) {
			out = append(out, pod)
		}
	}
	return out
}
