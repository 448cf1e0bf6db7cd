package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	strictjson "sigs.k8s.io/json"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// Reader reads objects from YAML documents as an API server with our CustomResourceDefinitions does: strictly, with the
// defaults of the schemas, and the older versions converted. Of policies the lists of values, the bounds and the rules
// of the schemas are checked, too. What only a running cluster knows is not checked.
type Reader struct {
	scheme *runtime.Scheme
	older  *runtime.Scheme
	rules  kinds.Table
	// schemas are the OpenAPI schemas of our kinds, scopes tell which of them have a namespace.
	schemas map[schema.GroupVersionKind]map[string]any
	cluster map[schema.GroupKind]bool
	rulesOf rules
	// Namespace is that of objects which name none.
	Namespace string
	// BuiltIns says who runs Kubernetes' own workloads that stand on the hub, for the notes about them.
	BuiltIns kinds.BuiltIns
}

// NewReader returns a reader for the kinds that the scheme knows. It fails only if an embedded definition is broken.
func NewReader(scheme *runtime.Scheme, namespace string) (*Reader, error) {
	r := &Reader{
		scheme: scheme, older: runtime.NewScheme(), rules: kinds.All(kinds.HubRunsBuiltIns), Namespace: namespace,
		schemas: map[schema.GroupVersionKind]map[string]any{},
		cluster: map[schema.GroupKind]bool{{Kind: "Namespace"}: true},
	}
	var err error
	if r.rulesOf, err = newRules(); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(r.older); err != nil {
		return nil, fmt.Errorf("build the scheme of older versions: %w", err)
	}
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	for _, crd := range all {
		r.learn(crd)
	}
	return r, nil
}

// learn takes the schemas and the scope of one definition.
func (r *Reader) learn(crd *unstructured.Unstructured) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	r.cluster[schema.GroupKind{Group: group, Kind: kind}] = scope == "Cluster"
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(version, "name")
		openAPI, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		r.schemas[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = openAPI
	}
}

// Read returns the objects of a file's text in their order. Notes are sentences about objects that are left out,
// because the hub decides nothing by them. The error joins a [Mistake] for everything that is wrong.
func (r *Reader) Read(file string, text []byte) (objects []client.Object, notes []string, err error) {
	var mistakes []*Mistake
	for _, d := range documents(decoded(text)) {
		found, left, err := r.document(&d)
		objects = append(objects, found...)
		for _, note := range left {
			notes = append(notes, fmt.Sprintf("%s, line %d: %s", file, d.lineOf(note.path), note.text))
		}
		for _, mistake := range split(err) {
			mistakes = append(mistakes, d.mistake(file, mistake))
		}
	}
	slices.SortStableFunc(mistakes, func(a, b *Mistake) int { return cmp.Compare(a.Line, b.Line) })
	all := make([]error, len(mistakes))
	for i := range mistakes {
		all[i] = mistakes[i]
	}
	return objects, notes, errors.Join(all...)
}

// note is a sentence about an object that is left out, and where in the document the object is.
type note struct{ path, text string }

// split returns the errors that were joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// document reads one document: an object, or a List of objects.
func (r *Reader) document(d *document) ([]client.Object, []note, error) {
	data, err := d.json()
	if err != nil {
		return nil, nil, err
	}
	var value any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
		return nil, nil, fmt.Errorf("this is no valid YAML: %w; correct it", err)
	}
	tree, ok := value.(map[string]any)
	if !ok {
		return nil, nil, notObject(value)
	}
	d.kind, _ = tree["kind"].(string)
	return r.objects(tree, "")
}

