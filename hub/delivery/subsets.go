package delivery

import (
	"fmt"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// subsetsOf returns the subsets in the manifests that members have, by member and name. A removed subset is evacuated step by
// step, so its definition is needed while the user's object no longer has it. Where no Work has it, the member's own controller
// sees that it was removed.
func subsetsOf(kind kinds.Kind, works []work.Work) (map[string]map[string]map[string]any, error) {
	out := map[string]map[string]map[string]any{}
	for i := range works {
		w := &works[i]
		if len(w.Spec.Workload.Manifests) != 1 || wire.IsCheck(w) {
			continue
		}
		subsets, err := kind.Former.Read(w.Spec.Workload.Manifests[0].Raw)
		if err != nil {
			return nil, fmt.Errorf("read the manifest of Work %s/%s: %w", w.Namespace, w.Name, err)
		}
		out[w.Namespace] = subsets
	}
	return out, nil
}
