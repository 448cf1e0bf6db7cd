package objects

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// Object is one hostile object.
type Object struct {
	APIVersion, Kind, Plural string
	Namespaced               bool
	// Name is that of the object that it is made from.
	Name string
	// JSON is what is sent; it need not be JSON.
	JSON []byte
}

// kind is a version of a kind: a valid object and the schema.
type kind struct {
	apiVersion, kind, plural string
	namespaced               bool
	base, schema             map[string]any
}

// Generator makes objects. It is for one goroutine.
type Generator struct {
	draw  *rand.Rand
	kinds []kind
}

// New returns a generator: the same seed gives the same objects. It errs where a definition has no valid object to
// begin with.
func New(seed uint64) (*Generator, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	g := &Generator{draw: rand.New(rand.NewPCG(seed, 1))}
	for _, crd := range all {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return nil, fmt.Errorf("read the versions of %s: %w", crd.GetName(), err)
		}
		for _, v := range versions {
			one, _ := v.(map[string]any)
			k := kindOf(crd, one)
			base, ok := bases()[k.kind+" "+k.apiVersion]
			if !ok {
				return nil, fmt.Errorf("%s %s has no object to begin with", k.apiVersion, k.kind)
			}
			k.base = base
			k.base["apiVersion"], k.base["kind"] = k.apiVersion, k.kind
			g.kinds = append(g.kinds, k)
		}
	}
	return g, nil
}

func kindOf(crd *unstructured.Unstructured, version map[string]any) kind {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, path...)
		return s
	}
	name, _ := version["name"].(string)
	k := kind{
		apiVersion: text(
			"spec",
			"group",
		) + "/" + name, kind: text("spec", "names", "kind"), plural: text("spec", "names", "plural"),
		namespaced: text("spec", "scope") == "Namespaced",
	}
	k.schema, _, _ = unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	return k
}

// Kinds returns the kinds that it makes, as "apiVersion kind".
func (g *Generator) Kinds() []string {
	var all []string
	for i := range g.kinds {
		all = append(all, g.kinds[i].apiVersion+" "+g.kinds[i].kind)
	}
	return all
}

// Of every so many objects, one is changed in this way.
const (
	oneInRaw    = 12 // its bytes are changed too
	oneInIntact = 40 // nothing is changed
	mostEdits   = 4
)

// Next returns the next object; each kind has its turn.
func (g *Generator) Next() Object {
	k := &g.kinds[g.draw.IntN(len(g.kinds))]
	o := Object{APIVersion: k.apiVersion, Kind: k.kind, Plural: k.plural, Namespaced: k.namespaced}
	object := runtime.DeepCopyJSON(k.base)
	if !g.one(oneInIntact) {
		for range 1 + g.draw.IntN(mostEdits) {
			g.edit(object, k.schema)
		}
	}
	if meta, ok := k.base["metadata"].(map[string]any); ok {
		o.Name, _ = meta["name"].(string)
	}
	data, err := json.Marshal(object)
	if err != nil {
		data = []byte(err.Error()) // hostile enough
	}
	if g.one(oneInRaw) {
		data = g.spoil(data)
	}
	o.JSON = data
	return o
}

// Value returns one hostile value, of any type.
func (g *Generator) Value() any { return g.junk() }

func (g *Generator) one(in int) bool { return g.draw.IntN(in) == 0 }

// edit changes one place of an object: a field that the schema has, or any place that the object has.
func (g *Generator) edit(object, schema map[string]any) {
	const fromSchema = 4 // of five
	if g.draw.IntN(fromSchema+1) < fromSchema {
		g.put(object, schema)
		return
	}
	g.disturb(object)
}

// put goes down the schema at random and puts a value there.
func (g *Generator) put(at, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	names = slices.DeleteFunc(names, func(n string) bool { return n == "apiVersion" || n == "kind" })
	if len(names) == 0 {
		at[g.text()] = g.junk()
		return
	}
	name := names[g.draw.IntN(len(names))]
	if properties["spec"] != nil && !g.one(5) { // status and metadata are the rest
		name = "spec"
	}
	below, _ := properties[name].(map[string]any)
	switch next := at[name].(type) {
	case map[string]any:
		if !g.one(12) {
			g.put(next, below)
			return
		}
	case []any:
		items, _ := below["items"].(map[string]any)
		if len(next) > 0 && !g.one(4) {
			if inside, ok := next[g.draw.IntN(len(next))].(map[string]any); ok {
				g.put(inside, items)
				return
			}
		}
	}
	at[name] = g.value(below, 0)
}

