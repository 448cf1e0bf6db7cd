package conversion

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// entry is one place of an object, and what is there; nothing if it is gone.
type entry struct {
	path []string
	is   any
	gone bool
}

// difference returns what must be put into from to make it like to, in spec, status, labels and annotations. Lists are
// taken as a whole.
func difference(from, to tree) []entry {
	var entries []entry
	for _, path := range [][]string{{"metadata", "annotations"}, {"metadata", "labels"}, {"spec"}, {"status"}} {
		was, had := lookUp(from, path)
		is, has := lookUp(to, path)
		entries = compare(entries, path, was, had, is, has)
	}
	return entries
}

func lookUp(object tree, path []string) (any, bool) {
	for _, key := range path[:len(path)-1] {
		object, _ = object[key].(tree)
	}
	value, has := object[path[len(path)-1]]
	return value, has
}

// compare adds the differences at path and below. A map that is gone is emptied first, and removed only if that left it
// empty; so what a user put into it since stays.
func compare(entries []entry, path []string, was any, had bool, is any, has bool) []entry {
	if !had && !has || had && has && reflect.DeepEqual(was, is) {
		return entries
	}
	wasMap, wasOK := was.(tree)
	isMap, isOK := is.(tree)
	if (wasOK || !had) && (isOK || !has) && len(wasMap)+len(isMap) > 0 {
		for _, key := range slices.Sorted(maps.Keys(union(wasMap, isMap))) {
			wasChild, hadChild := wasMap[key]
			isChild, hasChild := isMap[key]
			entries = compare(entries, append(path[:len(path):len(path)], key), wasChild, hadChild, isChild, hasChild)
		}
		if has {
			return entries
		}
	}
	return append(entries, entry{path: path, is: is, gone: !has})
}

func union(a, b tree) tree {
	all := maps.Clone(a)
	if all == nil {
		all = tree{}
	}
	maps.Copy(all, b)
	return all
}

// put returns the object with the entries in it.
func put(object tree, entries []entry) tree {
	object = maps.Clone(object)
	for _, e := range entries {
		parent, last := object, len(e.path)-1
		for _, key := range e.path[:last] {
			if e.gone {
				parent = child(parent, key)
			} else {
				parent = made(parent, key)
			}
		}
		key := e.path[last]
		there, isMap := parent[key].(tree)
		_, toMap := e.is.(tree)
		switch {
		case parent == nil || isMap && (toMap || e.gone && len(there) > 0):
		case e.gone:
			delete(parent, key)
		default:
			parent[key] = e.is
		}
	}
	return object
}

// restore returns plain, which said became, with the remainder that was carried for it. The version of said must not
// see a difference: with the remainder the object becomes in it what it becomes without, or what was said, in so many
// words. Else the remainder is left out.
func restore(plain, said tree, carried string, owner version) tree {
	entries := decode(carried)
	if len(entries) == 0 {
		return plain
	}
	shown := as(plain, owner.convert)
	hidden := func(object tree) bool {
		now := as(object, owner.convert)
		return len(difference(shown, now)) == 0 || len(difference(said, now)) == 0
	}
	full := put(plain, entries)
	if !hidden(full) {
		full = plain
		for _, part := range parts(entries) {
			if with := put(full, part); hidden(with) {
				full = with
			}
		}
	}
	had := faults(plain, owner)
	for fault := range faults(full, owner) {
		if !had[fault] {
			return plain
		}
	}
	return full
}

// faults returns what is wrong with an object for Go clients: fields that they do not know, or that they cannot read
// it, which would keep them from reading any.
func faults(object tree, as version) map[string]bool {
	faults := map[string]bool{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, as.empty(), true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, unknown := range strict.Errors() {
			faults[unknown.Error()] = true
		}
	} else if err != nil {
		faults["unreadable"] = true
	}
	return faults
}

// parts divides entries by the field of spec or status, the label or the annotation that they are about, in their
// order.
func parts(entries []entry) [][]entry {
	var parts [][]entry
	at := map[string]int{}
	for _, e := range entries {
		length := 2
		switch {
		case e.path[0] == "metadata":
			length = 3
		case len(e.path) > 1 && e.path[1] == "template":
			length = 5 // such as spec.template.cloneSetTemplate.spec.updateStrategy
		}
		name := pointer(e.path[:min(length, len(e.path))])
		i, has := at[name]
		if !has {
			i = len(parts)
			at[name] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], e)
	}
	return parts
}

// encode writes entries as JSON: a list of {"at": JSON pointer, "is": value}, without "is" for what is gone.
func encode(entries []entry) string {
	list := make([]tree, len(entries))
	for i, e := range entries {
		list[i] = tree{"at": pointer(e.path)}
		if !e.gone {
			list[i]["is"] = e.is
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "" // Not for what was read from JSON.
	}
	return string(data)
}

// decode reads what encode wrote. What somebody else wrote is left out: other text, and other places than spec, status,
// labels and annotations.
func decode(text string) []entry {
	var list []any
	if text == "" || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	var entries []entry
	for _, item := range list {
		m, _ := item.(tree)
		at, _ := m["at"].(string)
		path := segments(at)
		is, has := m["is"]
		isMetadata := len(path) > 1 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations")
		isOurs := slices.Contains(path, RemainderOfV1alpha1) || slices.Contains(path, RemainderOfV1beta1)
		if !isOurs && (isMetadata || len(path) > 0 && (path[0] == "spec" || path[0] == "status")) {
			entries = append(entries, entry{path: path, is: is, gone: !has})
		}
	}
	return entries
}

// pointer returns a path as a JSON pointer (RFC 6901), and segments reads one.
func pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var text strings.Builder
	for _, key := range path {
		text.WriteString("/" + escape.Replace(key))
	}
	return text.String()
}

func segments(text string) []string {
	if !strings.HasPrefix(text, "/") {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	path := strings.Split(text[1:], "/")
	for i := range path {
		path[i] = unescape.Replace(path[i])
	}
	return path
}
