package override

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// setPods sets the entry's registry and variables in each container of each pod template of the tree. Patches of
// subsets get them too, because the member merges such a patch into the template afterwards.
func setPods(tree map[string]any, e *Entry) error {
	if e.ImageRegistry == "" && len(e.Env) == 0 {
		return nil
	}
	setContainers(tree, e, false)
	meta, _ := tree["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, ok := annotations[topology.AnnotationSpread].(string)
	if !ok {
		return nil
	}
	var part map[string]any
	if err := json.Unmarshal([]byte(text), &part); err != nil {
		return fmt.Errorf("read the annotation %s of the manifest: %w", topology.AnnotationSpread, err)
	}
	setContainers(part, e, false)
	data, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("encode the annotation %s of the manifest: %w", topology.AnnotationSpread, err)
	}
	annotations[topology.AnnotationSpread] = string(data)
	return nil
}

// setContainers changes the containers in v. inPatch reports whether v is part of a strategic merge patch.
func setContainers(v any, e *Entry, inPatch bool) {
	switch t := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(t)) {
			if key != "containers" && key != "initContainers" {
				setContainers(t[key], e, inPatch || key == "patch")
				continue
			}
			list, _ := t[key].([]any)
			for _, c := range list {
				if container, ok := c.(map[string]any); ok {
					setContainer(container, e, inPatch)
				}
			}
		}
	case []any:
		for i := range t {
			setContainers(t[i], e, inPatch)
		}
	}
}

func setContainer(container map[string]any, e *Entry, inPatch bool) {
	if image, ok := container["image"].(string); ok && image != "" && e.ImageRegistry != "" {
		container["image"] = withRegistry(image, e.ImageRegistry)
	}
	for i := range e.Env {
		if name, _ := container["name"].(string); e.Env[i].Container == "" || e.Env[i].Container == name {
			setEnv(container, &e.Env[i], inPatch)
		}
	}
}

// setEnv sets one variable. Of several entries with its name a container gets the last one, so that is the one to
// replace. The others stay: entries between them may refer to them as $(NAME).
func setEnv(container map[string]any, e *topology.EnvOverride, inPatch bool) {
	value, present := container["env"]
	list, _ := value.([]any)
	if inPatch {
		removed := present && value == nil
		if allow(container, "$retainKeys", "env") || removed {
			list = []any{map[string]any{"$patch": "replace"}} // the patch removes the variables of the template
		}
		allow(container, "$setElementOrder/env", map[string]any{"name": e.Name})
	}
	want := map[string]any{"name": e.Name, "value": e.Value}
	for i := len(list) - 1; i >= 0; i-- {
		if have, ok := list[i].(map[string]any); ok && have["name"] == e.Name {
			list[i] = want
			return
		}
	}
	container["env"] = append(list, want)
}

// allow adds an item to a directive of a strategic merge patch that lists what the patch may hold. It reports whether
// there is such a directive and the item was missing.
func allow(container map[string]any, directive string, item any) bool {
	list, ok := container[directive].([]any)
	if !ok || slices.ContainsFunc(list, func(have any) bool { return reflect.DeepEqual(have, item) }) {
		return false
	}
	container[directive] = append(list, item)
	return true
}

// withRegistry puts a registry in the place of an image's own. The part before the first slash is a registry if it has
// a dot or a port, or is localhost, as container runtimes read it.
func withRegistry(image, registry string) string {
	head, rest, ok := strings.Cut(image, "/")
	if ok && (strings.ContainsAny(head, ".:") || head == "localhost") {
		image = rest
	}
	return registry + "/" + image
}
