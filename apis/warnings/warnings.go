// Package warnings holds what the API servers of hubs and members warn about at apply: objects that are accepted, and
// do nothing. They are ValidatingAdmissionPolicies with the action Warn. The charts take the same files.
package warnings

import (
	_ "embed" // for the policies
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/manifests"
)

const (
	hubName, memberName = "flotilla-hub-warnings", "flotilla-member-warnings"
	// runs is the line of the policy of a hub that says that controllers of Kubernetes run in the hub's own cluster, and
	// runsNot the line where none do. The chart replaces it too.
	runs, runsNot = "expression: 1 > 0 # the hub runs workloads", "expression: 0 > 1"
)

//go:embed hub.yaml
var hub string

//go:embed member.yaml
var member string

// Hub returns the policy of a hub and its binding. runsWorkloads says that controllers of Kubernetes run in the hub's
// own cluster. It errs only if the file is broken.
func Hub(runsWorkloads bool) ([]*unstructured.Unstructured, error) {
	text := hub
	if !runsWorkloads {
		text = strings.Replace(text, runs, runsNot, 1)
	}
	return decode(text, hubName)
}

// Member returns the policy of a member and its binding. It errs only if the file is broken.
func Member() ([]*unstructured.Unstructured, error) { return decode(member, memberName) }

func decode(text, name string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read the policy %s: %w", name, err)
	}
	return objects, nil
}
