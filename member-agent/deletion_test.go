package memberagent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

const guard = "example.com/guard"

func (b *bed) finalizers(t *testing.T, object client.Object, list string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`))
	if err := b.member.Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
}

// lingering waits until the Work says that its object is being deleted and what it waits for.
func (b *bed) lingering(t *testing.T, w *work.Work, texts ...string) {
	t.Helper()
	eventually(t, "Work "+w.Name+" says what its object waits for", func(ctx context.Context) string {
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != work.ReasonDeleting {
			return fmt.Sprintf("%+v", c)
		}
		for _, text := range texts {
			if !strings.Contains(c.Message, text) {
				return fmt.Sprintf("%q lacks %q", c.Message, text)
			}
		}
		return ""
	})
}

// testCase3Lingers holds an object in the member by a finalizer. First a user of the member deletes it, then the hub.
func (b *bed) testCase3Lingers(t *testing.T) {
	w := order(t, 1, cloneSet("shop", "lingers", 2, "registry.example/web:1"))
	b.create(t, b.hub, w)
	b.uses(t, w, 1, use("", 2))
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lingers"}}
	b.finalizers(t, set, `["`+guard+`"]`)
	if err := b.member.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	b.lingering(t, w, guard, "did not order")
	eventually(t, "the CloneSet says that it is being deleted, and keeps its pods", func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop("lingers"), set); err != nil {
			return err.Error()
		}
		for _, c := range set.Status.Conditions {
			if c.Type == apps.ConditionReady && c.Reason == "Deleting" &&
				strings.Contains(c.Message, guard) && strings.Contains(c.Message, "2 pods") {
				return missing(set.Status.Replicas == 2 && set.Status.ReadyReplicas == 2, set.Status)
			}
		}
		return fmt.Sprintf("%+v", set.Status)
	})
	b.finalizers(t, set, "null")
	b.condition(t, w, work.ReasonApplied)
	b.uses(t, w, 1, use("", 2))

	b.finalizers(t, set, `["`+guard+`"]`)
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.lingering(t, w, guard)
	// A pod that is lost meanwhile is reported: the sum on the hub stays true.
	if err := b.member.Delete(t.Context(), b.podOf(t, set)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the report counts what is left", func(ctx context.Context) string {
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
			return err.Error()
		}
		return missing(len(w.Status.Report.InUse) == 1 && w.Status.Report.InUse[0].Total == 1, w.Status.Report)
	})
	b.finalizers(t, set, "null")
	b.gone(t, b.hub, w)
}

// podOf returns a pod of the present CloneSet. Pods of a deleted one of its name exist until the garbage collector of
// the member deletes them.
func (b *bed) podOf(t *testing.T, set *apps.CloneSet) *corev1.Pod {
	t.Helper()
	if err := b.member.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	pods := &corev1.PodList{}
	if err := b.member.List(t.Context(), pods, client.InNamespace(set.Namespace)); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return metav1.IsControlledBy(&pod, set) })
	if i < 0 {
		t.Fatalf("none of %d pods is of CloneSet %s", len(pods.Items), set.Name)
	}
	return &pods.Items[i]
}

// testCase3Foreground deletes a Work whose hub asks for foreground deletion: its object is there as long as a pod is.
func (b *bed) testCase3Foreground(t *testing.T) {
	w := order(t, 1, cloneSet("shop", "foreground", 1, "registry.example/web:1"))
	w.Annotations[topology.AnnotationPropagation] = "Foreground"
	b.create(t, b.hub, w)
	b.uses(t, w, 1, use("", 1))
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreground"}}
	pod := b.podOf(t, set)
	b.finalizers(t, pod, `["`+guard+`"]`)
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.lingering(t, w, "foreground")
	eventually(t, "the CloneSet says that it waits for its pods", func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop("foreground"), set); err != nil {
			return err.Error()
		}
		for _, c := range set.Status.Conditions {
			if c.Type == apps.ConditionReady && c.Reason == "Deleting" && strings.Contains(c.Message, "foreground") {
				return ""
			}
		}
		return fmt.Sprintf("%+v", set.Status)
	})
	b.finalizers(t, pod, "null")
	b.gone(t, b.hub, w)
}

// testCase14 deletes the namespace of Works in the member and holds it there. The agent creates nothing in it and says
// so on the hub; when the namespace is gone it creates everything again.
func (b *bed) testCase14(t *testing.T) {
	const closing = "closing"
	clones := order(t, 1, cloneSet(closing, "web", 2, "registry.example/web:1"))
	settings := configMap("settings", "1")
	settings["metadata"].(tree)["namespace"] = closing
	config := order(t, 1, settings)
	for _, w := range []*work.Work{clones, config} {
		b.create(t, b.hub, w)
		b.condition(t, w, work.ReasonApplied)
	}
	b.uses(t, clones, 1, use("", 2))
	hold := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: closing, Name: "hold", Finalizers: []string{guard}},
	}
	b.create(t, b.member, hold)
	from := time.Now()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: closing}}
	if err := b.member.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*work.Work{clones, config} {
		got := b.condition(t, w, work.ReasonNamespaceTerminating)
		c := meta.FindStatusCondition(got.Status.Conditions, work.ConditionApplied)
		if !strings.Contains(c.Message, closing) || !strings.Contains(c.Message, "when it is gone") {
			t.Errorf("message %q", c.Message)
		}
	}
	eventually(t, "more time passes than between two looks of the agent", func(context.Context) string {
		return missing(time.Since(from) > namespaces.LookAgain*3/2, time.Since(from))
	})
	events, err := audit.ReadFile(b.fleet.Member(cluster).AuditLog(),
		audit.Between(from, time.Time{}), audit.Writes(), audit.ByPrograms("flotilla-agent"))
	if err != nil {
		t.Fatal(err)
	}
	attempts := map[string]int{}
	for _, e := range events {
		if e.Namespace == closing && e.Code == 403 {
			attempts[e.Verb+" "+e.Resource+" "+e.Name]++
		}
	}
	for what, n := range attempts {
		if n > 1 {
			t.Errorf("%s: %d attempts", what, n)
		}
	}
	b.finalizers(t, hold, "null")
	for _, w := range []*work.Work{clones, config} {
		b.condition(t, w, work.ReasonApplied)
	}
	b.uses(t, clones, 1, use("", 2))
}
