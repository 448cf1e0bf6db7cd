package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// digestBytes is how much of a decision's hash is kept: it tells edits apart, and keeps no secret.
const digestBytes = 8

// DigestOf returns the digest of a decision. It does not change when an API server stores the decision.
func DigestOf(spec *topology.WorkloadPlacementSpec) string { return digestOf(treeOf(spec)) }

// treeOf returns the decision as JSON: a server writes the fields of a template in an order of its own. It returns nil
// for a template that is no JSON, which no server stores.
func treeOf(spec *topology.WorkloadPlacementSpec) map[string]any {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree map[string]any
	if decoder.Decode(&tree) != nil {
		return nil
	}
	return tree
}

func digestOf(tree map[string]any) string {
	data, err := json.Marshal(tree)
	if tree == nil || err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:digestBytes])
}

// Foreign reports whether something other than a hub wrote the decision of a placement. A hub of the version before
// made the digest over the earlier names of fields; the first hubs wrote no digest.
func Foreign(p *topology.WorkloadPlacement) bool {
	digest, ok := p.Annotations[topology.AnnotationDecision]
	return ok && digest != DigestOf(&p.Spec) && digest != earlierDigestOf(&p.Spec)
}

// earlierDigestOf returns the digest that a hub of the version before gave to the decision.
func earlierDigestOf(spec *topology.WorkloadPlacementSpec) string {
	tree := treeOf(spec)
	rename(tree, "previousTemplate", "before")
	limits, _ := tree["limits"].([]any)
	for _, entry := range limits {
		renameBudget(entry)
	}
	cells, _ := tree["cells"].([]any)
	for i, entry := range cells {
		cell, _ := entry.(map[string]any)
		renameBudget(cell["granted"])
		renameBudget(cell["reserved"])
		rename(cell, "granted", "share")
		rename(cell, "reserved", "held")
		rename(cell, "replaced", "leaving")
		rename(cell, "waiting", "frozen")
		rename(cell, "taskSequence", "asked")
		if value := spec.Cells[i].Adoption.Value(); value != "" {
			delete(cell, "adoption")
			cell["adopt"] = value
		}
	}
	return digestOf(tree)
}

// renameBudget gives an amount of each limit its earlier name.
func renameBudget(entry any) {
	budget, _ := entry.(map[string]any)
	rename(budget, "updated", "update")
	rename(budget, "unavailable", "break")
	rename(budget, "surge", "add")
}

func rename(object map[string]any, from, to string) {
	if value, ok := object[from]; ok {
		delete(object, from)
		object[to] = value
	}
}
