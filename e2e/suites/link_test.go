//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// comeback is how long an API server that is started again, and all that dials it, may take on a machine under load.
const comeback = 6 * time.Minute

var _ = Describe("The link between hub and member", func() {
	It("7.7-1: the hub is away: drift is repaired, also by an agent that was restarted meanwhile, pods run on, and one "+
		"report comes at the return; restored from a backup it is obeyed again, and nothing restarts", func(ctx SpecContext) {
		outage := 45 * time.Second // more than 40 s, so that every agent begins a session
		if set := os.Getenv("FLOTILLA_OUTAGE"); set != "" {
			var err error
			outage, err = time.ParseDuration(set)
			Expect(err).NotTo(HaveOccurred(), "FLOTILLA_OUTAGE")
		}
		ns := federated(ctx, "hub-away")
		mend()
		api, east := harness.CloneSet(ns, "api"), h.Members["east"]
		removed, late := harness.CloneSet(ns, "removed"), harness.CloneSet(ns, "late")
		h.Hub.Apply(ctx, apiSample(ns), cloneSet(ns, "removed", 3, "a:1", ""))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, removed, 3)
		expectSessions(ctx, nil)
		sessions, before := sessionsOf(ctx), h.Pods.Mark(ctx, ns)

		away := time.Now()
		Expect(h.Fleet.Hub().Stop(ctx)).To(Succeed())
		backup := filepath.Join(h.Fleet.Dir, "backup")
		Expect(h.Fleet.Hub().Backup(backup)).To(Succeed())
		drifts(ctx, east, api)
		kill(ctx, fleet.AgentName("east"))
		restart(ctx, fleet.AgentName("east"))
		drifts(ctx, east, api)
		Eventually(ctx, func() time.Duration { return time.Since(away) }).WithTimeout(outage + time.Minute).
			WithPolling(time.Second).Should(BeNumerically(">=", outage))
		drifts(ctx, east, api)

		back := time.Now()
		Eventually(ctx, func(ctx context.Context) error { return h.Mend(ctx) }).WithTimeout(comeback).
			WithPolling(time.Second).Should(Succeed())
		expectSessions(ctx, sessions)
		h.ExpectAtRest(ctx, api, 9)
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
		reports := map[string]int{}
		for _, e := range requests(h.Hub, back, ours, work.GroupVersion.Group, "works") {
			if e.Subresource == "status" && strings.Contains(e.Name, ns) && e.Code < 300 {
				reports[e.Namespace+"/"+e.Name]++
			}
		}
		for name, count := range reports {
			Expect(count).To(BeNumerically("<=", 1), "reports on Work %s", name)
		}
		By("going on: more replicas and back, a workload that comes, and one that goes")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=9")
		h.Hub.Apply(ctx, cloneSet(ns, "late", 3, "a:1", ""))
		h.Kubectl(ctx, "-n", ns, "delete", "clone/removed", "--timeout=240s")
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, late, 3)
		h.ExpectPods(ctx, removed, harness.ByCluster, nil)
		Eventually(ctx,
			func(ctx context.Context) ([]string, error) {
				return h.Works(ctx, removed)
			}).WithTimeout(harness.Patience).Should(BeEmpty())

		// A hub whose storage has come as far again before it is asked looks like one that was never put back, so it had come
		// far.
		busy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "busy"}}
		Expect(h.Hub.Client.Create(ctx, busy)).To(Succeed())
		for i := range 1500 {
			patch := fmt.Sprintf(`{"data": {"count": "%d"}}`, i)
			Expect(h.Hub.Client.Patch(ctx, busy, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}

		By("restoring the hub from the backup, of which neither that nor its numbers are known")
		before = h.Pods.Mark(ctx, ns)
		Expect(h.Fleet.Hub().Stop(ctx)).To(Succeed())
		Expect(h.Fleet.Hub().Restore(backup)).To(Succeed())
		Expect(h.Fleet.Hub().Start(ctx)).To(Succeed())
		// Whoever watched the hub has seen what it does not know any more: each program ends by itself, to begin anew.
		for _, program := range programs() {
			Eventually(ctx, func() bool { return h.Fleet.Running(program) }).WithTimeout(comeback).WithPolling(time.Second).
				Should(BeFalse(), program)
		}
		Eventually(ctx, func(ctx context.Context) error { return h.Mend(ctx) }).WithTimeout(comeback).
			WithPolling(time.Second).Should(Succeed())
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, removed, 3) // the hub knows it again
		for _, member := range h.MemberNames() {
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", member),
				metav1.Condition{Type: topology.MemberOrphans, Status: metav1.ConditionTrue, Reason: topology.ReasonOrphaned},
				member, "late", "flotilla adopt")
		}
		h.Hub.Apply(ctx, cloneSet(ns, "late", 3, "a:1", ""))
		h.ExpectAtRest(ctx, late, 3)
		history = h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
		Expect(history.Created()).To(HaveLen(3), "of what was removed after the backup")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		h.ExpectAtRest(ctx, api, 12)
	})

	It("7.7-2: an agent that was away with many changes pending reports before it executes, and the "+
		"newest orders stand", func(ctx SpecContext) {
		// Workloads with pods are scaled and deleted; the others are ConfigMaps, for which a member needs one request each.
		const sets = 16
		maps := 120 - sets // seconds of a small machine; 1 000 changes are minutes
		if set := os.Getenv("FLOTILLA_PENDING"); set != "" {
			all, err := strconv.Atoi(set)
			Expect(err).NotTo(HaveOccurred(), "FLOTILLA_PENDING")
			maps = all - sets
		}
		// as many of them stand in the member before: every second is deleted meanwhile, and the others are changed
		stood := maps / 8 * 2
		ns := federated(ctx, "pending")
		mend()
		enforce(ctx, ns, copies(ns, "east", "ConfigMap"))
		east := h.Members["east"]
		name := func(i int) string { return fmt.Sprintf("s%02d", i) }
		var manifests []string
		for i := range sets {
			manifests = append(manifests, cloneSet(ns, name(i), 3, "s:1", ""))
		}
		h.Hub.Apply(ctx, manifests...)
		each(ctx, 0, stood, func(ctx context.Context, i int) error {
			return h.Hub.Client.Create(ctx, pendingMap(ns, i, "one"))
		})
		for i := range sets {
			h.ExpectAtRest(ctx, harness.CloneSet(ns, name(i)), 3)
		}
		want := map[string]string{}
		for i := range stood {
			want[pendingMap(ns, i, "").Name] = "one"
		}
		expectMaps(ctx, east, ns, want)

		kill(ctx, fleet.AgentName("east"))
		var deleted, scaled []string
		for i := range sets {
			if i%2 == 0 {
				deleted = append(deleted, "clone/"+name(i))
			} else {
				scaled = append(scaled, "clone/"+name(i))
			}
		}
		// One command each: within 40 s the hub still takes the member for Ready and orders something of it, too.
		h.Kubectl(ctx, append([]string{"-n", ns, "scale", "--replicas=9"}, scaled...)...)
		h.Kubectl(ctx, append([]string{"-n", ns, "delete", "--timeout=240s"}, deleted...)...)
		each(ctx, 0, maps, func(ctx context.Context, i int) error {
			switch {
			case i >= stood:
				return h.Hub.Client.Create(ctx, pendingMap(ns, i, "two"))
			case i%2 == 0:
				return h.Hub.Client.Delete(ctx, pendingMap(ns, i, ""))
			default:
				return h.Hub.Client.Update(ctx, pendingMap(ns, i, "two"))
			}
		})
		clear(want)
		for i := range maps {
			if i >= stood || i%2 == 1 {
				want[pendingMap(ns, i, "").Name] = "two"
			}
		}
		By("waiting until the hub has ordered all of it")
		Eventually(ctx,
			func(ctx context.Context) (int, error) {
				return terminating(ctx, ns)
			}).WithTimeout(2 * harness.Patience).Should(Equal(len(deleted) + stood/2))
		for i := 1; i < sets; i += 2 {
			placedFor(ctx, harness.CloneSet(ns, name(i)), 9)
		}
		Eventually(ctx,
			func(ctx context.Context) (int, error) {
				return orderedAsTwo(ctx, ns)
			}).WithTimeout(2 * harness.Patience).Should(Equal(len(want)))

		back := time.Now()
		restart(ctx, fleet.AgentName("east"))
		expectMaps(ctx, east, ns, want)
		Eventually(ctx,
			func(ctx context.Context) (int, error) {
				return terminating(ctx, ns)
			}).WithTimeout(2 * harness.Patience).Should(BeZero())
		for i := range sets {
			if w := harness.CloneSet(ns, name(i)); i%2 == 0 {
				Eventually(ctx,
					func(ctx context.Context) ([]string, error) {
						return h.Works(ctx, w)
					}).WithTimeout(2 * harness.Patience).Should(BeEmpty())
				_, err := east.Get(ctx, w)
				Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s is still in east (%v)", w, err)
			} else {
				h.ExpectAtRest(ctx, w, 9)
			}
		}
		By("looking at what came first")
		var announced, answered time.Time
		for _, e := range requests(h.Hub, back, ours, topology.GroupVersion.Group, "memberclusters") {
			switch {
			case e.Name != "east" || e.Verb != "patch":
			case e.Subresource == "" && e.User == fleet.HubUser && answered.IsZero():
				answered = e.Received
			case e.Subresource == "status" && e.User == fleet.MemberUser("east") && announced.IsZero():
				announced = e.Received
			}
		}
		Expect(announced).NotTo(BeZero(), "the session was not announced")
		Expect(answered).NotTo(BeZero(), "the session was not answered")
		executed := 0
		for _, e := range requests(east, back, ours, "apps.kruise.io", "clonesets") {
			// A hub that was slow to order takes the member for silent, and scales others; deletions are ordered of it always.
			if e.Namespace != ns || e.Verb != "delete" || e.Code >= 300 {
				continue
			}
			executed++
			Expect(e.Received).To(BeTemporally(">", answered), "%s %s before the hub had answered", e.Verb, e.Name)
		}
		Expect(executed).To(BeNumerically(">=", len(deleted)))
		gone, made := map[string]int{}, map[string]int{}
		for _, e := range requests(east, back, ours, "", "configmaps") {
			switch {
			case e.Namespace != ns || e.Code >= 300:
				continue
			case e.Verb == "delete":
				gone[e.Name]++
			case e.Code == http.StatusCreated:
				made[e.Name]++
			default:
				continue // an agent that begins anew holds what it carried out before, too
			}
			Expect(e.Received).To(BeTemporally(">", answered), "%s %s before the hub had answered", e.Verb, e.Name)
		}
		Expect(gone).To(HaveLen(stood/2), "one deletion for each")
		Expect(made).To(HaveLen(maps-stood), "one creation for each")
		for _, once := range []map[string]int{gone, made} {
			for name, count := range once {
				Expect(count).To(Equal(1), name)
			}
		}
	})

	It("7.7-14: forged reports count as far as they can be true, the MemberCluster says so, and the truth comes with "+
		"the agent", func(ctx SpecContext) {
		ns := federated(ctx, "forged")
		mend()
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		kill(ctx, fleet.AgentName("east"))
		forge := func(kind, patch string) {
			GinkgoHelper()
			h.Kubectl(ctx, append(strings.Fields(kind), "--subresource=status", "--type=merge", "-p", patch)...)
		}
		east := func() (plausible *topology.MemberCluster) {
			m := &topology.MemberCluster{}
			Expect(h.Hub.Client.Get(ctx, types.NamespacedName{Name: "east"}, m)).To(Succeed())
			return m
		}
		told := func(status metav1.ConditionStatus, reason string, words ...string) {
			GinkgoHelper()
			h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", "east"),
				metav1.Condition{Type: topology.MemberPlausible, Status: status, Reason: reason}, words...)
		}
		id, err := h.Hub.ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		target := "-n " + work.NamespacePrefix + "east patch work " + ns + ".api.cloneset"
		report := func(sequence, pods string) string {
			return `{"status": {"report": {"hubID": "` + id + `", "sequence": ` + sequence + `,
				"epoch": 9223372036854775807, "counter": 9223372036854775807,
				"observedAt": "2999-01-01T00:00:00.000000Z",
				"inUse": [{"subset": "", "desired": ` + pods + `, "total": ` + pods + `, "ready": ` + pods + `,
				"available": ` + pods + `,
				"updated": ` + pods + `, "updatedReady": ` + pods + `, "updatedAvailable": ` + pods + `}]}}}`
		}
		By("negative pods")
		forge(target, report("1", "-5"))
		told(metav1.ConditionFalse, topology.ReasonNonsense, "MemberCluster east", "-5 pods", ns+".api.cloneset")
		expectReplicasField(ctx, api, 6)
		By("more pods than there can be, and an order that nobody gave")
		forge(target, report("9223372036854775807", "2147483647"))
		told(metav1.ConditionFalse, topology.ReasonNonsense, "order 9223372036854775807")
		expectReplicasField(ctx, api, 1_000_006)
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=12")
		placed := placedFor(ctx, api, 12)
		Expect(placed["east"] + placed["south"] + placed["west"]).To(Equal(12))
		Expect(h.MustPlacement(ctx, api).Spec.Sequence).To(And(BeNumerically(">", 0), BeNumerically("<", 1000)))
		By("huge capacity")
		zone := east().Status.Zones[0].Name
		forge("patch mc east", `{"status": {"zones": [{"name": "`+zone+
			`", "nodes": 1, "ready": 1, "allocatable": {"cpu": "9E"}, "requested": {}}]}}`)
		told(metav1.ConditionFalse, topology.ReasonNonsense, "9E of cpu", zone)

		By("the agent comes back")
		restart(ctx, fleet.AgentName("east"))
		told(metav1.ConditionTrue, topology.ReasonPlausible)
		h.ExpectAtRest(ctx, api, 12)
	})

	It("7.7-18: a workload that is deleted with orphan, in the foreground, and while a member is "+
		"unreachable", func(ctx SpecContext) {
		ns := federated(ctx, "delete-modes")
		mend()
		api := harness.CloneSet(ns, "api")
		By("orphan: the members keep their objects and pods, without the hub's mark")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--cascade=orphan", "--timeout=240s")
		Eventually(ctx,
			func(ctx context.Context) ([]string, error) {
				return h.Works(ctx, api)
			}).WithTimeout(2 * harness.Patience).Should(BeEmpty())
		for member, c := range h.Members {
			object, err := c.Get(ctx, api)
			Expect(err).NotTo(HaveOccurred(), member)
			Expect(object.GetLabels()).NotTo(HaveKey(topology.LabelHub), member)
			Expect(object.GetDeletionTimestamp()).To(BeNil(), member)
		}
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
		for _, c := range h.Members {
			c.MustKubectl(ctx, "-n", ns, "delete", "clone/api", "--timeout=240s")
		}
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{})

		By("foreground")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--cascade=foreground", "--timeout=240s")
		h.ExpectGone(ctx, api)

		By("an unreachable member: it holds nothing up, and deletes when it is back")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		kill(ctx, fleet.AgentName("east"))
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--timeout=240s")
		h.ExpectPods(ctx, api, harness.ByCluster, map[string]int{"east": 3})
		restart(ctx, fleet.AgentName("east"))
		h.ExpectGone(ctx, api)
	})
})