// depth bounds what is made from a schema.
const depth = 8

// value makes a value of a schema: one of its type mostly, at times one of none.
func (g *Generator) value(schema map[string]any, level int) any {
	if level > depth || g.one(8) {
		return g.junk()
	}
	if schema["x-kubernetes-int-or-string"] == true {
		if g.one(2) {
			return g.percent()
		}
		return g.number()
	}
	if enum, ok := schema["enum"].([]any); ok && len(enum) > 0 && !g.one(6) {
		return runtime.DeepCopyJSONValue(enum[g.draw.IntN(len(enum))])
	}
	switch schema["type"] {
	case "string":
		return g.text()
	case "integer", "number":
		return g.number()
	case "boolean":
		return g.one(2)
	case "array":
		items, _ := schema["items"].(map[string]any)
		var list []any
		for range g.size() {
			list = append(list, g.value(items, level+1))
		}
		return list
	case "object":
		return g.object(schema, level)
	}
	return g.junk()
}

func (g *Generator) object(schema map[string]any, level int) any {
	made := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if below, ok := properties[name].(map[string]any); ok && g.one(2) {
			made[name] = g.value(below, level+1)
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		for range g.size() {
			made[g.text()] = g.value(more, level+1)
		}
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true && g.one(2) {
		return template()
	}
	return made
}

// size is how many elements a list or a map has: few mostly.
func (g *Generator) size() int {
	if g.one(60) {
		return 40
	}
	return g.draw.IntN(4)
}

// disturb changes a place that the object has: it takes it away, doubles it, or puts another value there.
func (g *Generator) disturb(at map[string]any) {
	for {
		names := slices.Sorted(maps.Keys(at))
		names = slices.DeleteFunc(names, func(n string) bool { return n == "apiVersion" || n == "kind" })
		if len(names) == 0 {
			return
		}
		name := names[g.draw.IntN(len(names))]
		next, deeper := at[name].(map[string]any)
		if deeper && !g.one(6) {
			at = next
			continue
		}
		list, _ := at[name].([]any)
		switch g.draw.IntN(4) {
		case 0:
			delete(at, name)
		case 1:
			if len(list) > 0 {
				at[name] = append(list, runtime.DeepCopyJSONValue(list[g.draw.IntN(len(list))]))
				return
			}
			at[g.text()] = runtime.DeepCopyJSONValue(at[name])
		case 2:
			if inside, ok := first(list); ok {
				at = inside
				continue
			}
			at[name] = g.junk()
		default:
			at[name] = g.junk()
		}
		return
	}
}

func first(list []any) (map[string]any, bool) {
	if len(list) == 0 {
		return nil, false
	}
	inside, ok := list[0].(map[string]any)
	return inside, ok && len(inside) > 0
}

// spoil changes bytes.
func (g *Generator) spoil(data []byte) []byte {
	data = slices.Clone(data)
	at := g.draw.IntN(len(data))
	switch g.draw.IntN(5) {
	case 0:
		return data[:at]
	case 1:
		data[at] = byte(g.draw.IntN(256))
		return data
	case 2:
		return append(data, data...)
	case 3:
		return slices.Insert(data, at, []byte(`{"a":[`)...)
	default:
		// A key that is there twice.
		return append([]byte(`{"spec":{"replicas":-1},"metadata":null,`), data[1:]...)
	}
}

// Bases returns the valid objects that hostile ones are made from, one of each version of each kind.
func Bases() []Object {
	var all []Object
	for _, name := range slices.Sorted(maps.Keys(bases())) {
		base := bases()[name]
		kind, apiVersion, _ := strings.Cut(name, " ")
		base["apiVersion"], base["kind"] = apiVersion, kind
		data, err := json.Marshal(base)
		if err != nil {
			data = []byte(err.Error())
		}
		meta, _ := base["metadata"].(map[string]any)
		o := Object{APIVersion: apiVersion, Kind: kind, JSON: data}
		o.Name, _ = meta["name"].(string)
		all = append(all, o)
	}
	return all
}