// objects reads an object or a List of objects that is at a path of its document.
func (r *Reader) objects(tree map[string]any, path string) ([]client.Object, []note, error) {
	kind, _ := tree["kind"].(string)
	_, named := tree["items"]
	if strings.HasSuffix(kind, "List") && (named || (&unstructured.Unstructured{Object: tree}).GetName() == "") {
		return r.list(tree, path)
	}
	objects, notes, err := r.one(tree)
	for i := range notes {
		notes[i].path = path
	}
	var mistakes []error
	for _, mistake := range split(err) {
		mistakes = append(mistakes, within(path, kind, mistake))
	}
	return objects, notes, errors.Join(mistakes...)
}

func (r *Reader) list(tree map[string]any, path string) (objects []client.Object, notes []note, err error) {
	items, ok := tree["items"].([]any)
	if !ok {
		return nil, nil, within(path, "", fmt.Errorf("the %v has no items; give it a list of objects", tree["kind"]))
	}
	var mistakes []error
	for i, item := range items {
		at := joined(path, fmt.Sprintf("items[%d]", i))
		fields, ok := item.(map[string]any)
		if !ok {
			mistakes = append(mistakes, within(at, "", fmt.Errorf("items[%d] is no object; correct it", i)))
			continue
		}
		found, left, err := r.objects(fields, at)
		objects, notes = append(objects, found...), append(notes, left...)
		mistakes = append(mistakes, split(err)...)
	}
	return objects, notes, errors.Join(mistakes...)
}

// one reads an object.
func (r *Reader) one(tree map[string]any) ([]client.Object, []note, error) {
	u := &unstructured.Unstructured{Object: tree}
	gvk := u.GroupVersionKind()
	name := title(u)
	if err := r.foreign(u); err != nil {
		return nil, nil, err
	}
	switch {
	case gvk.Kind == "" || gvk.Version == "":
		return nil, nil, fmt.Errorf("%s has no apiVersion or no kind; give it both", name)
	case u.GetName() == "":
		err := at("metadata", fmt.Errorf("%s has no metadata.name; give it one", name))
		if !r.knows(gvk) {
			return nil, nil, err
		}
		mistakes := split(r.strict(u))
		if meta, _ := u.Object["metadata"].(map[string]any); meta["name"] == nil || meta["name"] == "" {
			mistakes = append(mistakes, err)
		}
		return nil, nil, errors.Join(mistakes...)
	case kinds.IsBuiltIn(gvk.GroupKind()):
		return nil, []note{{text: r.native(name, gvk)}}, nil
	case !r.knows(gvk) || neverPlaced(gvk):
		return nil, []note{{text: leftOut(name, gvk)}}, nil
	}
	if err := r.setNamespace(u, name); err != nil {
		return nil, nil, err
	}
	if err := r.strict(u); err != nil {
		return nil, nil, err
	}
	u.Object, _ = withDefaults(u.Object, r.schemas[gvk]).(map[string]any)
	if err := r.checkSpec(name, u.Object, gvk); err != nil {
		return nil, nil, err
	}
	if r.older.Recognizes(gvk) && !r.scheme.Recognizes(gvk) { // some kinds have no other version
		converted, err := conversion.Convert(u, apps.GroupVersion.String())
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		u, gvk = converted, converted.GroupVersionKind()
		u.Object, _ = withDefaults(u.Object, r.schemas[gvk]).(map[string]any)
	}
	typed, err := r.empty(gvk)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read: %w; correct the field", name, err)
	}
	object, ok := typed.(client.Object)
	if !ok {
		return nil, nil, fmt.Errorf("%s: a %s is no object of an API", name, gvk.Kind)
	}
	object.SetManagedFields(nil)
	return []client.Object{object}, nil, nil
}

// setNamespace gives an object of a namespaced kind its default namespace, and refuses one of a cluster-scoped object.
func (r *Reader) setNamespace(u *unstructured.Unstructured, name string) error {
	kind, namespace := u.GroupVersionKind().GroupKind(), u.GetNamespace()
	if !r.cluster[kind] {
		u.SetNamespace(cmp.Or(namespace, r.Namespace, "default"))
		return nil
	}
	if namespace != "" {
		return at("metadata.namespace",
			fmt.Errorf("%s has metadata.namespace %q, but a %s has none; remove it", name, namespace, kind.Kind))
	}
	return nil
}

