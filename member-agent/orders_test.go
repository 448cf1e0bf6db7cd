package memberagent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
)

// TestAgent tells one story after the other on one hub and one member; each has its own Works.
func TestAgent(t *testing.T) {
	whole := t
	b := newBed(t)
	b.answer(t)
	stop := b.agent(t, b.fleet.Hub().RESTConfig())
	w := order(t, 1, configMap("early", "1"))
	b.create(t, b.hub, w)
	b.join(t, b.clusterID)

	t.Run("a Work that came before the hub accepted the cluster is carried out then", func(t *testing.T) {
		b.value(t, "early", "1")
	})
	t.Run("the member tells the hub what it is and that it lives", b.testInventory)
	t.Run("a Deployment is applied, reported and scaled", b.testDeployment)
	t.Run("drift is repaired", b.testDrift)
	t.Run("an older order is ignored and named", b.testOlderOrder)
	t.Run("what is not ours is left alone", b.testConflict)
	t.Run("an unknown field is refused and what stands stays", b.testUnknownField)
	t.Run("an unknown kind says what to install", b.testUnknownKind)
	t.Run("a kind that the member's owner does not allow is refused", b.testNotAllowed)
	t.Run("a Work that cannot be read says why", b.testUnreadable)
	t.Run("suspended Works are not carried out", b.testSuspended)
	t.Run("deletion", b.testDeletion)
	t.Run("objects with the hub's label and without an order are reported as orphans", b.testOrphans)
	t.Run("an order waits for what it needs", b.testNeeds)
	t.Run("a claim is made once and never changed or deleted", b.testClaims)
	t.Run("Case3: an object that is being deleted in the member says what it waits for", b.testCase3Lingers)
	t.Run("Case3: foreground deletion takes the pods first", b.testCase3Foreground)
	t.Run("Case14: nothing is created in a namespace that is being deleted in the member", b.testCase14)
	t.Run("a CloneSet runs, and its report says what is in use", b.testCloneSet)
	t.Run("a UnitedDeployment runs, and its report has its subsets", b.testUnitedDeployment)
	t.Run("reports say why pods are not Ready", b.testNotReady)
	t.Run("case 1: what the order loses goes, whoever wrote it before", b.testCase1)
	t.Run("case 2: what others write into the content of an order goes", b.testCase2)
	t.Run("case 2: what admission makes of an order is accepted, and a correction that is refused is reported",
		b.testCase2Admission)
	t.Run("case 2: an order is written from an older view of the object", b.testStale)
	t.Run("case 2: what cannot be changed any more stays", b.testImmutable)
	t.Run("defaults of an API server are no changes", b.testDefaults)
	t.Run("case 5: keys that stand twice in a list are delivered", b.testCase5)
	t.Run("case 15: who changes an object again and again is named", b.testCase15)
	t.Run("a steady state writes nothing", b.testSteady)
	t.Run("a restarted agent changes nothing and goes on", func(t *testing.T) {
		// The clock of this one is minutes behind that of the one before, and of the hub.
		behind := skewed{by: -7 * time.Minute}
		b.testOrphansAfterRestart(t, func() {
			b.testRestart(t, stop, func() { stop = b.agentAt(whole, b.fleet.Hub().RESTConfig(), behind) })
		})
	})
	t.Run("without the hub drift is repaired, and orders are carried out after", b.testHubAway)
	t.Run("an agent that starts without its hub runs workloads, and finds the hub later", func(t *testing.T) {
		stop()
		b.testStartAlone(t, func() { b.agent(whole, b.fleet.Hub().RESTConfig()) })
	})
	t.Run("under the name of another cluster nothing is executed", b.testRefused)
}