// requests returns the mutating requests for a resource that a cluster answered since a time, to users that match.
func requests(c *harness.Cluster, since time.Time, match func(user string) bool, group, resource string) []audit.Event {
	GinkgoHelper()
	events, err := audit.ReadFile(c.AuditLog(), audit.Between(since, time.Time{}), audit.Writes(), audit.ByUser(match),
		func(e *audit.Event) bool { return e.Group == group && e.Resource == resource })
	Expect(err).NotTo(HaveOccurred())
	return events
}

// sessionsOf returns the session of each member.
func sessionsOf(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	sessions := map[string]int64{}
	members := &topology.MemberClusterList{}
	Expect(h.Hub.Client.List(ctx, members)).To(Succeed())
	for i := range members.Items {
		if m := &members.Items[i]; slices.Contains(h.MemberNames(), m.Name) {
			sessions[m.Name] = m.Status.Session
		}
	}
	return sessions
}

// expectSessions waits until the hub has answered every member's session, one that comes after the given for those that
// are named, and every member is Ready.
func expectSessions(ctx context.Context, after map[string]int64) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (map[string]string, error) {
		open := map[string]string{}
		members := &topology.MemberClusterList{}
		if err := h.Hub.Client.List(ctx, members); err != nil {
			return nil, err
		}
		for i := range members.Items {
			m := &members.Items[i]
			if slices.Contains(h.MemberNames(), m.Name) &&
				(m.Status.Session <= after[m.Name] || m.Status.Session != m.Spec.AcknowledgedSession) {
				open[m.Name] = fmt.Sprintf("session %d, answered %d", m.Status.Session, m.Spec.AcknowledgedSession)
			}
		}
		return open, nil
	}).WithTimeout(comeback).Should(BeEmpty())
	Expect(h.Fleet.WaitMembersReady(ctx, comeback)).To(Succeed())
}

