package apply

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
)

// hubOf is a hub with these Works.
type hubOf struct {
	Hub
	works map[string]*work.Work
}

func (h hubOf) Work(_ context.Context, name types.NamespacedName) (*work.Work, error) {
	return h.works[name.Name], nil
}

func TestAwaitNeeds(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	hub := hubOf{works: map[string]*work.Work{}}
	r := &Reconciler{
		Options: Options{Hub: hub, Outcomes: NewOutcomes(), Generations: NewGenerations(),
			Copies: copies.New(copies.Options{}), Clock: clk},
		waiting: newWaiting(), works: map[types.NamespacedName]*memo{},
	}
	w := order("5", manifest)
	w.Namespace, w.Name, w.UID = "karmada-es-east", "shop.web.cloneset", "w"
	m := r.recall(types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, w)
	if m.orderErr != nil {
		t.Fatal(m.orderErr)
	}
	waits := func(what string, want time.Duration) {
		t.Helper()
		got, err := r.awaitNeeds(t.Context(), w, m)
		if err != nil || got != want {
			t.Errorf("%s: waits %s (%v), want %s", what, got, err, want)
		}
	}
	waits("it needs nothing", 0)
	w.Annotations[topology.AnnotationDependsOn] = "shop.settings.configmap,shop.data.persistentvolumeclaim"
	waits("the Works that it needs have not come", needsQuiet)
	needed := func(name string, outcome Outcome) {
		t.Helper()
		hub.works[name] = &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name, UID: types.UID(name),
			Generation: 2}}
		outcome.WorkUID = types.UID(name)
		r.Outcomes.set(types.NamespacedName{Namespace: w.Namespace, Name: name}, outcome)
	}
	needed("shop.settings.configmap", Outcome{Generation: 1, Applied: true})
	needed("shop.data.persistentvolumeclaim", Outcome{Generation: 2, Applied: true})
	waits("the newest generation of one is not applied", needsQuiet)
	clk.SetTime(clk.Now().Add(needsQuiet))
	waits("it says so after a while", needsPatience-needsQuiet)
	if got, ok := r.Outcomes.Get(types.NamespacedName{Namespace: w.Namespace, Name: w.Name}); !ok ||
		got.Reason != work.ReasonWaitingForDependencies {
		t.Errorf("outcome %+v", got)
	}
	if names := r.waiting.of(types.NamespacedName{Namespace: w.Namespace,
		Name: "shop.settings.configmap"}); len(names) != 1 || names[0].Name != w.Name {
		t.Errorf("news of what it needs wakes %v", names)
	}
	needed("shop.settings.configmap", Outcome{Generation: 2, Reason: work.ReasonApplyFailed})
	waits("what is refused is tried again", needsPatience-needsQuiet)
	needed("shop.settings.configmap", Outcome{Generation: 2, Reason: work.ReasonConflict})
	waits("what is in conflict never comes", 0)
	needed("shop.settings.configmap", Outcome{Generation: 2, Reason: work.ReasonOverwritten})
	waits("what another writer changes exists", 0)
	needed("shop.settings.configmap", Outcome{Generation: 2, Reason: work.ReasonApplyFailed})
	clk.SetTime(clk.Now().Add(needsPatience))
	waits("it goes on without", 0)
	if m.missingNeeds != "shop.settings.configmap" {
		t.Errorf("it went on without %q", m.missingNeeds)
	}
	m.order.Hash++
	waits("the next order waits anew", needsQuiet)
	if names := r.waiting.of(types.NamespacedName{Namespace: w.Namespace,
		Name: "shop.settings.configmap"}); len(names) != 1 {
		t.Errorf("news of what it needs wakes %v", names)
	}
}