func (b *bed) testInventory(t *testing.T) {
	got := &topology.MemberCluster{}
	status := func(want string) {
		t.Helper()
		eventually(t, "MemberCluster shows "+want, func(ctx context.Context) string {
			if err := b.hub.Get(ctx, types.NamespacedName{Name: cluster}, got); err != nil {
				return err.Error()
			}
			s := got.Status
			text := fmt.Sprintf("%s %s %s %s", s.Region, s.ZoneNames, s.Nodes, s.AgentVersion)
			if text != want || s.ClusterID != b.clusterID || s.KubernetesVersion == "" {
				return fmt.Sprintf("%s: %+v", text, s)
			}
			return ""
		})
	}
	status("eu a,b 2/2 v0.0.0-test")
	for _, zone := range got.Status.Zones {
		if cpu := zone.Allocatable[corev1.ResourceCPU]; cpu.Value() != 32 || zone.Ready != 1 {
			t.Errorf("zone %+v, want one ready node with 32 cpu", zone)
		}
	}
	for _, cordon := range []bool{true, false} {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordon))
		if err := b.member.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: cluster + "-b-0"}},
			patch); err != nil {
			t.Fatal(err)
		}
		status(map[bool]string{true: "eu a,b 1/2 v0.0.0-test", false: "eu a,b 2/2 v0.0.0-test"}[cordon])
	}
	lease := &coordinationv1.Lease{}
	eventually(t, "the Lease is there", func(ctx context.Context) string {
		if err := b.hub.Get(ctx, types.NamespacedName{Namespace: works, Name: cluster}, lease); err != nil {
			return err.Error()
		}
		return ""
	})
	if *lease.Spec.HolderIdentity != b.clusterID || *lease.Spec.LeaseDurationSeconds != 40 {
		t.Errorf("Lease %+v, want it held by %s for 40 s", lease.Spec, b.clusterID)
	}
	first := lease.Spec.RenewTime.Time
	eventually(t, "the Lease is renewed", func(ctx context.Context) string {
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err.Error()
		}
		if !lease.Spec.RenewTime.After(first) {
			return "still " + first.String()
		}
		return ""
	})
}

func (b *bed) testDeployment(t *testing.T) {
	w := order(t, 3, deployment("web", 2))
	b.create(t, b.hub, w)
	healthy := func(sequence int64, replicas string) *work.Work {
		t.Helper()
		got := &work.Work{}
		eventually(t, "the Work reports a healthy Deployment", func(ctx context.Context) string {
			if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), got); err != nil {
				return err.Error()
			}
			s := got.Status
			if s.Report == nil || len(s.ManifestStatuses) != 1 || s.ManifestStatuses[0].Health != work.ResourceHealthy ||
				s.Report.Sequence != sequence ||
				!strings.Contains(string(s.ManifestStatuses[0].Status.Raw), `"readyReplicas":`+replicas) {
				return fmt.Sprintf("status %+v", s)
			}
			return ""
		})
		return got
	}
	first := healthy(3, "2")
	if id := first.Status.ManifestStatuses[0].Identifier; id.Kind != "Deployment" || id.Group != "apps" ||
		id.Name != "web" || id.Namespace != "shop" {
		t.Errorf("identifier %+v", id)
	}
	if r := first.Status.Report; r.HubID != hubID || r.Epoch == 0 || r.Counter == 0 || r.ObservedAt.IsZero() {
		t.Errorf("report %+v lacks its hub, epoch, counter or time", r)
	}
	b.reorder(t, w, 4, deployment("web", 3))
	second := healthy(4, "3")
	if a, z := first.Status.Report, second.Status.Report; a.Epoch != z.Epoch || a.Counter >= z.Counter {
		t.Errorf("reports %d/%d and %d/%d: the counter grows within an epoch", a.Epoch, a.Counter, z.Epoch, z.Counter)
	}
	live := &appsv1.Deployment{}
	if err := b.member.Get(t.Context(), shop("web"), live); err != nil {
		t.Fatal(err)
	}
	if live.Labels[topology.LabelHub] != hubID || live.Annotations[topology.AnnotationSequence] != "4" {
		t.Errorf("labels %v, annotations %v: want the hub's mark and order 4", live.Labels, live.Annotations)
	}
	namespace := &corev1.Namespace{}
	if err := b.member.Get(t.Context(), types.NamespacedName{Name: "shop"}, namespace); err != nil {
		t.Fatal(err)
	}
	if namespace.Labels[topology.LabelHub] != "" || namespace.Labels[topology.LabelFederated] != "" {
		t.Errorf("the namespace was made with labels %v, want none of ours", namespace.Labels)
	}
}