// drifts changes a limit of a member's CloneSet, which moves no pod, and waits until it is put right.
func drifts(ctx context.Context, member *harness.Cluster, w harness.Workload) {
	GinkgoHelper()
	limit := func() string {
		return member.MustKubectl(ctx, "-n", w.Namespace, "get", "clone/"+w.Name, "-o",
			"jsonpath={.spec.updateStrategy.rollingUpdate.maxUnavailable}")
	}
	ordered := limit()
	Expect(ordered).NotTo(Equal("7"))
	member.MustKubectl(ctx, "-n", w.Namespace, "patch", "clone/"+w.Name, "--type=merge", "-p",
		`{"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 7}}}}`)
	Eventually(ctx, limit).WithTimeout(2 * harness.Patience).Should(Equal(ordered))
}

// terminating returns how many Works for east of a namespace wait to be deleted.
func terminating(ctx context.Context, ns string) (int, error) {
	works := &work.WorkList{}
	if err := h.Hub.Client.List(ctx, works, client.InNamespace(work.NamespacePrefix+"east")); err != nil {
		return 0, err
	}
	count := 0
	for i := range works.Items {
		if w := &works.Items[i]; strings.HasPrefix(w.Name, ns+".") && w.DeletionTimestamp != nil {
			count++
		}
	}
	return count, nil
}

