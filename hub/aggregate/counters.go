package aggregate

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withCounters is a merge patch of a status to which every number of the status is added. A difference alone leaves
// out a zero that was never written, and then columns, autoscalers and `kubectl wait` see no value where there is one:
// 0.
type withCounters struct{ client.Patch }

// Data returns the patch of obj, with all numbers that stand directly in its status.
func (p withCounters) Data(obj client.Object) ([]byte, error) {
	raw, err := p.Patch.Data(obj)
	if err != nil {
		return nil, err
	}
	whole, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, fmt.Errorf("read the difference: %w", err)
	}
	difference, full := statusFields{}, struct {
		Status statusFields `json:"status"`
	}{}
	if patch["status"] != nil {
		if err := json.Unmarshal(patch["status"], &difference); err != nil {
			return nil, fmt.Errorf("read the difference's status: %w", err)
		}
	}
	if err := json.Unmarshal(whole, &full); err != nil {
		return nil, fmt.Errorf("read the object's status: %w", err)
	}
	for name, value := range full.Status {
		if isNumber(value) {
			difference[name] = value
		}
	}
	if patch["status"], err = json.Marshal(difference); err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	return json.Marshal(patch)
}

type statusFields map[string]json.RawMessage

// isNumber tells whether a valid JSON value is a number.
func isNumber(v json.RawMessage) bool {
	return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}
