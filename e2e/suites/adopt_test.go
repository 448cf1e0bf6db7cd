//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// federation.md 7.7, numbers 11 and 18.
var _ = Describe("What runs in members already", func() {
	It("7.7-11: an unmanaged CloneSet of the same name is left alone, adopted without a restart, and "+
		"let go without one", func(ctx SpecContext) {
		ns := bare(ctx, "adopt")
		api := harness.CloneSet(ns, "api")
		running := map[string]int{"east": 5, "west": 1}
		for member, replicas := range running {
			inMember(ctx, member, ns)
			h.Members[member].Apply(ctx, cloneSet(ns, "api", replicas, "api:1", ""))
		}
		h.ExpectPods(ctx, api, harness.ByCluster, running)
		for member := range running {
			expectReadyIn(ctx, member, api)
		}
		DeferCleanup(func(ctx SpecContext) { // nobody owns them in the end
			for member := range running {
				h.Members[member].MustKubectl(ctx, "-n", ns, "delete", "clone/api", "--ignore-not-found", "--timeout=240s")
			}
		})
		before := h.Pods.Mark(ctx, ns)

		By("looking at what adoption would change: nothing, and nothing is written")
		enforce(ctx, ns, policyOn(ns, "two", "east, west", "CloneSet"))
		dry := h.FlotillaWith(ctx, []string{"east", "west"}, "adopt", "clone/api", "-n", ns, "--from", "east,west",
			"--dry-run")
		Expect(dry.Code).To(Equal(0), dry.Talk)
		for member, replicas := range running {
			Expect(dry.Out).To(ContainSubstring("%s in %s: %d replicas, 0 pods would restart\n", api.Sentence(), member,
				replicas))
		}
		Expect(dry.Out).To(HaveSuffix("nothing was written (--dry-run)\n"))
		_, err := h.Hub.Get(ctx, api)
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the hub has the workload (%v)", err)

		By("without a word of adoption it is a conflict, and stays as it is")
		h.Hub.Apply(ctx, cloneSet(ns, "api", 6, "api:1", ""))
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "Conflict"}, "CloneSet", ns+"/api", "stands in the member")

		By("adopting it")
		h.Kubectl(ctx, "-n", ns, "annotate", "clone/api", topology.AnnotationAdopt+"=true")
		h.ExpectAtRest(ctx, api, 6)
		h.ExpectPods(ctx, api, harness.ByCluster, running)
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)

		By("it is the hub's now: it scales there")
		h.Kubectl(ctx, "-n", ns, "scale", "clone/api", "--replicas=8")
		h.ExpectAtRest(ctx, api, 8)
		history = h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())

		By("letting it go: the pods run on, and what stands has no mark")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "annotate", "clone/api", topology.AnnotationAdopt+"-", topology.AnnotationWithdraw+"="+
			topology.WithdrawOrphan)
		expectLetGo(ctx, api, "east", "west")
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionFederated, Status: metav1.ConditionFalse,
			Reason: "Withdrawn"})
		history = h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
	})

	It("7.7-18: a workload deleted with --cascade=orphan runs on in the members, and is adopted again "+
		"by the next", func(ctx SpecContext) {
		ns := federated(ctx, "orphan")
		web := harness.UnitedDeployment(ns, "web")
		manifest := strings.Replace(unitedDeployment(ns, "web", 6, subset("a", "a", "replicas: 2"), subset("d", "d", "")),
			`containers: [{name: main, image: "web:1"}]`,
			`containers: [{name: main, image: "web:1", envFrom: [{configMapRef: {name: settings}}]}]`, 1)
		h.Hub.Apply(ctx, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: %s}\ndata: "+
			"{mode: calm}", ns), manifest)
		h.ExpectAtRest(ctx, web, 6)
		settings := func(member string) *corev1.ConfigMap {
			m := &corev1.ConfigMap{}
			Expect(h.Members[member].Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "settings"}, m)).To(Succeed(), member)
			return m
		}
		uids := map[string]types.UID{"east": settings("east").UID, "south": settings("south").UID}
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "delete", "ud/web", "--cascade=orphan")
		expectLetGo(ctx, web, "east", "south")
		for member, uid := range uids {
			Eventually(ctx, func() string { return settings(member).Labels[topology.LabelHub] }).WithTimeout(harness.Patience).
				Should(BeEmpty())
			Expect(settings(member).UID).To(Equal(uid), "the ConfigMap that it alone needs stays in "+member)
		}

		By("adopting what runs with a new object")
		h.Hub.Apply(ctx, strings.Replace(manifest, "metadata: {name: web, ", `metadata: {name: web, annotations: {`+
			topology.AnnotationAdopt+`: "true"}, `, 1))
		h.ExpectAtRest(ctx, web, 6)
		h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 2, "d": 4})
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
		for member, uid := range uids {
			Eventually(ctx, func() string { return settings(member).Labels[topology.LabelHub] }).WithTimeout(harness.Patience).
				ShouldNot(BeEmpty())
			Expect(settings(member).UID).To(Equal(uid), "the ConfigMap that holds the same is taken over in "+member)
		}

		By("deleting it without a word removes it")
		h.Kubectl(ctx, "-n", ns, "delete", "ud/web")
		h.ExpectGone(ctx, web)
	})
})

// inMember makes the namespace in a member, as whoever ran a workload there before the hub did.
func inMember(ctx context.Context, member, ns string) {
	err := h.Members[member].Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	ExpectWithOffset(1, client.IgnoreAlreadyExists(err)).To(Succeed())
}

// expectReadyIn waits until the workload is Ready in a member.
func expectReadyIn(ctx context.Context, member string, w harness.Workload) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (bool, error) {
		object, err := h.Members[member].Get(ctx, w)
		if err != nil {
			return false, err
		}
		conditions, err := harness.Conditions(object)
		return meta.IsStatusConditionTrue(conditions, apps.ConditionReady), err
	}).WithTimeout(harness.Patience).Should(BeTrue(), w.Sentence()+" Ready in "+member)
}

// expectLetGo waits until nothing is left of a workload on the hub, and its object stands in the members without a
// mark.
func expectLetGo(ctx context.Context, w harness.Workload, members ...string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		p, err := h.Placement(ctx, w)
		if err != nil || p != nil {
			return "the placement is there", err
		}
		works, err := h.Works(ctx, w)
		if err != nil || len(works) > 0 {
			return fmt.Sprintf("Works %v are there", works), err
		}
		for _, member := range members {
			object, err := h.Members[member].Get(ctx, w)
			if apierrors.IsNotFound(err) {
				return "", StopTrying(w.Sentence() + " is gone from " + member)
			}
			if err != nil {
				return "", err
			}
			if _, marked := object.GetLabels()[topology.LabelHub]; marked {
				return w.Sentence() + " has a mark in " + member, nil
			}
			if object.GetAnnotations()[topology.AnnotationLetGo] == "" {
				return w.Sentence() + " does not note in " + member + " what it was lent", nil
			}
		}
		return "", nil
	}).WithTimeout(harness.Patience).Should(BeEmpty())
}
