package delivery

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// A subset that was removed is left step by step, so members have it for a while when the user's object tells nothing of it any more.
// What it was stands in each member's Work: from there it is taken over as it is, with another number. Where no Work has it, the
// member's own controller sees that it was removed.

// subsetsOf are the subsets of UnitedDeployments that members are told of, by member and name, as their Works have them.
func subsetsOf(works []work.Work) (map[string]map[string]map[string]any, error) {
	out := map[string]map[string]map[string]any{}
	for i := range works {
		w := &works[i]
		if len(w.Spec.Workload.Manifests) != 1 {
			continue
		}
		var manifest struct {
			Kind string `json:"kind"`
			Spec struct {
				Topology struct {
					Subsets []map[string]any `json:"subsets"`
				} `json:"topology"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &manifest); err != nil {
			return nil, fmt.Errorf("read the manifest of Work %s/%s: %w", w.Namespace, w.Name, err)
		}
		if manifest.Kind != apps.UnitedDeploymentKind.Kind {
			continue
		}
		byName := map[string]map[string]any{}
		for _, s := range manifest.Spec.Topology.Subsets {
			if name, ok := s["name"].(string); ok {
				byName[name] = s
			}
		}
		out[w.Namespace] = byName
	}
	return out, nil
}

// hasRemoved tells whether a placement has cells of subsets that a UnitedDeployment has no more.
func hasRemoved(object any, cells []topology.Cell) bool {
	ud, ok := object.(*apps.UnitedDeployment)
	return ok && slices.ContainsFunc(cells, func(c topology.Cell) bool {
		return !slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s apps.Subset) bool { return s.Name == c.Subset })
	})
}

// withRemoved adds to a member's manifest the subsets that it is to leave, as they stand in its Work, with the numbers of its cells.
// It returns no manifest where the member would have no subset at all.
func withRemoved(manifest []byte, cells []topology.Cell, stands map[string]map[string]any) ([]byte, error) {
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
		if subset, ok := stands[c.Subset]; ok && !told {
			subset = maps.Clone(subset)
			subset["replicas"] = c.Replicas
			subsets, replicas = append(subsets, subset), replicas+float64(c.Replicas)
			if stays := c.Replicas - c.Share.Update; stays > 0 {
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

// objectIn returns an object inside another one, which is made if it is not there.
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
