package uniteddeployment

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// ordered returns an object of which a hub asked for two subsets with order 7, carried out, and what a change of it
// brings with order 8.
func ordered(t *testing.T, change func(*kruise.UnitedDeployment)) *observed {
	t.Helper()
	limits := map[string]topology.SubsetLimit{"a": {MaxUnavailable: 1}, "b": {MaxUnavailable: 1}}
	o := &observed{ud: fixture(t, cloneSets, 4, "a=2", "b=2"), revision: "web-1", limits: limits}
	o.ud.Annotations = map[string]string{topology.AnnotationSequence: "7"}
	o.children = []child{asPlanned(t, o, "a", 2), asPlanned(t, o, "b", 2)}
	o.ud.Status.ObservedSequence, o.ud.Status.ObservedGeneration = 7, 1
	o.ud.Annotations[topology.AnnotationSequence], o.ud.Generation = "8", 2
	change(o.ud)
	return o
}

// TestAnswersOrders: the order is answered as soon as every subset has what it says, whatever else is still to be done.
// A hub lends on only what was answered, and a restarted agent lets children disrupt only by an order that was.
func TestAnswersOrders(t *testing.T) {
	withoutB := func(ud *kruise.UnitedDeployment) {
		ud.Spec.Topology.Subsets, ud.Spec.Replicas = ud.Spec.Topology.Subsets[:1], new(int32(2))
	}
	tests := []struct {
		why                  string
		change               func(*kruise.UnitedDeployment)
		before               func(*observed)
		failed               error
		sequence, generation int64
	}{
		{"nothing to do", func(*kruise.UnitedDeployment) {}, nil, nil, 8, 2},
		{"a removed subset gives up pods", withoutB, nil, nil, 8, 1},
		{"a removed subset keeps pods until others are available", withoutB,
			func(o *observed) { o.children[0].pods.available = 0 }, nil, 8, 1},
		{"a removed subset whose drain failed", withoutB, nil, errors.New("no answer"), 8, 1},
		{"a child has to change", func(ud *kruise.UnitedDeployment) { ud.Spec.Topology.Subsets[0].Replicas = new(intstr.FromInt32(1)) }, nil, nil, 7, 1},
		{"a child's controller has not seen the change", func(*kruise.UnitedDeployment) {},
			func(o *observed) { o.children[0].observed = false }, nil, 7, 1},
		{"a child is missing", func(*kruise.UnitedDeployment) {}, func(o *observed) { o.children = o.children[:1] }, nil, 7,
			1},
		{"nothing of it can be carried out", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Topology.Subsets[0].Replicas = new(intstr.FromString("150%"))
		}, nil, nil, 7, 2},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			o := ordered(t, tt.change)
			if tt.before != nil {
				tt.before(o)
			}
			p, err := makePlan(o)
			if err != nil {
				t.Fatalf("plan: %v", err)
			}
			status := o.ud.Status.DeepCopy()
			fillStatus(status, o, p, tt.failed, time.Unix(100, 0))
			if status.ObservedSequence != tt.sequence || status.ObservedGeneration != tt.generation {
				t.Errorf("order %d and generation %d are answered, want %d and %d", status.ObservedSequence,
					status.ObservedGeneration, tt.sequence, tt.generation)
			}
		})
	}
}

// TestFollows: a child that may do no more than the newest order permits follows it, also while another one is refused.
func TestFollows(t *testing.T) {
	tests := []struct {
		why    string
		change func(*kruise.UnitedDeployment, *kruise.CloneSet)
		want   bool
	}{
		{"as ordered", func(*kruise.UnitedDeployment, *kruise.CloneSet) {}, true},
		{"an older limit", func(_ *kruise.UnitedDeployment, set *kruise.CloneSet) {
			set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2))
		}, false},
		{"a surge that is not lent any more", func(_ *kruise.UnitedDeployment, set *kruise.CloneSet) {
			set.Spec.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
		}, false},
		{"paused by the order, and not yet", func(ud *kruise.UnitedDeployment, _ *kruise.CloneSet) {
			ud.Annotations[topology.AnnotationSubsetLimits] = `{"a":{"maxUnavailable":1,"maxSurge":0,"paused":true}}`
		}, false},
		{"fewer may be updated", func(ud *kruise.UnitedDeployment, _ *kruise.CloneSet) {
			ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": 1}}
		}, false},
		{"fewer may be updated, and it knows", func(ud *kruise.UnitedDeployment, set *kruise.CloneSet) {
			ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": 1}}
			set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(1))
		}, true},
		{"smaller than ordered, and may update fewer", func(_ *kruise.UnitedDeployment,
			set *kruise.CloneSet) {
			set.Spec.Replicas = new(int32(1))
		}, true},
		{"OnDelete updates nothing by itself", func(_ *kruise.UnitedDeployment, set *kruise.CloneSet) {
			set.Spec.UpdateStrategy = kruise.CloneSetUpdateStrategy{Type: kruise.OnDeleteCloneSetUpdateStrategyType}
		}, true},
		{"its subset is gone", func(ud *kruise.UnitedDeployment,
			_ *kruise.CloneSet) {
			ud.Spec.Topology.Subsets[0].Name = "other"
		}, false},
		{"no hub orders", func(ud *kruise.UnitedDeployment, _ *kruise.CloneSet) { ud.Annotations = nil }, false},
		{"limits that cannot be read", func(ud *kruise.UnitedDeployment, _ *kruise.CloneSet) {
			ud.Annotations[topology.AnnotationSubsetLimits] = "{"
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			o := ordered(t, func(ud *kruise.UnitedDeployment) {
				ud.Annotations[topology.AnnotationSubsetLimits] = `{"a":{"maxUnavailable":1,"maxSurge":0},"b":{"maxUnavailable":1,"maxSurge":0}}`
			})
			set, _ := o.children[0].object.DeepCopyObject().(*kruise.CloneSet)
			tt.change(o.ud, set)
			if got := follows(o.ud, set); got != tt.want {
				t.Errorf("it follows: %t, want %t", got, tt.want)
			}
		})
	}
}
