package delivery

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// TestACellWithoutPermissionTakesNothing holds that a member whose cell has neither break nor add may not make a pod
// unavailable where the user lets none go, not even to remove one that is too many: its surge pod may still be
// starting, and what goes then is available. Chaos found that, with seed 7: the order said maxUnavailable 1 beside the
// pause. Where the user lets pods go, what a person asks for by apps.kruise.io/specified-delete still goes, one by one,
// and nothing else does (TestWithdrawnSurgeTakesNothingAvailable in member-agent/workloads/cloneset).
func TestACellWithoutPermissionTakesNothing(t *testing.T) {
	for _, test := range []struct {
		unavailable *intstr.IntOrString
		surge       int32
		want        int32
	}{
		{new(intstr.FromInt32(0)), 2, 0},
		{new(intstr.FromString("5%")), 2, 0}, // of 12, rounded down
		{new(intstr.FromInt32(2)), 0, 1},
		{nil, 0, 1},
	} {
		for _, paused := range []bool{false, true} {
			cs := &apps.CloneSet{}
			cs.Spec.Replicas = new(int32(12))
			cs.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{Paused: paused,
				MaxUnavailable: test.unavailable, MaxSurge: new(intstr.FromInt32(test.surge))}
			manifest, err := kindFor(cs).Render(cs, &kinds.Order{Cells: []topology.Cell{{Cluster: "east", Replicas: 4,
				Granted: topology.Budget{Updated: 4}, Waiting: true}}})
			if err != nil {
				t.Fatal(err)
			}
			spec := manifest.Spec.(*apps.CloneSetSpec)
			rolling := spec.UpdateStrategy.RollingUpdate
			limits, err := budget.Resolve(budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge,
				Paused: rolling.Paused}, ptr.Deref(spec.Replicas, 0))
			if err != nil || !rolling.Paused || limits.MaxUnavailable != test.want || limits.MaxSurge != 0 {
				t.Errorf("%v and %d: the order is %+v, which permits %+v (%v)", test.unavailable, test.surge, rolling, limits, err)
			}
		}
	}
}
