package set

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// containers are main and proxy, with an init container. This program does not know the field novel.
func containers() *target {
	variable := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	return &target{
		containers: []map[string]any{
			{"name": "main", "image": "web:1", "env": []any{variable("A", "1"), variable("B", "2")}, "novel": "x"},
			{"name": "proxy", "image": "proxy:1"},
		},
		initial: []map[string]any{{"name": "setup", "image": "setup:1"}},
	}
}

func TestChanges(t *testing.T) {
	image := func(args ...string) func() (change, error) {
		return func() (change, error) { return images(args) }
	}
	env := func(names []string, args ...string) func() (change, error) {
		return func() (change, error) { return environment(names, args) }
	}
	size := func(names []string, requests, limits string) func() (change, error) {
		return func() (change, error) { return resources(names, requests, limits) }
	}
	for _, tt := range []struct {
		name  string
		read  func() (change, error)
		want  string // what differs, or what the error says
		usage bool
	}{
		{"an image", image("main=web:2"), "main web:2 A=1 B=2", false},
		{"an image of an init container", image("setup=setup:2"), "setup setup:2", false},
		{"all images", image("*=web:2"), "main web:2 A=1 B=2|proxy web:2", false},
		{"two wrong containers", image("a=web:2", "b=web:2"),
			"it has no container a: it has main, proxy, setup\nit has no container b: it has main, proxy, setup", false},
		{"no image", image("main="), `"main=" is no image of a container`, true},
		{"no container", image("web:2"), `"web:2" is no image of a container`, true},
		{"a variable that is there", env([]string{"main"}, "B=3"), "main web:1 A=1 B=3", false},
		{"a variable in all", env(nil, "C=x=y"), "main web:1 A=1 B=2 C=x=y|proxy proxy:1 C=x=y", false},
		{"a variable removed", env(nil, "A-"), "main web:1 B=2", false},
		{"no variable", env(nil, "A"), `"A" is no variable`, true},
		{"no name", env(nil, "=1"), `"=1" is no variable`, true},
		{"requests", size([]string{"proxy"}, "cpu=200m", ""), "proxy proxy:1 cpu=200m", false},
		{"nothing", size(nil, "", ""), "nothing to set", true},
		{"no quantity", size(nil, "cpu=much", ""), `--requests "cpu=much": "cpu=much" is no quantity`, true},
		{"a mistyped resource", size(nil, "", "memroy=1Gi"), `there is no resource "memroy": it can be cpu, memory`, true},
		{"a domain, and huge pages", size([]string{"proxy"}, "cpu=1,example.com/gpu=1,hugepages-2Mi=4Mi", ""),
			"proxy proxy:1 cpu=1", false},
		{"below zero", size(nil, "cpu=-1", ""), "is no quantity", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tt.read()
			got := containers()
			if err == nil {
				err = c(got)
			}
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) || errors.Is(err, console.ErrUsage) != tt.usage {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			before := map[string]string{}
			for _, c := range append(containers().containers, containers().initial...) {
				before[nameOf(c)] = text(c)
			}
			var changed []string
			for _, c := range append(got.containers, got.initial...) {
				if text(c) != before[nameOf(c)] {
					changed = append(changed, text(c))
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(changed, "|")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func text(c map[string]any) string {
	parts := []string{fmt.Sprint(c["name"]), fmt.Sprint(c["image"])}
	list, _ := c["env"].([]any)
	for _, v := range list {
		entry := v.(map[string]any)
		parts = append(parts, fmt.Sprint(entry["name"])+"="+fmt.Sprint(entry["value"]))
	}
	if cpu, ok := below(below(c, "resources"), "requests")["cpu"]; ok {
		parts = append(parts, "cpu="+fmt.Sprint(cpu))
	}
	return strings.Join(parts, " ")
}

// TestMerge keeps resources that are not named, and removes those of a quantity of 0.
func TestMerge(t *testing.T) {
	quantity := resource.MustParse
	c := map[string]any{"resources": map[string]any{"claims": []any{"gpu"},
		"requests": map[string]any{"cpu": "1", "memory": "1024Mi"}}}
	merge(c, "requests", corev1.ResourceList{"cpu": quantity("0"), "memory": quantity("1Gi"), "pods": quantity("2")})
	want := map[string]any{"resources": map[string]any{"claims": []any{"gpu"},
		"requests": map[string]any{"memory": "1024Mi", "pods": "2"}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}
	if merge(c, "requests", corev1.ResourceList{"cpu": quantity("0")}); len(c) != 0 {
		t.Errorf("an empty list is left: %v", c)
	}
}

// TestNoContainers: a change of all containers of a workload that has none is a mistake.
func TestNoContainers(t *testing.T) {
	c, err := images([]string{"*=web:2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c(&target{}); err == nil || !strings.Contains(err.Error(), "has no containers") {
		t.Errorf("%v", err)
	}
}
