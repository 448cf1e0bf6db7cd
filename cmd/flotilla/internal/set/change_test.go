package set

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// containers are main and proxy, with an init container.
func containers() *target {
	return &target{
		containers: []*corev1.Container{
			{Name: "main", Image: "web:1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}},
			{Name: "proxy", Image: "proxy:1"},
		},
		initial: []*corev1.Container{{Name: "setup", Image: "setup:1"}},
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
				before[c.Name] = text(c)
			}
			var changed []string
			for _, c := range append(got.containers, got.initial...) {
				if text(c) != before[c.Name] {
					changed = append(changed, text(c))
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(changed, "|")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func text(c *corev1.Container) string {
	parts := []string{c.Name, c.Image}
	for _, v := range c.Env {
		parts = append(parts, v.Name+"="+v.Value)
	}
	if cpu, ok := c.Resources.Requests[corev1.ResourceCPU]; ok {
		parts = append(parts, "cpu="+cpu.String())
	}
	return strings.Join(parts, " ")
}

// TestMerged keeps resources that are not named, and removes those of a quantity of 0.
func TestMerged(t *testing.T) {
	quantity := resource.MustParse
	list := corev1.ResourceList{"cpu": quantity("1"), "memory": quantity("1Gi")}
	got := merged(list, corev1.ResourceList{"cpu": quantity("0"), "pods": quantity("2")})
	want := corev1.ResourceList{"memory": quantity("1Gi"), "pods": quantity("2")}
	if diff := cmp.Diff(want, got); diff != "" || len(list) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if merged(corev1.ResourceList{"cpu": quantity("1")}, corev1.ResourceList{"cpu": quantity("0")}) != nil {
		t.Error("an empty list is left")
	}
}
