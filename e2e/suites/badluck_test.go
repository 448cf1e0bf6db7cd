//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("Bad input", func() {
	It("a manifest that is too large: the condition says how large, and what runs stays", func(ctx SpecContext) {
		ns := federated(ctx, "large")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 3, "a:1", ""))
		h.ExpectAtRest(ctx, api, 3)
		patch := func(operation string) {
			object, err := h.Hub.Get(ctx, api)
			Expect(err).NotTo(HaveOccurred())
			Expect(h.Hub.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, []byte(operation)))).To(Succeed())
		}
		expectStays(ctx, api, func() {
			patch(`[{"op": "add", "path": "/spec/template/spec/containers/0/env", "value": [{"name": "DATA", "value": "` +
				strings.Repeat("x", 600*1024) + `"}]}]`)
			h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
				Reason: "TooLarge"},
				api.Sentence(), "60", "512 KiB", "moving data to a ConfigMap")
		})

		By("making it smaller again")
		before := h.Pods.Mark(ctx, ns)
		patch(`[{"op": "remove", "path": "/spec/template/spec/containers/0/env"}]`)
		expectReady(ctx, api)
		h.ExpectAtRest(ctx, api, 3)
		harness.ExpectUntouched(h.Pods.Since(ctx, before))
	})
})

