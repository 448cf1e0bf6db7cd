package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// Foreign says which file of another tool a document is; "" for none.
type Foreign string

// What a folder with manifests holds beside them.
const (
	ForeignKustomization Foreign = "kustomization"
	ForeignChart         Foreign = "chart"
	ForeignTemplate      Foreign = "template"
	ForeignPatch         Foreign = "patch"
	ForeignOther         Foreign = "other"
)

// notObject returns the mistake of a document that holds no mapping.
func notObject(value any) error {
	m := &Mistake{
		Foreign: ForeignOther,
		Problem: fmt.Sprintf(
			"this is no object, but %s: a document holds apiVersion, kind and metadata; correct it",
			shown(value),
		),
	}
	list, _ := value.([]any)
	if len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool {
		step, _ := item.(map[string]any)
		return step["op"] == nil || step["path"] == nil
	}) {
		m.Foreign, m.Problem = ForeignPatch, "this is no object, but a JSON patch; plan the object that it is made for"
	}
	return m
}

// foreign returns a mistake if a document is no object of an API. It cannot tell from a document alone that it is the
// values of a chart.
func (r *Reader) foreign(u *unstructured.Unstructured) error {
	version, kind := u.GetAPIVersion(), u.GetKind()
	gvk := u.GroupVersionKind()
	_, hasMeta := u.Object["metadata"].(map[string]any)
	foreign := func(what Foreign, problem string) error { return &Mistake{Foreign: what, Problem: problem} }
	for _, text := range []string{version, kind, u.GetName(), u.GetNamespace()} {
		if strings.Contains(text, "{{") {
			return foreign(ForeignTemplate, fmt.Sprintf("this is a template, %q is not filled in", text))
		}
	}
	switch {
	case strings.HasPrefix(version, "kustomize.config.k8s.io/"):
		return foreign(ForeignKustomization, "this is a kustomization, and no object")
	case isChart(u):
		return foreign(ForeignChart, "this describes a Helm chart, and is no object")
	case kind == "" && version == "" && !hasMeta:
		return foreign(ForeignOther, "the object has no apiVersion or no kind; give it both")
	case kind == "" && !hasMeta:
		return foreign(ForeignOther, fmt.Sprintf("the object of %s has no kind; give it one", version))
	case version == "" && !hasMeta && !r.hasKind(kind):
		return foreign(ForeignOther, fmt.Sprintf("the %s has no apiVersion; give it one", kind))
	case isPatch(u.Object):
		return foreign(
			ForeignPatch,
			fmt.Sprintf("%s is a patch, as its $patch says, and no object; plan the object that it is made for", title(u)),
		)
	case version != "" && kind != "" && u.GetName() == "" && !r.knows(gvk) && !kinds.IsBuiltIn(gvk.GroupKind()):
		return foreign(ForeignOther, fmt.Sprintf("%s has no metadata.name; give it one", title(u)))
	}
	return nil
}

// isChart reports whether a document is the Chart.yaml of a Helm chart.
func isChart(u *unstructured.Unstructured) bool {
	version := u.GetAPIVersion()
	return u.GetKind() == "" && u.Object["metadata"] == nil && u.Object["version"] != nil && u.Object["name"] != nil &&
		(version == "v1" || version == "v2")
}

// hasKind reports whether the hub decides something by objects of a kind, in any group.
func (r *Reader) hasKind(kind string) bool {
	for placed := range r.rules {
		if placed.Kind == kind {
			return true
		}
	}
	for gvk := range r.schemas {
		if gvk.Kind == kind {
			return true
		}
	}
	return slices.ContainsFunc([]string{"apps", "batch"}, func(group string) bool {
		return kinds.IsBuiltIn(schema.GroupKind{Group: group, Kind: kind})
	})
}

// isPatch reports whether an object has a directive of a strategic merge patch outside of the patches of subsets.
func isPatch(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v["$patch"]; ok {
			return true
		}
		for key, field := range v {
			if key != "patch" && isPatch(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, isPatch)
	}
	return false
}

// asTemplate marks the mistake of a text that is no YAML because it is a template of Go.
func asTemplate(m *Mistake, text string) *Mistake {
	if strings.Contains(text, "{{") && strings.Contains(text, "}}") {
		m.Foreign = ForeignTemplate
		m.Problem = "this is a template, and no YAML before it is rendered"
	}
	return m
}
