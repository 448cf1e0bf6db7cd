package set

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// all names every container.
const all = "*"

// target are the containers of a workload, as trees. They belong to its object, so that a change keeps the fields that
// this program does not know.
type target struct{ containers, initial []map[string]any }

// named returns the containers of the names: without names all containers, and no init container.
func (t *target) named(names []string) ([]map[string]any, error) {
	if len(names) == 0 || slices.Contains(names, all) {
		if len(t.containers) == 0 {
			return nil, errors.New("it has no containers")
		}
		return t.containers, nil
	}
	var found []map[string]any
	var mistakes []error
	for _, name := range names {
		both := slices.Concat(t.containers, t.initial)
		i := slices.IndexFunc(both, func(c map[string]any) bool { return c["name"] == name })
		if i < 0 {
			mistakes = append(mistakes, fmt.Errorf("it has no container %s: it has %s", name, namesOf(both)))
			continue
		}
		found = append(found, both[i])
	}
	return found, errors.Join(mistakes...)
}

func namesOf(containers []map[string]any) string {
	var names []string
	for _, c := range containers {
		names = append(names, fmt.Sprint(c["name"]))
	}
	return strings.Join(names, ", ")
}

// images returns the change of CONTAINER=IMAGE arguments.
func images(args []string) (change, error) {
	type entry struct{ container, image string }
	var entries []entry
	for _, arg := range args {
		name, image, ok := strings.Cut(arg, "=")
		if !ok || name == "" || image == "" || strings.ContainsAny(image, " \t\n") {
			return nil, console.Usagef("%q is no image of a container: write CONTAINER=IMAGE, as in main=nginx:1.27", arg)
		}
		entries = append(entries, entry{name, image})
	}
	return func(t *target) error {
		var mistakes []error
		for _, e := range entries {
			found, err := t.named([]string{e.container})
			if err != nil {
				mistakes = append(mistakes, err)
			}
			for _, c := range found {
				c["image"] = e.image
			}
		}
		return errors.Join(mistakes...)
	}, nil
}

// resources returns the change of --requests and --limits.
func resources(containers []string, requests, limits string) (change, error) {
	asked, err := quantities("--requests", requests)
	if err != nil {
		return nil, err
	}
	most, err := quantities("--limits", limits)
	if err != nil {
		return nil, err
	}
	if len(asked)+len(most) == 0 {
		return nil, console.Usagef("nothing to set: give --requests or --limits, as in --requests cpu=200m,memory=256Mi")
	}
	return func(t *target) error {
		found, err := t.named(containers)
		for _, c := range found {
			merge(c, "requests", asked)
			merge(c, "limits", most)
		}
		return err
	}, nil
}

// quantities reads NAME=QUANTITY,….
func quantities(flag, text string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	if text == "" {
		return list, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		quantity, err := resource.ParseQuantity(value)
		if !ok || name == "" || err != nil || quantity.Sign() < 0 {
			return nil, console.Usagef("%s %q: %q is no quantity of a resource; write it as in cpu=200m", flag, text, part)
		}
		if !isResource(name) && !quantity.IsZero() { // one that is there by mistake can be removed
			return nil, console.Usagef("%s %q: there is no resource %q: it can be cpu, memory, ephemeral-storage, "+
				"hugepages-SIZE, or one with a domain, as in example.com/gpu", flag, text, name)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// isResource reports whether containers can have a resource of the name.
func isResource(name string) bool {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) || strings.Contains(name, "/")
}

// merge makes changes in the requests or limits of a container; a quantity of 0 removes a resource.
func merge(container map[string]any, field string, changes corev1.ResourceList) {
	if len(changes) == 0 {
		return
	}
	resources := below(container, "resources")
	list := below(resources, field)
	for name, quantity := range changes {
		if quantity.IsZero() {
			delete(list, string(name))
			continue
		}
		if now, err := resource.ParseQuantity(fmt.Sprint(list[string(name)])); err != nil || now.Cmp(quantity) != 0 {
			list[string(name)] = quantity.String()
		}
	}
	put(resources, field, list)
	put(container, "resources", resources)
}

// below returns the object in a field, an empty one if there is none.
func below(tree map[string]any, field string) map[string]any {
	if inner, ok := tree[field].(map[string]any); ok {
		return inner
	}
	return map[string]any{}
}

// put sets the object in a field. An empty one is left out.
func put(tree map[string]any, field string, inner map[string]any) {
	if len(inner) > 0 {
		tree[field] = inner
		return
	}
	delete(tree, field)
}

// environment returns the change of NAME=VALUE and NAME- arguments.
func environment(containers, args []string) (change, error) {
	set, removed := []corev1.EnvVar{}, []string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			name, ok = strings.CutSuffix(arg, "-")
			removed = append(removed, name)
		} else {
			set = append(set, corev1.EnvVar{Name: name, Value: value})
		}
		if !ok || len(validation.IsEnvVarName(name)) > 0 {
			return nil, console.Usagef("%q is no variable: write NAME=VALUE, or NAME- to remove one", arg)
		}
	}
	return func(t *target) error {
		found, err := t.named(containers)
		for _, c := range found {
			setEnv(c, set, removed)
		}
		return err
	}, nil
}

// setEnv sets and removes environment variables of a container.
func setEnv(container map[string]any, set []corev1.EnvVar, removed []string) {
	list, _ := container["env"].([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return slices.Contains(removed, nameOf(v)) })
	for _, v := range set {
		entry := map[string]any{"name": v.Name, "value": v.Value}
		// Of several entries with a name the container gets the last one.
		i := len(list) - 1
		for i >= 0 && nameOf(list[i]) != v.Name {
			i--
		}
		if i < 0 {
			list = append(list, entry)
			continue
		}
		list[i] = entry
	}
	if len(list) > 0 {
		container["env"] = list
		return
	}
	delete(container, "env")
}

// nameOf returns the name of an entry of a list, "" if it has none.
func nameOf(entry any) string {
	object, _ := entry.(map[string]any)
	name, _ := object["name"].(string)
	return name
}