func (b *bed) testDrift(t *testing.T) {
	b.create(t, b.hub, order(t, 1, configMap("drift", "ordered")))
	object := b.value(t, "drift", "ordered")
	change := func(patch string) {
		t.Helper()
		if err := b.member.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)),
			client.FieldOwner("someone")); err != nil {
			t.Fatal(err)
		}
	}
	change(`{"data":{"key":"changed"}}`)
	b.value(t, "drift", "ordered")
	change(`{"metadata":{"annotations":{"topology.flotilla.dev/sequence":null}}}`)
	eventually(t, "the sequence is on the object again", func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop("drift"), object); err != nil {
			return err.Error()
		}
		return missing(object.Annotations[topology.AnnotationSequence] == "1", object.Annotations)
	})
	change(`{"metadata":{"labels":{"extra":"x"}}}`)
	if err := b.member.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if again := b.value(t, "drift", "ordered"); again.UID == object.UID {
		t.Error("the deleted object was not made anew")
	}

	b.create(t, b.hub, order(t, 1, deployment("scaled", 1)))
	live := &appsv1.Deployment{}
	replicas := func(want int32) {
		t.Helper()
		eventually(t, "the Deployment has its replicas", func(ctx context.Context) string {
			if err := b.member.Get(ctx, shop("scaled"), live); err != nil {
				return err.Error()
			}
			return missing(*live.Spec.Replicas == want, *live.Spec.Replicas)
		})
	}
	replicas(1)
	generation := live.Generation
	if err := b.member.Patch(t.Context(), live, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"replicas":7}}`))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent has answered", func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop("scaled"), live); err != nil {
			return err.Error()
		}
		return missing(live.Generation >= generation+2, live.Generation)
	})
	replicas(1)
}

func missing(ok bool, got any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf("it is %v", got)
}

func (b *bed) testOlderOrder(t *testing.T) {
	w := order(t, 5, configMap("order", "five"))
	b.create(t, b.hub, w)
	b.carried(t, w, 5)
	b.reorder(t, w, 4, configMap("order", "four"))
	got := b.condition(t, w, work.ReasonApplyFailed)
	if message := got.Status.Conditions[0].Message; !strings.Contains(message, "order 4 is older than order 5") {
		t.Errorf("the message %q does not name both orders", message)
	}
	if got.Status.Report.Sequence != 5 {
		t.Errorf("the report answers order %d; the hub learns from 5 that it must go on from there",
			got.Status.Report.Sequence)
	}
	b.value(t, "order", "five")
	b.reorder(t, w, 6, configMap("order", "six"))
	b.value(t, "order", "six")
	b.carried(t, w, 6)
}

func (b *bed) testConflict(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign"},
		Data: map[string]string{"key": "theirs"}}
	b.create(t, b.member, foreign)
	w := order(t, 1, configMap("foreign", "ours"))
	b.create(t, b.hub, w)
	got := b.condition(t, w, work.ReasonConflict)
	if message := got.Status.Conditions[0].Message; !strings.Contains(message, "ConfigMap shop/foreign") ||
		!strings.Contains(message, topology.LabelHub+"="+hubID) {
		t.Errorf("the message %q does not name the object and the remedy", message)
	}
	if live := b.value(t, "foreign", "theirs"); live.ResourceVersion != foreign.ResourceVersion {
		t.Error("the foreign object was touched")
	}
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, w)
	b.value(t, "foreign", "theirs")

	w = order(t, 1, configMap("foreign", "ours"))
	b.create(t, b.hub, w)
	b.condition(t, w, work.ReasonConflict)
	hand := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, topology.LabelHub,
		hubID))
	if err := b.member.Patch(t.Context(), foreign, hand); err != nil {
		t.Fatal(err)
	}
	b.value(t, "foreign", "ours") // the label hands it over
	b.condition(t, w, work.ReasonApplied)
}

func (b *bed) testUnknownField(t *testing.T) {
	w := order(t, 1, deployment("strict", 1))
	b.create(t, b.hub, w)
	b.carried(t, w, 1)
	newer := deployment("strict", 2)
	newer["spec"].(tree)["fromTheFuture"] = true
	b.reorder(t, w, 2, newer)
	got := b.condition(t, w, work.ReasonApplyFailed)
	if message := got.Status.Conditions[0].Message; !strings.Contains(message, "fromTheFuture") ||
		!strings.Contains(message, "Deployment shop/strict") {
		t.Errorf("the message %q does not name the field and the object", message)
	}
	live := &appsv1.Deployment{}
	if err := b.member.Get(t.Context(), shop("strict"), live); err != nil {
		t.Fatal(err)
	}
	if *live.Spec.Replicas != 1 || got.Status.Report.Sequence != 1 {
		t.Errorf("%d replicas, report of order %d: what stood must stay", *live.Spec.Replicas, got.Status.Report.Sequence)
	}
	b.reorder(t, w, 3, deployment("strict", 2))
	b.condition(t, w, work.ReasonApplied)
	b.carried(t, w, 3)
}

func (b *bed) testUnknownKind(t *testing.T) {
	w := order(t, 1, tree{"apiVersion": "apps.example.com/v1", "kind": "Boat",
		"metadata": tree{"namespace": "shop", "name": "boat"}})
	b.create(t, b.hub, w)
	got := b.condition(t, w, work.ReasonApplyFailed)
	if message := got.Status.Conditions[0].Message; !strings.Contains(message,
		"does not serve apps.example.com/v1 Boat") || !strings.Contains(message, "install") {
		t.Errorf("the message %q does not say what is missing and what to do", message)
	}
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, w)
}

func (b *bed) testNotAllowed(t *testing.T) {
	stands := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stands",
		Labels: map[string]string{topology.LabelHub: hubID}}}
	b.create(t, b.member, stands)
	for _, name := range []string{"made", "stands"} {
		w := order(t, 1, tree{"apiVersion": "v1", "kind": "ServiceAccount",
			"metadata": tree{"namespace": "shop", "name": name}})
		b.create(t, b.hub, w)
		got := b.condition(t, w, work.ReasonNotAllowed)
		for _, want := range []string{"ServiceAccount", "shop/" + name, "--allow-kinds"} {
			if message := got.Status.Conditions[0].Message; !strings.Contains(message, want) {
				t.Errorf("the message %q does not say %q", message, want)
			}
		}
		if err := b.hub.Delete(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		b.gone(t, b.hub, w)
	}
	if err := b.member.Get(t.Context(), shop("made"), &corev1.ServiceAccount{}); !apierrors.IsNotFound(err) {
		t.Errorf("what is not allowed was made (%v)", err)
	}
	if err := b.member.Get(t.Context(), shop("stands"), stands); err != nil || stands.DeletionTimestamp != nil {
		t.Errorf("what is not allowed was deleted: %v, %v", err, stands.DeletionTimestamp)
	}
}

func (b *bed) testUnreadable(t *testing.T) {
	w := order(t, 1, configMap("karmada", "x"))
	delete(w.Annotations, topology.AnnotationHubID)
	b.create(t, b.hub, w)
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, w)
	if err := b.member.Get(t.Context(), shop("karmada"), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Work without a hub was carried out (%v)", err)
	}
}

func (b *bed) testSuspended(t *testing.T) {
	w := order(t, 1, configMap("suspended", "one"))
	b.create(t, b.hub, w)
	b.value(t, "suspended", "one")
	b.carried(t, w, 1)
	suspend := func(value string) {
		t.Helper()
		if err := b.hub.Patch(t.Context(), w, client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"suspendDispatching":`+value+`}}`))); err != nil {
			t.Fatal(err)
		}
	}
	suspend("true")
	b.reorder(t, w, 2, configMap("suspended", "two"))
	// Another Work that comes later is carried out, so the agent has seen this one too.
	b.create(t, b.hub, order(t, 1, configMap("suspended-witness", "1")))
	b.value(t, "suspended-witness", "1")
	b.value(t, "suspended", "one")
	suspend("null")
	b.value(t, "suspended", "two")
}

