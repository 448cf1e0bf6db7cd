package override

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Misfit is why an entry cannot be carried out.
type Misfit struct {
	// Index of the entry in spec.overrides, from 0.
	Index int
	// Problem says what is wrong with it, and what to do.
	Problem string
}

// Apply returns the manifest with the entries carried out on it, in their order. guarded are the paths of the kind that
// no entry may change. The same input gives the same bytes. The error is for a manifest that is no JSON object.
func Apply(manifest []byte, entries []Entry, guarded []string) ([]byte, *Misfit, error) {
	for i := range entries {
		var misfit *Misfit
		var err error
		if manifest, misfit, err = apply(manifest, &entries[i], guarded); misfit != nil || err != nil {
			return nil, misfit, err
		}
	}
	return manifest, nil, nil
}

func apply(manifest []byte, e *Entry, guarded []string) ([]byte, *Misfit, error) {
	tree, err := read(manifest)
	if err != nil {
		return nil, nil, err
	}
	if err := setPods(tree, e); err != nil {
		return nil, nil, err
	}
	setMeta(tree, "labels", e.Labels)
	setMeta(tree, "annotations", e.Annotations)
	if manifest, err = json.Marshal(tree); err != nil {
		return nil, nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if len(e.Patch) == 0 {
		return manifest, nil, nil
	}
	manifest, misfit, err := patch(manifest, e)
	if misfit != nil || err != nil {
		return nil, misfit, err
	}
	after, err := read(manifest)
	if err != nil {
		return nil, &Misfit{e.Index, "after its patch the manifest is no object; correct the patch"}, nil
	}
	if path := touched(tree, after, guarded); path != "" {
		return nil, &Misfit{
			e.Index,
			fmt.Sprintf("its patch changes %s, which the hub decides; take that out of the patch", path),
		}, nil
	}
	manifest, err = json.Marshal(after) // in order, whatever the patch left
	if err != nil {
		return nil, nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return manifest, nil, nil
}

func read(manifest []byte) (map[string]any, error) {
	var tree map[string]any
	if err := json.Unmarshal(manifest, &tree); err != nil || tree == nil {
		return nil, fmt.Errorf("the manifest is no object: %w", err)
	}
	return tree, nil
}

func setMeta(tree map[string]any, field string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	meta, ok := tree["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		tree["metadata"] = meta
	}
	have, ok := meta[field].(map[string]any)
	if !ok {
		have = map[string]any{}
		meta[field] = have
	}
	for key, value := range values {
		have[key] = value
	}
}

// patch carries out the JSON patch of an entry, one step at a time, so that the step that does not fit can be named.
func patch(manifest []byte, e *Entry) ([]byte, *Misfit, error) {
	for i := range e.Patch {
		step := &e.Patch[i]
		operation := map[string]any{"op": step.Op, "path": step.Path}
		if step.Op != "remove" {
			value := json.RawMessage("null")
			if len(step.Value.Raw) > 0 {
				value = step.Value.Raw
			}
			operation["value"] = value
		}
		text, err := json.Marshal([]any{operation})
		if err != nil {
			return nil, nil, fmt.Errorf("encode overrides[%d].patch[%d]: %w", e.Index, i, err)
		}
		decoded, err := jsonpatch.DecodePatch(text)
		if err == nil {
			manifest, err = decoded.Apply(manifest)
		}
		if err != nil {
			return nil, &Misfit{
				e.Index,
				fmt.Sprintf(
					"its patch[%d] (%s %s) does not fit the manifest: %v; correct the path or the value, or let the entry hold for "+
						"fewer members",
					i,
					step.Op,
					step.Path,
					err,
				),
			}, nil
		}
	}
	return manifest, nil, nil
}

// allGuarded returns the paths of a manifest that no override changes, with * for each entry of a list or map: the
// identity of the object, and those that its kind guards.
func allGuarded(ofKind []string) []string {
	identity := []string{
		"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.generateName", "metadata.ownerReferences",
		"metadata.finalizers",
	}
	return slices.Concat(identity, ofKind)
}

// touched returns the first guarded path that differs, or the first mark of the hub, "" if none does.
func touched(before, after map[string]any, ofKind []string) string {
	for _, path := range allGuarded(ofKind) {
		if !reflect.DeepEqual(at(before, strings.Split(path, ".")), at(after, strings.Split(path, "."))) {
			return path
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		was, is := marks(before, field), marks(after, field)
		if !maps.Equal(was, is) {
			return "metadata." + field + " of " + topology.GroupVersion.Group
		}
	}
	return ""
}

// at returns what stands at a path: a value, or for a path with * a list of them by key.
func at(v any, path []string) any {
	if len(path) == 0 {
		return v
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if path[0] != "*" {
		return at(tree[path[0]], path[1:])
	}
	all := map[string]any{}
	for key := range tree {
		if found := at(tree[key], path[1:]); found != nil {
			all[key] = found
		}
	}
	return all
}

// marks returns the hub's own labels or annotations.
func marks(tree map[string]any, field string) map[string]string {
	found := map[string]string{}
	meta, _ := tree["metadata"].(map[string]any)
	values, _ := meta[field].(map[string]any)
	for key, value := range values {
		if strings.HasPrefix(key, topology.GroupVersion.Group+"/") {
			found[key] = fmt.Sprint(value)
		}
	}
	return found
}
