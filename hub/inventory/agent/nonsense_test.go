package agent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func TestNonsenseOf(t *testing.T) {
	zone := func(nodes, ready int32, cpu string) topology.Zone {
		return topology.Zone{Name: "a", Nodes: nodes, Ready: ready,
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	for _, tc := range []struct {
		name string
		zone topology.Zone
		says string
	}{
		{"a zone", zone(3, 2, "12"), ""},
		{"a zone without nodes", zone(0, 0, "0"), ""},
		{"negative nodes", zone(-1, -1, "0"), `-1 ready nodes of -1 in zone "a"`},
		{"more ready nodes than nodes", zone(1, 2, "4"), `2 ready nodes of 1 in zone "a"`},
		{"negative capacity", zone(1, 1, "-4"), `-4 of cpu in zone "a"`},
		{"huge capacity", zone(1, 1, "9E"), `9E of cpu for 1 nodes in zone "a"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := member("east", func(m *topology.MemberCluster) { m.Status.Zones = []topology.Zone{zone(1, 1, "4"), tc.zone} })
			if got := nonsenseOf(m); got != tc.says {
				t.Errorf("it says %q, want %q", got, tc.says)
			}
		})
	}
}

// TestNonsenseIsToldWhileItLasts holds that a report which cannot be true is told from when it comes to when it goes,
// and that a report that can be true never wakes the inventory.
func TestNonsenseIsToldWhileItLasts(t *testing.T) {
	w := newWorld(t)
	events := w.r.nonsense.changed()
	of := func(name string, total int32) *work.Work {
		web := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: name}}
		web.Status.Report = &work.Report{InUse: []work.SubsetUse{{Total: total}}}
		return web
	}
	condition := func() *metav1.Condition {
		w.look()
		return meta.FindStatusCondition(w.get().Status.Conditions, topology.MemberPlausible)
	}
	if events.Create(event.CreateEvent{Object: of("web", 3)}) || condition() != nil {
		t.Error("a report that can be true is told")
	}
	if !events.Update(event.UpdateEvent{ObjectOld: of("web", 3), ObjectNew: of("web", -3)}) {
		t.Error("nonsense is no news")
	}
	if c := condition(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != topology.ReasonNonsense ||
		!strings.Contains(c.Message, "-3 pods (total) in Work web") {
		t.Errorf("the condition is %+v", c)
	}
	if events.Update(event.UpdateEvent{ObjectOld: of("web", -3), ObjectNew: of("web", -3)}) {
		t.Error("the same nonsense is news")
	}
	if !events.Delete(event.DeleteEvent{Object: of("web", -3)}) {
		t.Error("its end is no news")
	}
	if c := condition(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != topology.ReasonPlausible {
		t.Errorf("the condition is %+v", c)
	}
}
