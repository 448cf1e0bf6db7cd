//go:build e2e

package suites_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("Somebody changes a member's object", func() {
	It("that is scaled, edited or deleted: it is put right", func(ctx SpecContext) {
		ns := federated(ctx, "drift")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		west := h.Members["west"]
		webInWest := h.MustPlacement(ctx, web).Spec.Cells
		replicas := map[string]int64{"CloneSet": 3, "UnitedDeployment": 0}
		for _, c := range webInWest {
			if c.Cluster == "west" {
				replicas["UnitedDeployment"] += int64(c.Replicas)
			}
		}

		By("scaling")
		west.MustKubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=5")
		west.MustKubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=1")
		expectReplicas(ctx, west, api, replicas["CloneSet"])
		expectReplicas(ctx, west, web, replicas["UnitedDeployment"])
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)

		By("changing the image")
		west.MustKubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mine:1"}]`)
		west.MustKubectl(ctx, "-n", ns, "patch", "ud/web", "--type=json", "-p",
			`[{"op": "replace", "value": "mine:1",
				"path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image"}]`)
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 9})
		h.ExpectPods(ctx, web, byImage, map[string]int{webImage: 12})
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)

		By("deleting")
		west.MustKubectl(ctx, "-n", ns, "delete", "clone/api", "ud/web", "--wait=false")
		expectReplicas(ctx, west, api, replicas["CloneSet"])
		expectReplicas(ctx, west, web, replicas["UnitedDeployment"])
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3, "south": 3, "west": 3})
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
	})

	It("one without our mark that was there before is left alone, shown as Conflict, and taken over when it is given "+
		"the mark", func(ctx SpecContext) {
		ns := federated(ctx, "conflict")
		api, west := harness.CloneSet(ns, "api"), h.Members["west"]
		Expect(west.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
		west.Apply(ctx, cloneSet(ns, "api", 1, "foreign:1", ""))
		h.ExpectAtRestIn(ctx, "west", api, 1)
		foreign, err := west.Get(ctx, api)
		Expect(err).NotTo(HaveOccurred())
		before := h.Pods.Mark(ctx, ns)

		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: work.ReasonConflict},
			"west", "CloneSet", ns, "api", "delete it there", topology.LabelHub)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3, "south": 3, "west": 1})
		expectSame(ctx, west, api, foreign)

		By("deleting the hub's object: the foreign one stays")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api")
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"west": 1})
		Eventually(ctx,
			func(ctx context.Context) ([]string, error) {
				return h.Works(ctx, api)
			}).WithTimeout(harness.Patience).Should(BeEmpty())
		expectSame(ctx, west, api, foreign)
		history := h.Pods.Since(ctx, before)
		for _, pod := range slices.Concat(history.Gone(), history.Restarted()) {
			Expect(pod.Cluster).NotTo(Equal("west"), pod.String())
		}

		By("handing it over, as the message says")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: work.ReasonConflict}, "west")
		id, err := h.Hub.ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		west.MustKubectl(ctx, "-n", ns, "label", "clone/api", topology.LabelHub+"="+id)
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3, "south": 3, "west": 3})
	})
})

// expectReplicas waits until spec.replicas of the member's object is what was ordered.
func expectReplicas(ctx context.Context, member *harness.Cluster, w harness.Workload, want int64) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (int64, error) {
		object, err := member.Get(ctx, w)
		if err != nil {
			return -1, err
		}
		replicas, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
		return replicas, err
	}).WithTimeout(harness.Patience).WithPolling(50 * time.Millisecond).Should(Equal(want))
}

// expectSame expects that an object is the very one that it was, and nobody changed its spec or its labels.
func expectSame(ctx context.Context, member *harness.Cluster, w harness.Workload, was *unstructured.Unstructured) {
	is, err := member.Get(ctx, w)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, is.GetUID()).To(Equal(was.GetUID()))
	ExpectWithOffset(1, is.GetGeneration()).To(Equal(was.GetGeneration()))
	ExpectWithOffset(1, is.GetLabels()).To(Equal(was.GetLabels()))
	ExpectWithOffset(1, is.GetAnnotations()).To(Equal(was.GetAnnotations()))
}
