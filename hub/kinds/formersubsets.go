package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// FormerSubsets keeps subsets in the manifests of members while their pods are evacuated, though the user's object no
// longer has them. Their definition is taken from the manifest that the member has.
type FormerSubsets struct {
	// In reports whether some of the cells are of subsets that the workload no longer has.
	In func(o Object, cells []topology.Cell) bool
	// Read returns the subsets of a manifest by name.
	Read func(manifest []byte) (map[string]map[string]any, error)
	// Add returns the manifest with the former subsets of the cells, as existing has them. It returns no manifest
	// where the member would have no subset at all.
	Add func(manifest []byte, cells []topology.Cell, existing map[string]map[string]any) ([]byte, error)
}

func formerSubsets() *FormerSubsets {
	return &FormerSubsets{In: hasFormerSubsets, Read: subsetsIn, Add: withFormerSubsets}
}

func subsetsIn(manifest []byte) (map[string]map[string]any, error) {
	var read struct {
		Spec struct {
			Topology struct {
				Subsets []map[string]any `json:"subsets"`
			} `json:"topology"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(manifest, &read); err != nil {
		return nil, err
	}
	byName := map[string]map[string]any{}
	for _, s := range read.Spec.Topology.Subsets {
		if name, ok := s["name"].(string); ok {
			byName[name] = s
		}
	}
	return byName, nil
}

func hasFormerSubsets(o Object, cells []topology.Cell) bool {
	ud := o.(*apps.UnitedDeployment)
	return slices.ContainsFunc(cells, func(c topology.Cell) bool {
		return !slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s apps.Subset) bool { return s.Name == c.Subset })
	})
}

// withFormerSubsets adds the subsets of existing that the manifest lacks and the member has cells of, with the
// replicas of its cells. It returns no manifest where the member would have no subset at all.
func withFormerSubsets(manifest []byte, cells []topology.Cell, existing map[string]map[string]any) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(manifest, &whole); err != nil {
		return nil, fmt.Errorf("read the manifest that a removed subset goes into: %w", err)
	}
	spec := objectIn(whole, "spec")
	division := objectIn(spec, "topology")
	subsets, _ := division["subsets"].([]any)
	replicas, _ := spec["replicas"].(float64)
	partitions := map[string]any{}
	for i := range cells {
		c := &cells[i]
		told := slices.ContainsFunc(subsets, func(s any) bool { return nameOf(s) == c.Subset })
		if subset, ok := existing[c.Subset]; ok && !told {
			subset = maps.Clone(subset)
			subset["replicas"] = c.Replicas
			subsets, replicas = append(subsets, subset), replicas+float64(c.Replicas)
			if stays := c.Replicas - c.Granted.Updated; stays > 0 {
				partitions[c.Subset] = stays
			}
		}
	}
	if len(subsets) == 0 {
		return nil, nil
	}
	division["subsets"], spec["replicas"] = subsets, int64(replicas)
	if len(partitions) > 0 {
		maps.Copy(objectIn(objectIn(objectIn(spec, "updateStrategy"), "manualUpdate"), "partitions"), partitions)
	}
	data, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest with a removed subset: %w", err)
	}
	return data, nil
}

// objectIn returns the object under a key of another one, which gets an empty one if it has none.
func objectIn(in map[string]any, key string) map[string]any {
	inner, ok := in[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		in[key] = inner
	}
	return inner
}

func nameOf(subset any) string {
	fields, _ := subset.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
