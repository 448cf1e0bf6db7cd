package delivery

import (
	"testing"

	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// TestACellWithoutPermissionTakesNothing holds that a member whose cell has neither break nor add may not make a pod unavailable,
// not even to remove one that is too many: its surge pod may still be starting, and what goes then is available. Chaos found
// that, with seed 7: the order said maxUnavailable 1 beside the pause.
func TestACellWithoutPermissionTakesNothing(t *testing.T) {
	for _, paused := range []bool{false, true} {
		cs := &apps.CloneSet{}
		cs.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{Paused: paused}
		spec := cloneSetSpec(cs, []topology.Cell{{Cluster: "east", Replicas: 4, Share: topology.Allowance{Update: 4}, Frozen: true}})
		rolling := spec.UpdateStrategy.RollingUpdate
		limits, err := budget.Resolve(budget.Strategy{MaxUnavailable: rolling.MaxUnavailable, MaxSurge: rolling.MaxSurge, Paused: rolling.Paused}, ptr.Deref(spec.Replicas, 0))
		if err != nil || !rolling.Paused || limits.MaxUnavailable != 0 || limits.MaxSurge != 0 {
			t.Errorf("the order is %+v, which permits %+v (%v)", rolling, limits, err)
		}
	}
}
