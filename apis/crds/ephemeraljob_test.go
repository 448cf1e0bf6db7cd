package crds_test

import "testing"

const ephemeralJob = `
apiVersion: apps.kruise.io/v1alpha1
kind: EphemeralJob
metadata:
  name: dump
  namespace: default
spec:
  selector: {matchLabels: {app: web}}
  template:
    ephemeralContainers:
    - name: dump
      image: registry.example/dump:1
`

// ephemeral is a list of one ephemeral container with these fields too.
func ephemeral(fields string) edit {
	return set("spec.template.ephemeralContainers", "[{name: a, image: b, "+fields+"}]")
}

func testEphemeralJobRules(t *testing.T, s *server) {
	const at = "spec.template.ephemeralContainers"
	s.check(t, ephemeralJob, []rule{
		{name: "as it is", edit: named("dump")},
		{name: "all fields", edit: all(set("spec.replicas", "3"), set("spec.parallelism", "2"), set("spec.paused", "true"),
			set("spec.activeDeadlineSeconds", "1"), set("spec.ttlSecondsAfterFinished", "0"))},
		{name: "a container of a later Kubernetes", edit: ephemeral("resources: {}, targetContainerName: web, tty: true, " +
			"env: [{name: A, value: b}], securityContext: {capabilities: {add: [SYS_PTRACE]}}, later: {a: 1}")},
		{name: "an empty selector", edit: set("spec.selector", "{}"), says: []string{"spec.selector", "selector is empty"}},
		{name: "no containers", edit: set(at, "[]"), says: []string{at, "at least 1"}},
		{name: "no list of containers", edit: remove(at), says: []string{at, "Required"}},
		{name: "a container twice", edit: set(at, "[{name: a, image: b}, {name: a, image: c}]"),
			says: []string{at, "two ephemeralContainers have the same name", "give each its own name"}},
		{name: "a container without an image", edit: set(at, "[{name: a}]"),
			says: []string{at + "[0].image", "image is missing"}},
		{name: "a container without a name", edit: set(at, "[{image: a}]"), says: []string{at + "[0].name", "Required"}},
		{name: "a name of no container", edit: set(at, "[{name: A, image: b}]"),
			says: []string{at + "[0].name", "name is no name of a container", "lower-case"}},
		{name: "ports", edit: ephemeral("ports: [{containerPort: 80}]"),
			says: []string{at + "[0].ports", "ports cannot be set", "remove them"}},
		{name: "resources", edit: ephemeral("resources: {limits: {cpu: 1}}"),
			says: []string{at + "[0].resources", "resources cannot be set", "remove them"}},
		{name: "a hook", edit: ephemeral("lifecycle: {preStop: {exec: {command: [a]}}}"),
			says: []string{at + "[0].lifecycle", "lifecycle cannot be set", "no hooks"}},
		{name: "probes", edit: ephemeral("livenessProbe: {}, readinessProbe: {}, startupProbe: {}"),
			says: []string{at + "[0].livenessProbe", at + "[0].readinessProbe", at + "[0].startupProbe",
				"the kubelet does not probe ephemeral containers"}},
		{name: "environment as text", edit: ephemeral("env: x"), says: []string{at + "[0].env", "must be of type array"}},
		{name: "negative numbers", edit: all(set("spec.replicas", "-1"), set("spec.parallelism", "-1"),
			set("spec.activeDeadlineSeconds", "0"), set("spec.ttlSecondsAfterFinished", "-1")),
			says: []string{"spec.replicas", "spec.parallelism", "spec.activeDeadlineSeconds", "spec.ttlSecondsAfterFinished"}},
		{name: "the template changes", first: named("template"), edit: ephemeral("tty: true")},
	})
	t.Run("Defaults", func(t *testing.T) {
		job := s.make(t, ephemeralJob, named("defaults"))
		expectFields(t, "EphemeralJob", job.Object, "spec", "{selector: {matchLabels: {app: web}}, "+
			"parallelism: 1, ttlSecondsAfterFinished: 1800, template: "+
			"{ephemeralContainers: [{name: dump, image: registry.example/dump:1}]}}")
	})
}
