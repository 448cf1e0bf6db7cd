package delivery

import (
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/placement"
)

// templateBefore returns the template of the pods that must not be updated, as the member's manifest would have it,
// with the policy's overrides; empty where there are no such pods. It goes with the manifest, for a member that never
// had it.
func templateBefore(
	kind kinds.Kind,
	object client.Object,
	p *topology.WorkloadPlacement,
	cells []topology.Cell,
	add additions,
) (string, error) {
	if p.Spec.PreviousTemplate == nil || !keepsOld(kind, object, cells) {
		return "", nil
	}
	old, err := placement.WithPreviousTemplate(kind, object, p.Spec.PreviousTemplate)
	if err != nil {
		return "", err
	}
	manifest, err := Render(kind, old, cells, add.divider)
	if err != nil {
		return "", err
	}
	name := object.GetNamespace() + "/" + object.GetName()
	if entries := add.overrides[cells[0].Cluster]; len(entries) > 0 {
		overridden, misfit, err := override.Apply(manifest, entries, kind.Guarded)
		if err != nil {
			return "", fmt.Errorf("override the previous template of %s for %s: %w", name, cells[0].Cluster, err)
		}
		if misfit != nil {
			return "", nil // it is about the template of now
		}
		manifest = overridden
	}
	template, err := templateIn(kind, manifest)
	if err != nil {
		return "", fmt.Errorf("read the previous template of %s: %w", name, err)
	}
	return string(template), nil
}

// templateIn returns the template of a manifest, as JSON.
func templateIn(kind kinds.Kind, manifest []byte) ([]byte, error) {
	var whole struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(manifest, &whole); err != nil {
		return nil, err
	}
	if kind.Template.Of != nil {
		return kind.Template.Of(whole.Spec)
	}
	var spec struct {
		Template json.RawMessage `json:"template"`
	}
	err := json.Unmarshal(whole.Spec, &spec)
	return spec.Template, err
}

// keepsOld reports whether pods of some subset are not to be updated in a member, or new pods of a kind of mode
// PerMember get the previous template. decision asks the same of cells that it still changes, by pointers.
func keepsOld(kind kinds.Kind, object client.Object, cells []topology.Cell) bool {
	return slices.ContainsFunc(cells, func(c topology.Cell) bool {
		replicas, share, _ := kinds.Total(kinds.CellsOf(cells, c.Subset))
		if c.Reason.Code == decision.CellPerMember || c.Reason.Code == decision.CellLateMember {
			return kind.NewPodsUpdated == nil || !kind.NewPodsUpdated(object) || share.Updated < max(replicas, 1)
		}
		return share.Updated < replicas
	})
}
