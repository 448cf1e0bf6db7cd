package main

// referTo replaces the descriptions of a version that the stored version has at the same place, so that a definition
// holds each once. kubectl explain shows the stored version unless another is asked for.
func referTo(stored schema, version string, node schema) {
	for name, value := range below(node) {
		property, _ := value.(map[string]any)
		other, _ := below(stored)[name].(map[string]any)
		if property == nil || other == nil {
			continue
		}
		if reference := name + ": see " + version + "."; property["description"] == other["description"] {
			if text, _ := property["description"].(string); len(text) > len(reference) {
				property["description"] = reference
			}
		}
		referTo(other, version, property)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		child, _ := node[key].(map[string]any)
		if other, _ := stored[key].(map[string]any); child != nil && other != nil {
			referTo(other, version, child)
		}
	}
}