var _ = Describe("Bad luck", func() {
	It("a member with older definitions refuses a field instead of dropping it: the condition names both, what runs "+
		"there stays, and it follows when they are new", func(ctx SpecContext) {
		ns := federated(ctx, "older-member")
		api, west := harness.CloneSet(ns, "api"), h.Members["west"]
		h.Hub.Apply(ctx, cloneSet(ns, "api", 3, "a:1", ""))
		h.ExpectAtRest(ctx, api, 3)
		newer := strings.Replace(cloneSet(ns, "api", 3, "a:2", ""), "\n  selector:",
			"\n  scaleStrategy: {excludePreparingDelete: true}\n  selector:", 1)
		asked := func(ctx context.Context) error {
			_, err := west.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--dry-run=server", "--type=merge", "-p",
				`{"spec": {"scaleStrategy": {"excludePreparingDelete": true}}}`)
			return err
		}

		By("taking the field out of the definition of west")
		DeferCleanup(func(ctx SpecContext) {
			Expect(west.InstallCRDs(ctx, crds.FS)).To(Succeed())
			Eventually(ctx, asked).WithTimeout(harness.Patience).Should(Succeed())
		})
		west.MustKubectl(ctx, "patch", "crd/clonesets.apps.kruise.io", "--type=json", "-p",
			`[{"op": "remove", "path": "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/`+
				`scaleStrategy/properties/excludePreparingDelete"}]`)
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return west.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--dry-run=server", "--type=merge", "-o",
				"jsonpath={.spec.scaleStrategy}",
				"-p", `{"spec": {"scaleStrategy": {"excludePreparingDelete": true}}}`)
		}).WithTimeout(harness.Patience).ShouldNot(ContainSubstring("excludePreparingDelete"))
		before := h.Pods.Mark(ctx, ns)
		h.Hub.Apply(ctx, newer)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionReady, Status: metav1.ConditionFalse}, "west",
			"excludePreparingDelete")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east a:2": 1, "south a:2": 1, "west a:1": 1})

		By("giving west the new definitions")
		Expect(west.InstallCRDs(ctx, crds.FS)).To(Succeed())
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east a:2": 1, "south a:2": 1, "west a:2": 1})
		h.ExpectAtRest(ctx, api, 3)
		expectInPlace(h.Pods.Since(ctx, before), 3)
	})

	It("two hubs on one member: an object of the other hub is left alone, named with that hub, and taken over when it "+
		"is handed over", func(ctx SpecContext) {
		ns := federated(ctx, "two-hubs")
		api, west := harness.CloneSet(ns, "api"), h.Members["west"]
		const other = "0b5ee4f2-another-hub"
		inMember(ctx, "west", ns)
		west.Apply(ctx, strings.Replace(cloneSet(ns, "api", 2, "theirs:1", ""), "metadata: {name: api, ",
			"metadata: {name: api, labels: {"+topology.LabelHub+": "+other+"}, ", 1))
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"west": 2})
		expectReadyIn(ctx, "west", api)
		theirs, err := west.Get(ctx, api)
		Expect(err).NotTo(HaveOccurred())
		before := h.Pods.Mark(ctx, ns)

		h.Hub.Apply(ctx, cloneSet(ns, "api", 6, "ours:1", ""))
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: work.ReasonConflict},
			"west", "CloneSet", ns, "another hub", other, "hand it over")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east ours:1": 2, "south ours:1": 2, "west theirs:1": 2})
		expectSame(ctx, west, api, theirs)
		history := h.Pods.Since(ctx, before)
		for _, pod := range append(history.Gone(), history.Restarted()...) {
			Expect(pod.Cluster).NotTo(Equal("west"), pod.String())
		}

		By("handing it over, as the message says")
		id, err := h.Hub.ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		west.MustKubectl(ctx, "-n", ns, "label", "--overwrite", "clone/api", topology.LabelHub+"="+id)
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east ours:1": 2, "south ours:1": 2, "west ours:1": 2})
		h.ExpectAtRest(ctx, api, 6)
	})

	It("a second hub that runs and claims a member: its agent waits behind the first one's, where it leads it leaves "+
		"alone what is the first hub's, names it, and nothing restarts", func(ctx SpecContext) {
		ns := federated(ctx, "second-hub")
		mend()
		api, second := harness.CloneSet(ns, "api"), alone.Members[north]
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		before := h.Pods.Mark(ctx, ns)
		id, err := h.Hub.ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		const intruder = "east-for-another-hub"
		undo, err := h.Elected(ctx, "east")
		DeferCleanup(func(ctx SpecContext) {
			Expect(h.Fleet.Forget(ctx, intruder)).To(Succeed())
			Expect(alone.Fleet.Forget(ctx, fleet.HubProgram)).To(Succeed())
			sessions := sessionsOf(ctx)["east"]
			Expect(undo(ctx)).To(Succeed())
			expectSessions(ctx, map[string]int64{"east": sessions})
			second.MustKubectl(ctx, "delete", "ns", ns, "--ignore-not-found", "--wait=false")
			second.MustKubectl(ctx, "delete", "mc", "east", "--ignore-not-found")
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(h.RunHubOn(ctx, alone, north)).To(Succeed())
		Expect(second.Accept(ctx, "east")).To(Succeed())
		told := func(kind, namespace, name string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				object := harness.TopologyObject(kind, namespace, name)
				if kind == apps.CloneSetKind.Kind {
					object.SetGroupVersionKind(apps.CloneSetKind)
				}
				if err := second.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
					return "", err
				}
				var all []string
				conditions, err := harness.Conditions(object)
				for _, c := range conditions {
					all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
				}
				return strings.Join(all, "\n"), err
			}
		}

		By("behind the first one's agent it has no contact at all")
		expectLeader(ctx, "east", fleet.AgentName("east"))
		Expect(h.RunAgentFor(ctx, second, intruder, "east")).To(Succeed())
		Eventually(ctx, told("MemberCluster", "", "east")).WithTimeout(harness.Patience).
			Should(ContainSubstring("Ready=False NeverConnected: no Lease of the agent of MemberCluster east was seen yet; " +
				"start the agent, or look at its log"))
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)

		By("the first one's agent ends, and the other one leads")
		Expect(h.Fleet.Quit(ctx, fleet.AgentName("east"))).To(Succeed())
		Eventually(ctx, told("MemberCluster", "",
			"east")).WithTimeout(harness.Patience).Should(ContainSubstring("Ready=True LeaseFresh"))
		second.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+
			", labels: {topology.flotilla.dev/federated: \"true\"}}\n",
			policyOn(ns, "here", "east", "CloneSet"), cloneSet(ns, "api", 3, "theirs:1", ""))
		Eventually(ctx, told(apps.CloneSetKind.Kind, ns, "api")).WithTimeout(harness.Patience).
			Should(And(ContainSubstring("Stalled=True "+work.ReasonConflict), ContainSubstring("another hub"),
				ContainSubstring(id), ContainSubstring("hand it over")))

		By("the first one's agent comes back, and the other one goes")
		Expect(h.Fleet.Quit(ctx, intruder)).To(Succeed())
		sessions := sessionsOf(ctx)
		restart(ctx, fleet.AgentName("east"))
		expectSessions(ctx, map[string]int64{"east": sessions["east"]})
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=15")
		h.ExpectAtRest(ctx, api, 15)
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
		Expect(history.Created()).To(HaveLen(6))
	})

	It("a hub that lost all it knew of a workload: it runs on, the member is named, and the same manifest takes it "+
		"over without a restart", func(ctx SpecContext) {
		ns := federated(ctx, "forgotten")
		mend()
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12") // its orders have numbers above the first
		h.ExpectAtRest(ctx, api, 12)
		before := h.Pods.Mark(ctx, ns)

		By("taking the objects from the hub while its program is away, finalizers and all")
		kill(ctx, fleet.HubProgram)
		take := func(namespace, object string) {
			GinkgoHelper()
			if _, err := h.Hub.Kubectl(ctx, "-n", namespace, "patch", object, "--type=merge", "-p",
				`{"metadata": {"finalizers": null}}`); err != nil {
				Expect(err).To(MatchError(ContainSubstring("not found"))) // the garbage collector was first
			}
			h.Kubectl(ctx, "-n", namespace, "delete", object, "--ignore-not-found", "--timeout=240s")
		}
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--cascade=orphan", "--timeout=240s")
		take(ns, "wp/cloneset-api")
		for _, member := range h.MemberNames() {
			take(work.NamespacePrefix+member, "works.work.karmada.io/"+ns+".api.cloneset")
		}
		restart(ctx, fleet.HubProgram)
		for _, member := range h.MemberNames() {
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", member),
				metav1.Condition{Type: topology.MemberOrphans, Status: metav1.ConditionTrue, Reason: topology.ReasonOrphaned},
				member, "api", topology.LabelHub)
		}
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 4, "south": 4, "west": 4})

		By("giving the hub the workload again")
		h.Hub.Apply(ctx, strings.Replace(apiSample(ns), "replicas: 9", "replicas: 12", 1))
		h.ExpectAtRest(ctx, api, 12)
		for _, member := range h.MemberNames() {
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", member),
				metav1.Condition{Type: topology.MemberOrphans, Status: metav1.ConditionFalse, Reason: topology.ReasonNoOrphans})
		}
		harness.ExpectUntouched(h.Pods.Since(ctx, before))
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=15")
		h.ExpectAtRest(ctx, api, 15)
	})
})

