package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Field is a field of a member's object that changes.
type Field struct {
	// Path names the field. An entry of a list with names is named, as in spec.template.spec.containers[main].image.
	Path string `json:"path"`
	// From and To are the values, absent for a field that is added or removed.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Hidden: the values are of a Secret, and not shown.
	Hidden bool `json:"hidden,omitempty"`
}

// lastApplied is the annotation of kubectl apply: the whole manifest, with the values of a Secret.
const lastApplied = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"

// changedFields returns what differs between two manifests, in the order of the paths. What the hub itself writes onto
// objects is left out: it follows from the numbers of the plan. So is what kubectl apply keeps of the manifest.
func changedFields(before, after []byte) ([]Field, error) {
	var from, to map[string]any
	if err := json.Unmarshal(before, &from); err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	if err := json.Unmarshal(after, &to); err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	fields := differences("", from, to)
	return slices.DeleteFunc(fields, func(f Field) bool {
		return strings.HasSuffix(f.Path, lastApplied) ||
			strings.HasPrefix(f.Path, "metadata.annotations["+topology.GroupVersion.Group+"/")
	}), nil
}

// differences compares two values at a path. nil stands for an absent value.
func differences(path string, from, to any) []Field {
	a, aIsMap := from.(map[string]any)
	b, bIsMap := to.(map[string]any)
	if aIsMap && bIsMap {
		if isSecret(a) || isSecret(b) {
			return inSecrets(path, a, b)
		}
		return inMaps(a, b, func(key string) string { return child(path, key) })
	}
	if aIsMap != bIsMap && (from == nil || to == nil) && strings.HasSuffix("."+path, ".metadata.annotations") {
		return inMaps(a, b, func(key string) string { return child(path, key) }) // some are left out
	}
	a, aIsNamed := named(from)
	b, bIsNamed := named(to)
	if aIsNamed && bIsNamed {
		return inMaps(a, b, func(key string) string { return path + "[" + key + "]" })
	}
	if equality.Semantic.DeepEqual(from, to) {
		return nil
	}
	return []Field{{Path: path, From: masked(from), To: masked(to)}}
}

// isSecret reports whether an object is a Secret.
func isSecret(object map[string]any) bool {
	return object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

// inSecrets compares two objects of which one is a Secret at least, without the values of its data.
func inSecrets(path string, a, b map[string]any) []Field {
	fields := inMaps(plain(a), plain(b), func(key string) string { return child(path, key) })
	for _, key := range secretFields() {
		at := child(path, key)
		for _, f := range differences(at, a[key], b[key]) {
			fields = append(fields, Field{Path: f.Path, Hidden: true})
		}
	}
	slices.SortFunc(fields, func(x, y Field) int { return strings.Compare(x.Path, y.Path) })
	return fields
}

// secretFields are the fields of a Secret with its values.
func secretFields() []string { return []string{"data", "stringData"} }

// plain returns a Secret without its values.
func plain(object map[string]any) map[string]any {
	out := maps.Clone(object)
	for _, key := range secretFields() {
		delete(out, key)
	}
	return out
}

// masked returns a value without the values of Secrets in it.
func masked(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key := range v {
			out[key] = masked(v[key])
			if isSecret(v) && slices.Contains(secretFields(), key) {
				out[key] = "(not shown)"
			}
		}
		if annotations, ok := out["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = masked(v[i])
		}
		return out
	}
	return value
}

func inMaps(a, b map[string]any, path func(string) string) []Field {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	var out []Field
	for _, key := range slices.Compact(keys) {
		out = append(out, differences(path(key), a[key], b[key])...)
	}
	return out
}

// named returns a list of objects by their names. It returns false for any other value, and for a list with a name
// twice or not at all.
func named(value any) (map[string]any, bool) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, false
	}
	out := map[string]any{}
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, _ := object["name"].(string)
		if _, twice := out[name]; name == "" || twice {
			return nil, false
		}
		out[name] = object
	}
	return out, true
}

// child returns the path of a field. A name that is no plain word, as that of an annotation, stands in brackets.
func child(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// text writes the change in one line.
func (f *Field) text() string {
	if f.Hidden {
		return f.Path + ": changes; values of a Secret are not shown"
	}
	return f.Path + ": " + shown(f.From) + " → " + shown(f.To)
}

// shown writes a value as JSON in at most 60 characters; "none" for an absent one.
func shown(value any) string {
	const most = 60
	if value == nil {
		return "none"
	}
	if text, ok := value.(string); ok && text != "" && utf8.RuneCountInString(text) <= most &&
		!strings.ContainsAny(text, "\n\t") {
		return text
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if runes := []rune(string(data)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(data)
}
