package placement

import (
	"encoding/json"

	"k8s.io/client-go/util/jsonpath"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
)

// statusValues returns what a policy hands over from the statuses that lost members reported last, by member and name.
func (s *State) statusValues(members []decision.Member, h *topology.HandOver) map[string]map[string]string {
	if h == nil || len(h.Status) == 0 {
		return nil
	}
	out := map[string]map[string]string{}
	for i := range members {
		status := s.statuses[members[i].Name]
		if !members[i].Lost || status == nil {
			continue
		}
		var tree any
		if json.Unmarshal(status.Raw, &tree) != nil {
			continue
		}
		values := map[string]string{}
		for _, from := range h.Status {
			if value, ok := valueAt(map[string]any{"status": tree}, from.JSONPath); ok {
				values[from.Name] = value
			}
		}
		out[members[i].Name] = values
	}
	return out
}

// valueAt returns the first value that a path leads to: a text as it is, everything else as JSON. The schema admits only
// paths that can be read.
func valueAt(tree any, path string) (string, bool) {
	reader := jsonpath.New("handOver").AllowMissingKeys(true)
	if reader.Parse(path) != nil {
		return "", false
	}
	found, err := reader.FindResults(tree)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return "", false
	}
	switch value := found[0][0].Interface().(type) {
	case nil:
		return "", false
	case string:
		return value, true
	default:
		data, err := json.Marshal(value)
		return string(data), err == nil
	}
}

// cutOf names the ordinals of whose values a report has only a part.
func cutOf(r *work.Report) string {
	if r.HandOver == nil {
		return ""
	}
	return r.HandOver.Cut
}
