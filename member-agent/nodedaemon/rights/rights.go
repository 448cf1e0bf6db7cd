// Package rights is what the daemon of a node may do: its rules, and the ValidatingAdmissionPolicy that narrows its
// writes to objects of its own node.
//
// RBAC knows no nodes, so that each daemon may read the objects of all; it watches those of its own by selectors. The
// Secrets that it may read are those that the agent's Role flotilla-node-pulls names.
package rights

import (
	"bytes"
	_ "embed" // for the policy
	"errors"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// PullsRole is the Role, in the namespace of the programs, that names the Secrets with credentials for running pulls.
	// The agent keeps it; the chart binds it to the daemon.
	PullsRole = "flotilla-node-pulls"
	// kruise is the group of the objects that daemons serve.
	kruise = "apps.kruise.io"
	read   = "get list watch"
)

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources),
		Verbs: strings.Fields(verbs)}
}

// Rules are what a daemon may do in all namespaces.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(kruise, "nodeimages nodepodprobes containerrecreaterequests", read),
		rule(kruise, "nodeimages/status nodepodprobes/status containerrecreaterequests/status", "get update patch"),
		rule("", "pods", read),
		rule("", "pods/status", "get update patch"),
		// On the jobs and requests of users.
		rule("events.k8s.io", "events", "create patch"),
	}
}

//go:embed policy.yaml
var policy string

// Policy returns the ValidatingAdmissionPolicy and its binding. It errs only if the file is broken.
func Policy() ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(policy), len(policy))
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse the policy of node daemons: %w", err)
		}
		objects = append(objects, object)
	}
}
