//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// statefulSet is an advanced StatefulSet that updates in place, with its headless Service; more are fields of its spec.
func statefulSet(namespace string, replicas int, image, more string) string {
	return service(namespace) + fmt.Sprintf(`
---
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: db, namespace: %s}
spec:
  replicas: %d
  podManagementPolicy: Parallel
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
%s`, namespace, replicas, podsOf(image)+more)
}

func service(namespace string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: db, namespace: %s}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}`, namespace)
}

// podsOf are the fields that the StatefulSets of all kinds have.
func podsOf(image string) string {
	return fmt.Sprintf(`  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "%s"}]}
`, image)
}

// identities makes a federated namespace for StatefulSets with a failover.
func identities(ctx context.Context, name, failover string) string {
	ns := bare(ctx, name)
	enforce(ctx, ns, identitiesOn(ns, "east, south, west", failover))
	return ns
}

// identitiesOn is a policy for advanced StatefulSets on these members.
func identitiesOn(ns, clusters, failover string) string {
	return strings.Replace(policyOn(ns, "everywhere", clusters, "StatefulSet"), "- kind: StatefulSet",
		"- {apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet}", 1) + "  failover: {mode: " + failover + "}\n"
}

// expectOrdinals waits until each member runs the first of its ordinals, as many as it has replicas.
func expectOrdinals(ctx context.Context, w harness.Workload, starts map[string]int) {
	GinkgoHelper()
	want := map[string]int{}
	for member, n := range placedNow(ctx, w) {
		for i := range n {
			want[member+"/"+strconv.Itoa(starts[member]+i)] = 1
		}
	}
	h.ExpectPods(ctx, w, byOrdinal, want)
}

// expectNoTwins expects that there were never two pods of one name.
func expectNoTwins(history judge.History) {
	GinkgoHelper()
	expectAtMost(history, judge.SameName, 1, "pods with one name")
}

// podNamed returns a pod of a workload, the zero value if it does not exist.
func podNamed(w harness.Workload, name string) judge.PodView {
	for _, pod := range h.PodsOf(w) {
		if pod.Name == name {
			return pod
		}
	}
	return judge.PodView{}
}

// handedOver returns the variables of pods that were created with values of others, by the name of the pod.
func handedOver(ctx context.Context, w harness.Workload) map[string]map[string]string {
	GinkgoHelper()
	out := map[string]map[string]string{}
	for _, view := range h.PodsOf(w) {
		pod := &corev1.Pod{}
		key := client.ObjectKey{Namespace: view.Namespace, Name: view.Name}
		Expect(h.Members[view.Cluster].Client.Get(ctx, key, pod)).To(Succeed())
		variables := map[string]string{}
		for _, env := range pod.Spec.Containers[0].Env {
			if strings.HasPrefix(env.Name, topology.HandedOverVariable) {
				variables[env.Name] = env.Value
			}
		}
		if len(variables) > 0 {
			out[view.Name] = variables
		}
	}
	return out
}

// names are those of a workload's pods, by what key returns of each.
func names(w harness.Workload, key func(judge.PodView) string) map[string][]string {
	all := map[string][]string{}
	for _, pod := range h.PodsOf(w) {
		all[key(pod)] = append(all[key(pod)], pod.Name)
	}
	return all
}

var _ = Describe("An advanced StatefulSet", func() {
	starts := map[string]int{"east": 0, "south": 1000, "west": 2000}
	patch := func(ctx context.Context, ns, spec string) {
		h.Kubectl(ctx, "-n", ns, "patch", "statefulsets.apps.kruise.io/db", "--type=merge", "-p", `{"spec": `+spec+`}`)
	}

	It("keeps names unique as it scales, updates the highest ordinals first, and goes back", func(ctx SpecContext) {
		ns := identities(ctx, "ordinals", "Never")
		db := harness.StatefulSet(ns, "db")
		first := h.Pods.Mark(ctx, ns)
		h.Hub.Apply(ctx, statefulSet(ns, 6, "db:1", ""))
		h.ExpectAtRest(ctx, db, 6)
		expectOrdinals(ctx, db, starts)
		for member := range starts {
			Expect(h.Members[member].MustKubectl(ctx, "-n", ns, "get", "service/db", "-o=name")).To(ContainSubstring("db"))
		}
		patch(ctx, ns, `{"replicas": 14}`)
		h.ExpectAtRest(ctx, db, 14)
		expectOrdinals(ctx, db, starts)
		patch(ctx, ns, `{"replicas": 3}`)
		h.ExpectAtRest(ctx, db, 3)
		expectOrdinals(ctx, db, starts)
		Expect(names(db, harness.ByCluster)).To(Equal(map[string][]string{
			"east": {"db-0"}, "south": {"db-1000"}, "west": {"db-2000"}}))
		patch(ctx, ns, `{"replicas": 6}`)
		h.ExpectAtRest(ctx, db, 6)
		expectOrdinals(ctx, db, starts)

		By("updating the two highest of six")
		before := h.Pods.Mark(ctx, ns)
		patch(ctx, ns, `{"updateStrategy": {"rollingUpdate": {"partition": 4}},
			"template": {"spec": {"containers": [{"name": "main", "image": "db:2"}]}}}`)
		h.ExpectPods(ctx, db, byImage, map[string]int{"db:1": 4, "db:2": 2})
		h.ExpectAtRest(ctx, db, 6)
		Expect(names(db, byImage)["db:2"]).To(ConsistOf("db-2000", "db-2001"))
		patch(ctx, ns, `{"updateStrategy": {"rollingUpdate": {"partition": 0}}}`)
		h.ExpectPods(ctx, db, byImage, map[string]int{"db:2": 6})
		h.ExpectAtRest(ctx, db, 6)

		By("going back")
		undone := h.Flotilla(ctx, "rollout", "undo", "asts/db", "-n", ns)
		Expect(undone.Code).To(BeZero(), "%s%s", undone.Out, undone.Talk)
		h.ExpectPods(ctx, db, byImage, map[string]int{"db:1": 6})
		h.ExpectAtRest(ctx, db, 6)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		Expect(history.Gone()).To(BeEmpty())
		expectAtMost(history, judge.Unavailable(6), 1, "unavailable pods")
		expectNoTwins(h.Pods.Since(ctx, first))
	})

	It("moves ordinals and last values of a fenced member; it returns, and gets others", func(ctx SpecContext) {
		ns := identities(ctx, "fenced", "Fence, after: 20s, handOver: "+`{annotations: [db.example.com/checkpoint], `+
			`status: [{name: revision, jsonPath: "{.status.updateRevision}"}]}`)
		mend()
		db := harness.StatefulSet(ns, "db")
		h.Hub.Apply(ctx, statefulSet(ns, 6, "db:1", ""))
		h.ExpectAtRest(ctx, db, 6)
		expectOrdinals(ctx, db, starts)
		before := h.Pods.Mark(ctx, ns)
		south := h.Members["south"]
		south.MustKubectl(ctx, "-n", ns, "annotate", "pod/db-1000", "db.example.com/checkpoint=41")
		south.MustKubectl(ctx, "-n", ns, "annotate", "pod/db-1000", "db.example.com/checkpoint=42", "--overwrite")
		Eventually(func() string {
			return h.Kubectl(ctx, "-n", wire.MemberNamespace("south"), "get", "works", "-o",
				`jsonpath={.items[*].status.report.handOver.pods}`)
		}).WithContext(ctx).WithTimeout(lossPatience).Should(Equal(`[{"ordinal":1000,"values":{"checkpoint":"42"}}]`))
		revision := south.MustKubectl(ctx, "-n", ns, "get", "asts/db", "-o=jsonpath={.status.updateRevision}")

		By("losing south with its pods, and saying so")
		kill(ctx, fleet.AgentName("south"))
		south.MustKubectl(ctx, "-n", ns, "delete", "pods", "--all")
		expectNotReady(ctx, "south")
		Expect(harness.Count(h.PodsOf(db), harness.ByCluster)).To(Equal(map[string]int{"east": 2, "west": 2}))
		fenced := h.Flotilla(ctx, "fence", "south", "--confirm")
		Expect(fenced.Code).To(BeZero(), "%s%s", fenced.Out, fenced.Talk)
		expectServing(ctx, db, 6, "east", "west")
		Expect(harness.Count(h.PodsOf(db), func(p judge.PodView) string { return p.Name })).To(Equal(map[string]int{
			"db-0": 1, "db-1": 1, "db-1000": 1, "db-1001": 1, "db-2000": 1, "db-2001": 1}))
		Expect(handedOver(ctx, db)).To(Equal(map[string]map[string]string{
			"db-1000": {"FLOTILLA_HANDOVER_CHECKPOINT": "42", "FLOTILLA_HANDOVER_REVISION": revision},
			"db-1001": {"FLOTILLA_HANDOVER_REVISION": revision}}))

		By("handing values over once")
		Eventually(func(g Gomega) {
			p, err := h.Placement(ctx, db)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.Spec.Ordinals.HandOver).To(BeNil())
			for _, member := range []string{"east", "west"} {
				g.Expect(h.Members[member].MustKubectl(ctx, "-n", ns, "get", "asts/db", "-o=jsonpath={.metadata.annotations}")).
					NotTo(ContainSubstring(topology.AnnotationHandedOver))
			}
		}).WithContext(ctx).WithTimeout(lossPatience).Should(Succeed())
		replaced := podNamed(db, "db-1000")
		h.Members[replaced.Cluster].MustKubectl(ctx, "-n", ns, "delete", "pod/db-1000")
		Eventually(func() bool {
			pod := podNamed(db, "db-1000")
			return pod.Name != "" && pod.UID != replaced.UID && pod.Serves()
		}).WithContext(ctx).WithTimeout(lossPatience).Should(BeTrue())
		Expect(handedOver(ctx, db)).To(HaveLen(1))

		By("south returns: it has an order for ordinals that run elsewhere")
		restart(ctx, fleet.AgentName("south"))
		Expect(h.Fleet.WaitMembersReady(ctx, lossPatience)).To(Succeed())
		h.ExpectAtRest(ctx, db, 6)
		patch(ctx, ns, `{"replicas": 9}`)
		h.ExpectAtRest(ctx, db, 9)
		Expect(names(db, harness.ByCluster)["south"]).To(ConsistOf("db-3000", "db-3001", "db-3002"))
		history := h.Pods.Since(ctx, before)
		expectNoTwins(history)
		Expect(history.Restarted()).To(BeEmpty())
	})

	It("stops its update by itself after each step of the policy, until it is promoted", func(ctx SpecContext) {
		const steps = "  rollout:\n    steps:\n    - partition: 5\n    - partition: 2\n"
		ns := bare(ctx, "steps")
		enforce(ctx, ns, identitiesOn(ns, "east, south, west", "Never")+steps)
		db := harness.StatefulSet(ns, "db")
		h.Hub.Apply(ctx, statefulSet(ns, 6, "db:1", ""))
		h.ExpectAtRest(ctx, db, 6)
		before := h.Pods.Mark(ctx, ns)
		promote := func() {
			GinkgoHelper()
			promoted := h.Flotilla(ctx, "rollout", "promote", "asts/db", "-n", ns)
			Expect(promoted.Code).To(BeZero(), "%s%s", promoted.Out, promoted.Talk)
		}
		waits := func(step string) {
			GinkgoHelper()
			Eventually(ctx, func(ctx context.Context) string {
				status := h.Flotilla(ctx, "rollout", "status", "asts/db", "-n", ns)
				return status.Out + status.Talk
			}).WithTimeout(harness.Patience).Should(And(ContainSubstring(step), ContainSubstring("waits until it is promoted")))
		}

		patch(ctx, ns, `{"template": {"spec": {"containers": [{"name": "main", "image": "db:2"}]}}}`)
		h.ExpectPods(ctx, db, byImage, map[string]int{"db:1": 5, "db:2": 1})
		waits("step 1 of 2 (partition 5)")
		Expect(names(db, byImage)["db:2"]).To(ConsistOf("db-2001"))
		promote()
		h.ExpectPods(ctx, db, byImage, map[string]int{"db:1": 2, "db:2": 4})
		waits("step 2 of 2 (partition 2)")
		Expect(names(db, byImage)["db:1"]).To(ConsistOf("db-0", "db-1"))
		promote()
		h.ExpectPods(ctx, db, byImage, map[string]int{"db:2": 6})
		h.ExpectAtRest(ctx, db, 6)
		history := h.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		Expect(history.Gone()).To(BeEmpty())
		expectAtMost(history, judge.Unavailable(6), 1, "unavailable pods")
	})

	It("is drained: each pod goes before one of another name starts elsewhere", func(ctx SpecContext) {
		ns := identities(ctx, "drained", "Never")
		DeferCleanup(func(ctx SpecContext) { Expect(h.Flotilla(ctx, "drain", "west", "--undo").Code).To(BeZero()) })
		db := harness.StatefulSet(ns, "db")
		h.Hub.Apply(ctx, statefulSet(ns, 6, "db:1", ""))
		h.ExpectAtRest(ctx, db, 6)
		before := h.Pods.Mark(ctx, ns)
		drained := h.Flotilla(ctx, "drain", "west", "--wait", "--timeout=4m")
		Expect(drained.Code).To(BeZero(), drained.Talk)
		h.ExpectAtRest(ctx, db, 6)
		expectOrdinals(ctx, db, starts)
		Expect(harness.Count(h.PodsOf(db), harness.ByCluster)).To(Equal(map[string]int{"east": 3, "south": 3}))
		history := h.Pods.Since(ctx, before)
		expectAtMost(history, judge.Unavailable(6), 1, "unavailable pods")
		expectAtMost(history, judge.Existing, 6, "pods")
		expectNoTwins(history)
	})

	It("takes over a native StatefulSet of one member with its claims, without a restart", func(ctx SpecContext) {
		const claims = `  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`
		ns := bare(ctx, "native")
		enforce(ctx, ns, identitiesOn(ns, "east", "Never"))
		east, db := h.Members["east"], harness.StatefulSet(ns, "db")
		inMember(ctx, "east", ns)
		for _, member := range h.MemberNames() {
			volumes(ctx, h.Members[member], ns, 3)
		}
		native := fmt.Sprintf(`
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: %s}
spec:
  replicas: 3
