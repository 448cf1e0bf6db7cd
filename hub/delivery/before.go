package delivery

import (
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/placement"
)

// templateBefore is the template that pods of a member have which are not to be updated, as that member's manifest would have it,
// with the policy's overrides: of a CloneSet a pod template, of a UnitedDeployment a template of its children. It is "" where there are
// no such pods. It goes along with the manifest for a member that never had it.
func templateBefore(object client.Object, p *topology.WorkloadPlacement, cells []topology.Cell, add additions) (string, error) {
	if p.Spec.Before == nil || !keepsOld(cells) {
		return "", nil
	}
	old, err := placement.WithTemplateBefore(object, p.Spec.Before)
	if err != nil {
		return "", err
	}
	manifest, err := Render(old, cells, add.spread)
	if err != nil {
		return "", err
	}
	name := object.GetNamespace() + "/" + object.GetName()
	if entries := add.overrides[cells[0].Cluster]; len(entries) > 0 {
		overridden, misfit, err := override.Apply(manifest, entries)
		if err != nil {
			return "", fmt.Errorf("override the template of before of %s for %s: %w", name, cells[0].Cluster, err)
		}
		if misfit != nil {
			return "", nil // it is about the template of now
		}
		manifest = overridden
	}
	var whole struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(manifest, &whole); err != nil {
		return "", fmt.Errorf("read the template of before of %s: %w", name, err)
	}
	return string(whole.Spec.Template), nil
}

// keepsOld tells whether pods of some subset are not to be updated in a member.
func keepsOld(cells []topology.Cell) bool {
	return slices.ContainsFunc(cells, func(c topology.Cell) bool {
		replicas, share, _ := sum(cellsOf(cells, c.Subset))
		return share.Update < replicas
	})
}
