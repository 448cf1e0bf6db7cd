package hub_test

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/decision"
)

// TestRemovedSubset: a subset that is removed is left as others get available: its member keeps what the member of the
// others does not run yet.
func TestRemovedSubset(t *testing.T) {
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"b"}})
	f.policy("all")
	ud := f.unitedDeployment("web", 6, "a", "b")
	f.unitedDeploymentIs(ud, 6, 6)
	f.subsetsOrdered("web", "east a 3-0; west b 3-0; ")
	f.agents["east"].hush(true) // nothing more gets available
	f.eventually("the subset is removed", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
			return err
		}
		ud.Spec.Topology.Subsets = slices.DeleteFunc(ud.Spec.Topology.Subsets, func(s apps.Subset) bool {
			return s.Name == "b"
		})
		return f.client.Update(f.ctx, ud)
	})
	f.eventually("one is gone, and the others wait", func() error {
		p, err := f.placement("UnitedDeployment", "web")
		if err != nil {
			return err
		}
		for _, c := range p.Spec.Cells {
			if c.Subset == "b" && c.Replicas == 2 && c.Replaced == 2 && c.Reason.Code == decision.CellSubsetRemoved {
				return nil
			}
		}
		return fmt.Errorf("cells %+v", p.Spec.Cells)
	})
	f.eventually("the status tells of it", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
			return err
		}
		for _, s := range ud.Status.SubsetStatuses {
			if s.Name == "b" && s.Replicas == 2 {
				return nil
			}
		}
		return fmt.Errorf("status %+v", ud.Status)
	})
	f.subsetsOrdered("web", "east a 4-0; west b 2-0; ")
	f.agents["east"].hush(false)
	f.unitedDeploymentIs(ud, 6, 6)
	f.subsetsOrdered("web", "east a 6-0; ")
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}
}