%s`, ns, podsOf("db:1")+claims)
		east.Apply(ctx, service(ns)+native)
		h.ExpectPods(ctx, db, byOrdinal, map[string]int{"east/0": 1, "east/1": 1, "east/2": 1})
		expectServing(ctx, db, 3, "east")
		claimed := func() (uids []string) {
			list := &corev1.PersistentVolumeClaimList{}
			Expect(east.Client.List(ctx, list, client.InNamespace(ns))).To(Succeed())
			for i := range list.Items {
				uids = append(uids, string(list.Items[i].UID))
			}
			return uids
		}
		had := claimed()
		Expect(had).To(HaveLen(3))
		before := h.Pods.Mark(ctx, ns)

		By("adopting it")
		dry := h.FlotillaWith(ctx, []string{"east"}, "adopt", "asts/db", "-n", ns, "--from", "east", "--dry-run")
		Expect(dry.Code).To(BeZero(), dry.Talk)
		Expect(dry.Out).To(ContainSubstring("3 replicas, 0 pods would restart\n"))
		h.Hub.Apply(ctx, service(ns))
		adopted := h.FlotillaWith(ctx, []string{"east"}, "adopt", "asts/db", "-n", ns, "--from", "east")
		Expect(adopted.Code).To(BeZero(), adopted.Talk)
		Expect(adopted.Out).To(ContainSubstring("is a StatefulSet of apps.kruise.io now, with the same pods"))
		h.ExpectTold(ctx, db, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionTrue, Reason: "Placed"})
		h.ExpectAtRest(ctx, db, 3)
		harness.ExpectUntouched(h.Pods.Since(ctx, before))
		Expect(claimed()).To(ConsistOf(had))

		By("scaling what was adopted, over all members: the others have other names")
		enforce(ctx, ns, identitiesOn(ns, "east, south, west", "Never"))
		patch(ctx, ns, `{"replicas": 6}`)
		h.ExpectAtRest(ctx, db, 6)
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		expectNoTwins(history)
		Expect(claimed()).To(HaveLen(len(names(db, harness.ByCluster)["east"])))
	})
})

// volumes makes volumes for the claims of a namespace, which go with the spec.
func volumes(ctx context.Context, c *harness.Cluster, ns string, n int) {
	GinkgoHelper()
	for i := range n {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", ns, i)}}
		volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
		Expect(c.Client.Create(ctx, volume)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(c.Client.Delete(ctx, volume))).To(Succeed())
		}, NodeTimeout(time.Minute))
	}
}
