// Package protection holds the deletion protection of objects with the label policy.kruise.io/delete-protection, as far
// as an API server decides it alone: a ValidatingAdmissionPolicy and its binding. The charts take the same file.
package protection

import (
	_ "embed" // for the policy
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/manifests"
)

const (
	// Label protects the object that has it from deletion.
	Label = "policy.kruise.io/delete-protection"
	// Always is the value of Label with which the object cannot be deleted.
	Always = "Always"
	// Cascading is the value of Label with which the object cannot be deleted while others would be deleted with it: pods,
	// volumes in use, or objects of the kind.
	Cascading = "Cascading"
	// Refused begins each refusal.
	Refused = "forbidden by ResourcesProtectionDeletion for " + Label + "="

	// Name is the name of the policy and of its binding.
	Name = "flotilla-deletion-protection"
	// Agent is the user that may delete what a hub brought.
	Agent = "system:serviceaccount:flotilla-system:flotilla-agent"
)

//go:embed policy.yaml
var policy string

// Objects returns the policy and its binding. agent is the user that may delete what a hub brought, Agent in a cluster
// that was set up by the charts. It fails only if the file is broken.
func Objects(agent string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Decode(strings.ReplaceAll(policy, Agent, agent))
	if err != nil {
		return nil, fmt.Errorf("read the policy %s: %w", Name, err)
	}
	return objects, nil
}
