package inplace

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestCase8Batches: in which batches containers get their images, by their priorities and the pod's order. A container
// is written name=priority, or name alone without one.
func TestCase8Batches(t *testing.T) {
	for _, tt := range []struct {
		name, containers, annotation, changed, want string
	}{
		{"no priority at all", "a b", "", "a b", "a,b"},
		{"one above the others", "main sidecar=10", "", "main sidecar", "sidecar | main"},
		{"one below the others", "a=-1 b c", "", "a b c", "b,c | a"},
		{"0 is as none", "a b=0", "", "a b", "a,b"},
		{"no whole number is as none", "a b=x c=1.5 d=", "", "a b c d", "a,b,c,d"},
		{"only what changes counts", "a b=10 c", "", "a c", "a,c"},
		{"of two variables the last one holds", "a=5=-5 b", "", "a b", "b | a"},
		{"equal ones go together", "a=3 b=7 c=3 d=7", "", "a b c d", "b,d | a,c"},
		{"the order of the list", "a b c", "Ordered", "a b c", "a | b | c"},
		{"the order of the list holds over priorities", "a b=10 c=-3", "Ordered", "a b c", "a | b | c"},
		{"the order of the list, of what changes", "a b c", "Ordered", "b c", "b | c"},
		{"another value of the annotation is none", "a b=1", "ordered", "a b", "b | a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if tt.annotation != "" {
				pod.Annotations = map[string]string{"apps.kruise.io/container-launch-priority": tt.annotation}
			}
			for _, text := range strings.Fields(tt.containers) {
				parts := strings.Split(text, "=")
				c := corev1.Container{Name: parts[0], Image: "app:1"}
				for _, value := range parts[1:] {
					c.Env = append(c.Env, corev1.EnvVar{Name: "KRUISE_CONTAINER_PRIORITY", Value: value})
				}
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			left := newWork()
			for _, name := range strings.Fields(tt.changed) {
				left.images[name] = "app:2"
			}
			var got []string
			for len(left.images) > 0 && len(got) <= len(pod.Spec.Containers) {
				batch, rest, names := left.split(pod)
				if len(batch.images) != len(names) || len(batch.images)+len(rest.images) != len(left.images) {
					t.Fatalf("of %v the batch %v leaves %v", left.images, batch.images, rest.images)
				}
				got = append(got, strings.Join(names, ","))
				left = rest
			}
			if text := strings.Join(got, " | "); text != tt.want {
				t.Errorf("batches %s, want %s", text, tt.want)
			}
		})
	}
}