// neverPlaced reports whether no hub places objects of the kind.
func neverPlaced(gvk schema.GroupVersionKind) bool {
	_, never := kinds.NeverPlaced(gvk.GroupKind())
	return never
}

// leftOut says why an object of a kind that the hub does not know is left out.
func leftOut(name string, gvk schema.GroupVersionKind) string {
	if instead, never := kinds.NeverPlaced(gvk.GroupKind()); never {
		return fmt.Sprintf("%s is left out: no hub places a %s", name, instead)
	}
	return fmt.Sprintf("%s is left out: the hub decides nothing by a %s of %s", name, gvk.Kind, gvk.GroupVersion())
}

// native says why one of Kubernetes' own workloads is left out.
func (r *Reader) native(name string, gvk schema.GroupVersionKind) string {
	if r.BuiltIns == kinds.MembersRunBuiltIns {
		return fmt.Sprintf(
			"%s is left out: each member that a policy selects gets the whole of it, and nothing of it is divided",
			name,
		)
	}
	return fmt.Sprintf(
		"%s is left out: the hub's own cluster runs a %s of %s, and nothing of it goes to members; "+
			"docs/errors.md#runsonhub says what to do",
		name,
		gvk.Kind,
		gvk.GroupVersion(),
	)
}

// empty returns an empty object of a kind; of a kind that is copied to members, metadata alone, as the hub keeps it.
func (r *Reader) empty(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if rule, ok := r.rules[gvk.GroupKind()]; ok && rule.Mode == kinds.Copy && rule.GVK == gvk {
		return rule.New(), nil
	}
	return r.scheme.New(gvk)
}

// knows reports whether the hub decides something by objects of a kind.
func (r *Reader) knows(gvk schema.GroupVersionKind) bool {
	return r.scheme.Recognizes(gvk) || r.older.Recognizes(gvk)
}

// strict refuses fields that the type does not have, and values of another type.
func (r *Reader) strict(u *unstructured.Unstructured) error {
	from := r.scheme
	if r.older.Recognizes(u.GroupVersionKind()) {
		from = r.older
	}
	typed, err := from.New(u.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("%s: %w", title(u), err)
	}
	if mistakes := typeMistakes(title(u), u.Object, typed); len(mistakes) > 0 {
		return errors.Join(mistakes...)
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("%s: %w", title(u), err)
	}
	unknown, err := strictjson.UnmarshalStrict(data, typed)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %s; correct the field", title(u), strings.TrimPrefix(err.Error(), "json: "))
	}
	var mistakes []error
	for _, u2 := range unknown {
		mistakes = append(mistakes, fmt.Errorf("%s has an %w; correct its name, or remove it", title(u), u2))
	}
	return errors.Join(mistakes...)
}

// title names an object in sentences, as far as it names itself.
func title(u *unstructured.Unstructured) string {
	name := u.GetName()
	if namespace := u.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(cmp.Or(u.GetKind(), "the object") + " " + name)
}

// withDefaults returns the value with the defaults of its schema where nothing is given.
func withDefaults(value any, openAPI map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := openAPI["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			if fallback, ok := property["default"]; ok && v[name] == nil {
				v[name] = runtime.DeepCopyJSONValue(fallback)
			}
			if v[name] != nil {
				v[name] = withDefaults(v[name], property)
			}
		}
		if more, ok := openAPI["additionalProperties"].(map[string]any); ok {
			for name := range v {
				if properties[name] == nil {
					v[name] = withDefaults(v[name], more)
				}
			}
		}
	case []any:
		items, _ := openAPI["items"].(map[string]any)
		for i := range v {
			v[i] = withDefaults(v[i], items)
		}
	}
	return value
}
