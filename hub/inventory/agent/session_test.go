package agent

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// look reconciles once and returns the acknowledged session.
func (w *world) look() int64 {
	w.t.Helper()
	if _, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "east"}}); err != nil {
		w.t.Fatal(err)
	}
	return w.get().Spec.AcknowledgedSession
}

func (w *world) session(number int64) {
	w.t.Helper()
	m := w.get()
	m.Status.Session = number
	if err := w.client.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// TestSessionIsAnsweredAfterItsReports holds that the hub answers a session once its cache has what the API server had
// of the member's Works when the session was seen.
func TestSessionIsAnsweredAfterItsReports(t *testing.T) {
	w := newWorld(t)
	if got := w.look(); got != 0 {
		t.Fatalf("session %d is acknowledged before there was one", got)
	}
	web := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "web", UID: "web"}}
	if err := w.client.Create(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.session(3)
	if got := w.look(); got != 3 {
		t.Errorf("session %d is acknowledged, want 3: the cache has all", got)
	}
	version := w.get().ResourceVersion
	if w.look(); w.get().ResourceVersion != version {
		t.Error("an answered session is written again")
	}
	w.session(2) // an agent that started anew on a hub that was restored
	if got := w.look(); got != 2 {
		t.Errorf("session %d is acknowledged, want 2", got)
	}

	seen := func(versions map[types.UID]string) bool {
		t.Helper()
		ok, err := w.r.reportsSeen(t.Context(), "karmada-es-east", asked{at: w.clock.Now(), versions: versions})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for _, tc := range []struct {
		name     string
		versions map[types.UID]string
		want     bool
	}{
		{"nothing was reported", nil, true},
		{"the cache is as new", map[types.UID]string{"web": web.ResourceVersion}, true},
		{"the cache lacks a report", map[types.UID]string{"web": "1000"}, false},
		{"the cache lacks a Work", map[types.UID]string{"web": web.ResourceVersion, "api": "1"}, false},
	} {
		if got := seen(tc.versions); got != tc.want {
			t.Errorf("%s: all reports are seen: %t", tc.name, got)
		}
	}
	// A Work that went in between is not waited for.
	before := asked{at: w.clock.Now().Add(-reportsPatience), versions: map[types.UID]string{"gone": "1"}}
	if ok, err := w.r.reportsSeen(t.Context(), "karmada-es-east", before); err != nil || !ok {
		t.Errorf("after %s a Work that is gone is still waited for (%v)", reportsPatience, err)
	}
}

// TestSessionIsAnsweredAfterOrdinalsAreDelivered holds that a member that is back does not read ordinals which the hub
// has moved to another one.
func TestSessionIsAnsweredAfterOrdinalsAreDelivered(t *testing.T) {
	w := newWorld(t)
	key := wire.Key{Group: "apps.kruise.io", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	p := &topology.WorkloadPlacement{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Placement().Namespace, Name: key.Placement().Name}}
	p.Spec.Ordinals = &topology.Ordinals{}
	p.Spec.Cells = []topology.Cell{{Cluster: "east", Sequence: 7}, {Cluster: "west", Sequence: 9}}
	order := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "db", UID: "db",
		Annotations: map[string]string{topology.AnnotationWorkload: key.String(), topology.AnnotationSequence: "6"}}}
	for _, object := range []client.Object{p, order} {
		if err := w.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.session(3)
	if got := w.look(); got != 0 {
		t.Errorf("session %d is acknowledged before order 7 is written", got)
	}
	order.Annotations[topology.AnnotationSequence] = "7"
	if err := w.client.Update(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if got := w.look(); got != 3 {
		t.Errorf("session %d is acknowledged, want 3", got)
	}
	order.Annotations[topology.AnnotationSequence] = "6"
	if err := w.client.Update(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	w.session(4)
	w.look()
	w.clock.Step(deliveryPatience)
	if got := w.look(); got != 4 {
		t.Errorf("session %d is acknowledged, want 4: an order that cannot be written holds up no other", got)
	}
}