// each does something for the numbers from first to before end, some at the same time: a client alone would take most
// of the test's time.
func each(ctx context.Context, first, end int, do func(ctx context.Context, i int) error) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := first; i < end; i++ {
		group.Go(func() error { return do(ctx, i) })
	}
	Expect(group.Wait()).To(Succeed())
}

// pendingMap is the ConfigMap of a number.
func pendingMap(ns string, i int, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("m%03d", i)},
		Data: map[string]string{"key": value}}
}

// expectMaps waits until the ConfigMaps of a member's namespace, but for that which every cluster makes, have these
// values of key.
func expectMaps(ctx context.Context, member *harness.Cluster, ns string, want map[string]string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		list := &corev1.ConfigMapList{}
		if err := member.Client.List(ctx, list, client.InNamespace(ns)); err != nil {
			return "", err
		}
		have, wrong := 0, ""
		for i := range list.Items {
			switch m := &list.Items[i]; {
			case m.Name == "kube-root-ca.crt":
			case want[m.Name] == "" || want[m.Name] != m.Data["key"]:
				wrong = fmt.Sprintf(", and %s has %q", m.Name, m.Data["key"])
			default:
				have++
			}
		}
		return fmt.Sprintf("%d as wanted%s", have, wrong), nil
	}).WithTimeout(2 * harness.Patience).Should(Equal(fmt.Sprintf("%d as wanted", len(want))))
}

// orderedAsTwo counts the Works for east that carry a ConfigMap of a namespace with the value two.
func orderedAsTwo(ctx context.Context, ns string) (int, error) {
	works := &work.WorkList{}
	if err := h.Hub.Client.List(ctx, works, client.InNamespace(work.NamespacePrefix+"east")); err != nil {
		return 0, err
	}
	count := 0
	for i := range works.Items {
		w := &works.Items[i]
		if strings.HasPrefix(w.Name, ns+".") && w.DeletionTimestamp == nil && len(w.Spec.Workload.Manifests) == 1 &&
			strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), `"key":"two"`) {
			count++
		}
	}
	return count, nil
}

// expectReplicasField waits until the hub's object counts this many pods.
func expectReplicasField(ctx context.Context, w harness.Workload, want int) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) string {
		return h.Kubectl(ctx, "-n", w.Namespace, "get", "clone/"+w.Name, "-o", "jsonpath={.status.replicas}")
	}).WithTimeout(harness.Patience).Should(Equal(fmt.Sprint(want)))
}
