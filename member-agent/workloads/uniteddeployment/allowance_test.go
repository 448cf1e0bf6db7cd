package uniteddeployment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// TestChildrenWithoutAllowance: a child that is being updated is paused while there is no allowance; one at rest is not
// written.
func TestChildrenWithoutAllowance(t *testing.T) {
	limits := map[string]topology.SubsetLimit{"a": {MaxUnavailable: 1, MaxSurge: 1}}
	at := func(t *testing.T, base string, updated int32, a workload.Budget) (*observed, *plan) {
		t.Helper()
		o := &observed{ud: fixture(t, base, 3, "a=3"), revision: "web-1", limits: limits}
		c := asPlanned(t, o, "a", 3)
		switch live := c.object.(type) {
		case *appsv1.Deployment:
			live.Status.UpdatedReplicas = updated
		case *appsv1.StatefulSet:
			live.Status.UpdatedReplicas = updated
			o.pods = map[types.UID][]*corev1.Pod{live.UID: podsOfSet(live, map[int32]string{1: "oon", 3: "nnn"}[updated])}
		case *kruise.CloneSet:
			live.Status.UpdatedReplicas = updated
		}
		o.children, o.budget = []child{childOf(c.object)}, a
		p, err := makePlan(o)
		if err != nil || p.refused != nil {
			t.Fatalf("plan: %v, %v", err, p.refused)
		}
		return o, p
	}
	for name, base := range map[string]string{"CloneSet": cloneSets, "Deployment": deployments,
		"StatefulSet": statefulSets} {
		t.Run(name, func(t *testing.T) {
			for _, rest := range []workload.Budget{{}, {Granted: true}, {Granted: true, Expired: true}} {
				if _, p := at(t, base, 3, rest); len(p.change) != 0 || p.wake != 0 {
					t.Errorf("at rest with %+v: %v, and looks again in %s", rest, actions(p), p.wake)
				}
			}
			if _, p := at(t, base, 1, workload.Budget{}); len(p.change) != 0 || p.wake != 0 {
				t.Errorf("without a hub: %v, and looks again in %s", actions(p), p.wake)
			}
			if _, p := at(t, base, 1, workload.Budget{Granted: true}); len(p.change) != 0 || p.wake != workload.AskWhileGranted {
				t.Errorf("while it is lent: %v, and looks again in %s", actions(p), p.wake)
			}
			_, p := at(t, base, 1, workload.Budget{Granted: true, Expired: true})
			if p.wake != workload.AskWhileExpired {
				t.Errorf("it looks again in %s, want %s", p.wake, workload.AskWhileExpired)
			}
			if name == "CloneSet" {
				if len(p.change) != 0 {
					t.Errorf("a CloneSet asks for itself: %v", actions(p))
				}
				return
			}
			if len(p.change) != 1 {
				t.Fatalf("without an allowance: %v, want one change", actions(p))
			}
			switch object := p.change[0].object.(type) {
			case *appsv1.Deployment:
				if !object.Spec.Paused || object.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal != 1 {
					t.Errorf("the Deployment is %+v", object.Spec)
				}
			case *appsv1.StatefulSet:
				if *object.Spec.UpdateStrategy.RollingUpdate.Partition != 2 {
					t.Errorf("the StatefulSet is %+v", object.Spec.UpdateStrategy)
				}
			}
		})
	}
}
