package delivery

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/placement"
)

// templateBefore is the pod template that pods of a member have which are not to be updated, as that member's manifest would have it,
// with the policy's overrides; "" where there are no such pods. It goes along with the manifest for a member that never had it.
func templateBefore(object client.Object, p *topology.WorkloadPlacement, cells []topology.Cell, add additions) (string, error) {
	cs, ok := object.(*apps.CloneSet)
	if !ok || p.Spec.Before == nil {
		return "", nil
	}
	if replicas, share, _ := sum(cells); share.Update >= replicas {
		return "", nil
	}
	old, err := placement.WithTemplateBefore(cs, p.Spec.Before)
	if err != nil {
		return "", err
	}
	manifest, err := Render(old, cells, add.spread)
	if err != nil {
		return "", err
	}
	if entries := add.overrides[cells[0].Cluster]; len(entries) > 0 {
		overridden, misfit, err := override.Apply(manifest, entries)
		if err != nil {
			return "", fmt.Errorf("override the template of before of CloneSet %s/%s for %s: %w", cs.Namespace, cs.Name, cells[0].Cluster, err)
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
		return "", fmt.Errorf("read the template of before of CloneSet %s/%s: %w", cs.Namespace, cs.Name, err)
	}
	return string(whole.Spec.Template), nil
}