func (b *bed) testDeletion(t *testing.T) {
	keep, drop, vanish := order(t, 1, configMap("keep", "1")), order(t, 1, deployment("drop", 1)),
		order(t, 1, configMap("vanish", "1"))
	for _, w := range []*work.Work{keep, drop, vanish} {
		b.create(t, b.hub, w)
		b.condition(t, w, work.ReasonApplied)
	}
	if err := b.hub.Patch(t.Context(), keep, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"preserveResourcesOnDeletion":true}}`))); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*work.Work{keep, drop} {
		if err := b.hub.Delete(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		b.gone(t, b.hub, w)
	}
	if err := b.member.Get(t.Context(), shop("drop"), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Work went before its object (%v)", err)
	}
	kept := b.value(t, "keep", "1")
	if kept.Labels[topology.LabelHub] != "" || kept.Annotations[topology.AnnotationSequence] != "" {
		t.Errorf("the object that was kept carries labels %v, annotations %v", kept.Labels, kept.Annotations)
	}
	// A Work whose finalizer someone takes off vanishes without a deletion that the agent could see.
	if err := b.hub.Patch(t.Context(), vanish, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := b.hub.Delete(t.Context(), vanish); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, vanish)
	b.create(t, b.hub, order(t, 1, configMap("vanish-witness", "1")))
	b.value(t, "vanish-witness", "1")
	orphan := b.value(t, "vanish", "1")
	b.orphans(t, "ConfigMap shop/vanish")
	// It gets no orders, so nothing sets it back; once somebody has deleted it, it is named no more.
	if err := b.member.Patch(t.Context(), orphan, client.RawPatch(types.MergePatchType,
		[]byte(`{"data":{"key":"mine"}}`))); err != nil {
		t.Fatal(err)
	}
	b.create(t, b.hub, order(t, 1, configMap("orphan-witness", "1")))
	b.value(t, "orphan-witness", "1")
	b.value(t, "vanish", "mine")
	if err := b.member.Delete(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	b.orphans(t)
}

// orphans waits until the MemberCluster names these objects and no others.
func (b *bed) orphans(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the MemberCluster names the orphans %v", want), func(ctx context.Context) string {
		m := &topology.MemberCluster{}
		if err := b.hub.Get(ctx, types.NamespacedName{Name: cluster}, m); err != nil {
			return err.Error()
		}
		return missing(slices.Equal(m.Status.Orphans, want) && int(m.Status.Orphaned) == len(want), m.Status)
	})
}

// writes returns the agent's mutating requests since from, in both clusters, without Leases.
func (b *bed) writes(t *testing.T, from time.Time) []string {
	t.Helper()
	var all []string
	for _, c := range []*fleet.Cluster{b.fleet.Hub(), b.fleet.Member(cluster)} {
		events, err := audit.ReadFile(c.AuditLog(), audit.Between(from, time.Time{}), audit.Writes(),
			audit.ByPrograms("flotilla-agent"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			e := &events[i]
			all = append(all, fmt.Sprintf("%s: %s %s %s/%s %d", c.Name, e.Verb, e.FullResource(), e.Namespace, e.Name, e.Code))
		}
	}
	return all
}

// quiet waits until the agent has written nothing for as long as a look at the amounts of capacity takes, and returns
// when that time began. A writer that never rests fails by the deadline.
func (b *bed) quiet(t *testing.T) {
	t.Helper()
	const still = 12 * time.Second // longer than a renewal of the Lease, so that its loop has run
	eventually(t, "the agent rests", func(ctx context.Context) string {
		from := time.Now()
		_ = wait.PollUntilContextTimeout(ctx, time.Second, still, false, func(context.Context) (bool, error) {
			return false, nil
		})
		return strings.Join(b.writes(t, from), "\n")
	})
}

func (b *bed) testSteady(t *testing.T) {
	b.quiet(t)
}

func (b *bed) testRestart(t *testing.T, stop, start func()) {
	before := b.objects(t)
	stop()
	deleted := order(t, 1, configMap("early", "1"))
	if err := b.hub.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	doomed := b.seenTerminating(t, "orphan-witness")
	start()
	b.gone(t, b.hub, deleted) // the agent has come up, and caught up
	b.gone(t, b.member, doomed)
	delete(before, doomed.Name)
	b.gone(t, b.member, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "early"}})
	delete(before, "early")
	b.quiet(t)
	for name, version := range b.objects(t) {
		if before[name] != version {
			t.Errorf("ConfigMap %s was changed by the restart: version %s, then %s", name, before[name], version)
		}
	}
}

// seenTerminating leaves a Work as an agent leaves it that ended after it saw it terminating and before it deleted the
// object; then somebody takes the Work away. It returns the object.
func (b *bed) seenTerminating(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	w := order(t, 1, configMap(name, "1"))
	if err := b.hub.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
		t.Fatal(err)
	}
	w.DeletionTimestamp = new(metav1.Now())
	kept := copies.New(copies.Options{Writer: b.member, Reader: b.member, Namespace: "flotilla-system",
		ClusterName: cluster, Log: testr.New(t)})
	if err := errors.Join(kept.Load(t.Context()), kept.Keep(t.Context(), w)); err != nil {
		t.Fatal(err)
	}
	if err := b.hub.Patch(t.Context(), w, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

func (b *bed) objects(t *testing.T) map[string]string {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := b.member.List(t.Context(), list, client.InNamespace("shop"),
		client.HasLabels{topology.LabelHub}); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for i := range list.Items {
		versions[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return versions
}

func (b *bed) testHubAway(t *testing.T) {
	w := order(t, 1, configMap("away", "ordered"))
	b.create(t, b.hub, w)
	object := b.value(t, "away", "ordered")
	b.carried(t, w, 1)
	if err := b.fleet.Hub().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.member.Patch(t.Context(), object, client.RawPatch(types.MergePatchType,
		[]byte(`{"data":{"key":"changed"}}`))); err != nil {
		t.Fatal(err)
	}
	b.value(t, "away", "ordered")
	if err := b.fleet.Hub().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.reorder(t, w, 2, configMap("away", "next"))
	b.value(t, "away", "next")
	b.carried(t, w, 2)
}