// expectLeader waits until an agent of a member leads.
func expectLeader(ctx context.Context, member, program string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		return h.Members[member].Kubectl(ctx, "-n", topology.SystemNamespace, "get", "lease/"+fleet.AgentProgram, "-o",
			"jsonpath={.spec.holderIdentity}")
	}).WithTimeout(harness.Patience).ShouldNot(BeEmpty(), program)
}

var _ = Describe("The default of all federated namespaces", func() {
	It("places what no policy of the namespace selects; a workload that is withdrawn leaves the "+
		"members, and comes back", func(ctx SpecContext) {
		ns := bare(ctx, "default")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, strings.NewReplacer("kind: FederationPolicy", "kind: ClusterFederationPolicy", "metadata: {name: "+
			ns+", namespace: "+ns+"}", "metadata: {name: "+ns+"}",
			"- kind: CloneSet", "- {kind: CloneSet, selector: {matchLabels: {default: "+ns+
				"}}}").Replace(policyOn(ns, ns, "east, west", "CloneSet")))
		DeferCleanup(func(ctx SpecContext) { h.Kubectl(ctx, "delete", "clusterfederationpolicy/"+ns) })
		h.Hub.Apply(ctx, strings.Replace(cloneSet(ns, "api", 4, "a:1", ""), "metadata: {name: api, ",
			"metadata: {name: api, labels: {default: "+ns+"}, ", 1), cloneSet(ns, "other", 3, "a:1", ""))
		h.ExpectAtRest(ctx, api, 4)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 2, "west": 2})
		Expect(h.Flotilla(ctx, "why", "cs/api", "-n", ns).Out).To(ContainSubstring("placed by ClusterFederationPolicy " + ns))
		other := harness.CloneSet(ns, "other")
		h.ExpectTold(ctx, other, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "NoPolicy"})

		By("withdrawing it")
		h.Kubectl(ctx, "-n", ns, "annotate", "clone/api", topology.AnnotationWithdraw+"=true")
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "Withdrawn"}, "remove the annotation")
		h.ExpectGone(ctx, api)

		By("taking that back, with a policy of the namespace, which goes before")
		enforce(ctx, ns, policyOn(ns, "own", "south", "CloneSet"))
		h.Kubectl(ctx, "-n", ns, "annotate", "clone/api", topology.AnnotationWithdraw+"-")
		h.ExpectAtRest(ctx, api, 4)
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"south": 4})
		h.ExpectAtRest(ctx, other, 3)
		Expect(h.Flotilla(ctx, "why", "cs/api", "-n", ns).Out).To(ContainSubstring("placed by FederationPolicy own"))
	})
})
