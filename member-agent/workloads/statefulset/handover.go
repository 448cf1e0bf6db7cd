package statefulset

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/handover"
)

// handOver gives a pod that is about to be created the last values of the pod that had its ordinal in another member:
// as annotations, and as environment variables of all containers. They come first, so that the template's own
// variables, commands and arguments can refer to them, and replace variables of the same name, which are defaults then.
//
// They are no part of the revision: a pod's template is known by the label of its revision, and updates in place change
// what differs between two templates.
func handOver(pod *corev1.Pod, values map[string]string) {
	if len(values) == 0 {
		return
	}
	variables := make([]corev1.EnvVar, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pod.Annotations[topology.HandedOverPrefix+name] = values[name]
		variables = append(variables, corev1.EnvVar{Name: handover.Variable(name), Value: literal(values[name])})
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			own := slices.DeleteFunc(containers[i].Env, func(e corev1.EnvVar) bool {
				return slices.ContainsFunc(variables, func(v corev1.EnvVar) bool { return v.Name == e.Name })
			})
			containers[i].Env = slices.Concat(variables, own)
		}
	}
}

// literal returns a value as an environment variable has to have it: nothing in it refers to another variable, and it
// has no NUL, with which no container starts.
func literal(value string) string { return strings.NewReplacer("$", "$$", "\x00", "").Replace(value) }
