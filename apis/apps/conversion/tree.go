package conversion

import "maps"

// tree is an object, or a part of one, as JSON has it. A part may be shared with other objects: only what child and
// made return may be changed, and the object itself.
type tree = map[string]any

// child returns the map at key, to be changed; nil if there is none.
func child(parent tree, key string) tree {
	m, ok := parent[key].(tree)
	if !ok {
		return nil
	}
	m = maps.Clone(m)
	parent[key] = m
	return m
}

// below is child over several keys.
func below(parent tree, keys ...string) tree {
	for _, key := range keys {
		if parent = child(parent, key); parent == nil {
			return nil
		}
	}
	return parent
}

// made returns the map at key, to be changed; it is made if there is nothing, and not part of parent if there is
// something else.
func made(parent tree, key string) tree {
	if m := child(parent, key); m != nil {
		return m
	}
	m := tree{}
	if parent[key] == nil {
		parent[key] = m
	}
	return m
}

// dropEmpty removes the map at key if it is empty.
func dropEmpty(parent tree, key string) {
	if m, ok := parent[key].(tree); ok && len(m) == 0 {
		delete(parent, key)
	}
}

// each replaces the list at key by one whose maps change may change.
func each(parent tree, key string, change func(item tree)) {
	list, ok := parent[key].([]any)
	if !ok {
		return
	}
	changed := make([]any, len(list))
	for i, item := range list {
		if m, ok := item.(tree); ok {
			m = maps.Clone(m)
			change(m)
			item = m
		}
		changed[i] = item
	}
	parent[key] = changed
}

// annotation returns the value of an annotation, "" if there is none.
func annotation(object tree, key string) string {
	metadata, _ := object["metadata"].(tree)
	annotations, _ := metadata["annotations"].(tree)
	value, _ := annotations[key].(string)
	return value
}

// without returns the object without some annotations.
func without(object tree, keys ...string) tree {
	for _, key := range keys {
		if annotation(object, key) == "" {
			continue
		}
		object = maps.Clone(object)
		metadata := child(object, "metadata")
		delete(child(metadata, "annotations"), key)
		dropEmpty(metadata, "annotations")
	}
	return object
}
