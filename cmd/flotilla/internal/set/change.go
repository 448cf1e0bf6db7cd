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

// target are the containers of a workload. They belong to its object.
type target struct{ containers, initial []*corev1.Container }

// named returns the containers of the names: without names all containers, and no init container.
func (t *target) named(names []string) ([]*corev1.Container, error) {
	if len(names) == 0 || slices.Contains(names, all) {
		return t.containers, nil
	}
	var found []*corev1.Container
	var mistakes []error
	for _, name := range names {
		both := slices.Concat(t.containers, t.initial)
		i := slices.IndexFunc(both, func(c *corev1.Container) bool { return c.Name == name })
		if i < 0 {
			mistakes = append(mistakes, fmt.Errorf("it has no container %s: it has %s", name, namesOf(both)))
			continue
		}
		found = append(found, both[i])
	}
	return found, errors.Join(mistakes...)
}

func namesOf(containers []*corev1.Container) string {
	var names []string
	for _, c := range containers {
		names = append(names, c.Name)
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
				c.Image = e.image
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
			c.Resources.Requests = merged(c.Resources.Requests, asked)
			c.Resources.Limits = merged(c.Resources.Limits, most)
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
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// merged returns a list with changes in it; a quantity of 0 removes a resource.
func merged(list, changes corev1.ResourceList) corev1.ResourceList {
	if len(changes) == 0 {
		return list
	}
	out := corev1.ResourceList{}
	for name, quantity := range list {
		out[name] = quantity
	}
	for name, quantity := range changes {
		if quantity.IsZero() {
			delete(out, name)
			continue
		}
		out[name] = quantity
	}
	if len(out) == 0 {
		return nil
	}
	return out
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
			c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return slices.Contains(removed, v.Name) })
			for _, v := range set {
				// Of several entries with a name the container gets the last one.
				i := len(c.Env) - 1
				for i >= 0 && c.Env[i].Name != v.Name {
					i--
				}
				if i < 0 {
					c.Env = append(c.Env, v)
					continue
				}
				c.Env[i] = v
			}
			if len(c.Env) == 0 {
				c.Env = nil
			}
		}
		return err
	}, nil
}
