package get

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestWorkloads puts workloads of several kinds into one table, with their states.
func TestWorkloads(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1, Labels: map[string]string{"app": name},
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	}
	cs := &apps.CloneSet{ObjectMeta: at("shop", "api")}
	cs.Spec.Replicas = new(int32(5))
	cs.Status.ObservedGeneration, cs.Status.ReadyReplicas, cs.Status.UpdatedReplicas = 1, 4, 3
	cs.Status.Conditions = []apps.CloneSetCondition{{Type: "Ready", Status: corev1.ConditionFalse,
		Reason: "PodsNotReady"}}
	key := wire.KeyFor(apps.CloneSetKind.GroupKind(), cs)
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.Placement().Name}}
	p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "api"}
	p.Spec.Cells = []topology.Cell{{Cluster: "east", Zone: "a", Replicas: 2}, {Cluster: "east", Zone: "b", Replicas: 1},
		{Cluster: "west", Replicas: 2, Replaced: 1}}
	stalled := &apps.StatefulSet{ObjectMeta: at("shop", "db")}
	stalled.Status.ObservedGeneration = 1
	stalled.Status.Conditions = []apps.StatefulSetCondition{{Type: "Stalled", Status: corev1.ConditionTrue,
		Reason: "TooBig"}}
	ready := &apps.DaemonSet{ObjectMeta: at("log", "log")}
	ready.Status.ObservedGeneration, ready.Status.DesiredNumberScheduled, ready.Status.NumberReady = 1, 7, 7
	ready.Status.Conditions = []apps.DaemonSetCondition{{Type: "Ready", Status: corev1.ConditionTrue}}
	cron := &apps.AdvancedCronJob{ObjectMeta: at("shop", "clean")}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cs, p, stalled, ready, cron).Build()

	look := func(namespace, selector string, names ...string) string {
		matching, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		v := &workloadsVerb{output: "text", clock: clocktesting.NewFakePassiveClock(now), namespace: namespace,
			selector: selector, matching: matching}
		for _, name := range names {
			v.keys = append(v.keys, wire.Key{Group: key.Group, Kind: "CloneSet", Namespace: namespace, Name: name})
		}
		view, err := v.view(t.Context(), c)
		if err != nil {
			return err.Error()
		}
		var lines []string
		for line := range strings.Lines(view.Text) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}
	const head = "KIND NAME DESIRED PLACED READY UPDATED CLUSTERS STATE AGE\n"
	const api = "CloneSet api 5 4 4 3 2 NotReady: PodsNotReady 60m"
	if diff := cmp.Diff("NAMESPACE "+head+"log DaemonSet log 7 - 7 0 0 Ready 60m\n"+
		"shop AdvancedCronJob clean - - - - 0 Pending 60m\nshop "+api+"\n"+
		"shop StatefulSet db 1 - 0 0 0 Stalled: TooBig 60m", look("", "")); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(head+api, look("shop", "", "api")); diff != "" {
		t.Errorf("one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(head+api, look("shop", "app=api")); diff != "" {
		t.Errorf("by a label (-want +got):\n%s", diff)
	}
	if got := look("none", ""); !strings.Contains(got, "no workloads in namespace none") {
		t.Errorf("none: %s", got)
	}
	if got := look("shop", "", "other"); !strings.Contains(got, "there is no CloneSet shop/other") {
		t.Errorf("no such: %s", got)
	}
	if got := look("shop", "app=web", "api"); !strings.Contains(got, `api does not have the labels "app=web"`) {
		t.Errorf("excluded by the selector: %s", got)
	}
	v := &workloadsVerb{}
	if len(v.watched().Objects) != len(kinds.Workloads())+1 {
		t.Error("not all kinds are watched")
	}
	v.keys = []wire.Key{key}
	if w := v.watched(); len(w.Objects) != 2 || w.Unscoped {
		t.Errorf("of one workload %+v is watched", w)
	}
}

// TestWorkloadsOfOneNamespace: rights in one namespace are enough.
func TestWorkloadsOfOneNamespace(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api",
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cs).Build()
	c := interceptor.NewClient(inner, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
		list client.ObjectList, options ...client.ListOption) error {
		o := client.ListOptions{}
		if o.ApplyOptions(options); o.Namespace != "shop" {
			return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("not yours"))
		}
		return c.List(ctx, list, options...)
	}})
	v := &workloadsVerb{output: "text", clock: clocktesting.NewFakePassiveClock(now), namespace: "shop",
		matching: labels.Everything()}
	first, err := v.view(t.Context(), c)
	if err != nil || !strings.Contains(first.Text, "60m") {
		t.Fatalf("%v, %s", err, first.Text)
	}
	if w := v.watched(); w.Unscoped || w.Namespace != "shop" || len(w.Objects) < 2 {
		t.Errorf("watched: %+v", w)
	}
	v.clock = clocktesting.NewFakePassiveClock(now.Add(time.Hour))
	if later, err := v.view(t.Context(), c); err != nil || later.Text == first.Text || later.Facts != first.Facts {
		t.Errorf("an hour later: %v, %+v", err, later)
	}
	v.keys = []wire.Key{{Group: apps.SidecarSetKind.Group, Kind: "SidecarSet", Name: "log"}}
	v.unreadable = nil
	if _, err := v.view(t.Context(), c); !apierrors.IsForbidden(err) {
		t.Errorf("a kind that is asked for: %v", err)
	}
}

// TestWorkloadsOfAMember holds that a cluster that has only copies of a hub's workloads is taken for a member.
func TestWorkloadsOfAMember(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
		Labels: map[string]string{topology.LabelHub: "id-hub"}}}
	own := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "own"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cs, own).Build()
	for namespace, refused := range map[string]bool{"shop": true, "": false} {
		v := &workloadsVerb{clock: clocktesting.NewFakePassiveClock(time.Now()), namespace: namespace,
			matching: labels.Everything()}
		_, err := v.gather(t.Context(), c)
		if (err != nil && strings.Contains(err.Error(), "name the hub with --context")) != refused {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
}
