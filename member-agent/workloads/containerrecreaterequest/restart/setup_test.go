package restart

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

func TestMaxUnavailableWithSurge(t *testing.T) {
	amount := func(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }
	clone := func(replicas int32, unavailable, surge string) client.Object {
		set := &v1beta1.CloneSet{}
		set.Spec.Replicas = &replicas
		set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{
			MaxUnavailable: amount(unavailable), MaxSurge: amount(surge)}
		return set
	}
	daemon := func(nodes int32, unavailable, surge *intstr.IntOrString) client.Object {
		set := &v1beta1.DaemonSet{}
		set.Status.DesiredNumberScheduled = nodes
		set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxUnavailable: unavailable,
			MaxSurge: surge}
		return set
	}
	onDelete := clone(10, "0", "1").(*v1beta1.CloneSet)
	onDelete.Spec.UpdateStrategy.Type = v1beta1.OnDeleteCloneSetUpdateStrategyType
	ordered := &v1beta1.StatefulSet{}
	ordered.Spec.Replicas = new(int32(7))
	ordered.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	ordered.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSetStrategy{
		MaxUnavailable: amount("30%"), MinReadySeconds: new(int32(9))}
	for _, tt := range []struct {
		name     string
		read     func(client.Object) (settings, error)
		object   client.Object
		want     int32
		minReady int32
	}{
		{"CloneSet, 0 with a surge", ofCloneSet, clone(10, "0", "1"), 0, 0},
		{"CloneSet, 0 without a surge", ofCloneSet, clone(10, "0", "0"), 1, 0},
		{"CloneSet, a percentage with a surge", ofCloneSet, clone(10, "25%", "1"), 2, 0},
		{"CloneSet, OnDelete uses no limits", ofCloneSet, onDelete, 2, 0},
		{"DaemonSet, a surge alone", ofDaemonSet, daemon(10, nil, amount("1")), 0, 0},
		{"DaemonSet, a percentage with a surge", ofDaemonSet, daemon(10, amount("25%"), amount("1")), 2, 0},
		{"DaemonSet, a percentage", ofDaemonSet, daemon(10, amount("25%"), nil), 3, 0},
		{"StatefulSet, a percentage", ofStatefulSet, ordered, 2, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.read(tt.object)
			if err != nil || got.limits.MaxUnavailable != tt.want || got.minReady != tt.minReady {
				t.Errorf("%+v, %v; want %d, minReady %d", got, err, tt.want, tt.minReady)
			}
		})
	}
}

// TestOldPods: nodes that an update does not reach do not hold a restart.
func TestOldPods(t *testing.T) {
	set := &v1beta1.DaemonSet{Status: v1beta1.DaemonSetStatus{CurrentNumberScheduled: 9, UpdatedNumberScheduled: 4}}
	for want, counts := range map[int32]*v1beta1.DaemonSetNodeCounts{
		5: nil, 2: {NotUpdatable: 3}, 0: {NotUpdatable: 3, LostOutdated: 2},
	} {
		set.Status.NodeCounts = counts
		if got, err := ofDaemonSet(set); err != nil || got.old != want {
			t.Errorf("%+v: %d old pods, %v; want %d", counts, got.old, err, want)
		}
	}
}

// TestHeld: a restart waits while the controller of the workload may disrupt pods itself.
func TestHeld(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*v1beta1.CloneSet)
		granted workload.Budget
		want    string
	}{
		{"at rest", nil, workload.Budget{}, ""},
		{"the controller has not seen the spec", func(s *v1beta1.CloneSet) { s.Generation = 3 }, workload.Budget{},
			"under way"},
		{"a pod is old", func(s *v1beta1.CloneSet) { s.Status.UpdatedReplicas = 3 }, workload.Budget{}, "under way"},
		{"a partition keeps the old pod", func(s *v1beta1.CloneSet) {
			s.Status.UpdatedReplicas = 3
			s.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(1))
		}, workload.Budget{}, ""},
		{"OnDelete keeps the old pod", func(s *v1beta1.CloneSet) {
			s.Status.UpdatedReplicas = 3
			s.Spec.UpdateStrategy.Type = v1beta1.OnDeleteCloneSetUpdateStrategyType
		}, workload.Budget{}, ""},
		{"the hub keeps the old pod", func(s *v1beta1.CloneSet) { s.Status.UpdatedReplicas = 3 },
			workload.Budget{Amounts: &topology.MemberBudget{Budget: topology.Budget{Updated: 3, Unavailable: 1}}}, ""},
		{"paused", func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.RollingUpdate.Paused = true }, workload.Budget{},
			"paused"},
		{"the hub grants nothing", nil, workload.Budget{Amounts: &topology.MemberBudget{Paused: true}}, "grants nothing"},
		{"the hub grants nothing in the spec", func(s *v1beta1.CloneSet) {
			s.Spec.UpdateStrategy.RollingUpdate.Paused = true
		}, workload.Budget{Granted: true}, "other clusters have restarted"},
		{"the update is stuck", func(s *v1beta1.CloneSet) {
			s.Status.UpdatedReplicas = 3
			s.Status.Conditions = []v1beta1.CloneSetCondition{{Type: v1beta1.ConditionProgressing, Status: "False",
				Reason: "ProgressDeadlineExceeded", Message: "web-7 has timed out progressing"}}
		}, workload.Budget{}, "web-7 has timed out progressing; correct the template, or undo the update"},
		{"the lease has expired", nil, workload.Budget{Expired: true}, "not in contact"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := &v1beta1.CloneSet{}
			set.Generation, set.Status.ObservedGeneration = 2, 2
			set.Spec.Replicas = new(int32(4))
			set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{}
			set.Status.Replicas, set.Status.UpdatedReplicas = 4, 4
			if tt.change != nil {
				tt.change(set)
			}
			read, err := ofCloneSet(set)
			if err != nil {
				t.Fatal(err)
			}
			var f facts
			f.limit(read, tt.granted)
			if tt.want == "" && f.held != "" || !strings.Contains(f.held, tt.want) {
				t.Errorf("held: %q, want %q", f.held, tt.want)
			}
		})
	}
}
