package crds_test

import "testing"

const persistentPodState = `
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata:
  namespace: default
  name: db
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  persistentPodAnnotations: [{key: example.org/ip}]
`

// testPersistentPodStateRules leaves out the field that the versions name differently; conversion tests have it.
func testPersistentPodStateRules(t *testing.T, s *server) {
	s.check(t, persistentPodState, []rule{
		{name: "annotations alone", edit: named("db")},
		{name: "kept until the workload is deleted",
			edit: set("spec.persistentPodStateRetentionPolicy", "WhenDeleted")},
		{name: "released", edit: set("spec.flotilla", "{missingNodes: Release}")},
		{name: "nothing", edit: remove("spec.persistentPodAnnotations"), says: []string{"spec", "nothing is kept: give"}},
		{name: "no annotation", edit: set("spec.persistentPodAnnotations", "[]"), says: []string{"nothing is kept"}},
		{name: "an empty key", edit: set("spec.persistentPodAnnotations", `[{key: ""}]`), says: []string{"key is empty"}},
		{name: "no target", edit: remove("spec.targetRef"), says: []string{"spec.targetRef"}},
		{name: "a target without a version", edit: set("spec.targetRef.apiVersion", "a/b/c"),
			says: []string{"apiVersion must be a group and a version"}},
		{name: "the target changes", first: named("target"), edit: set("spec.targetRef.name", "other"),
			says: []string{"spec.targetRef", "targetRef cannot change", "make another"}},
		{name: "unknown policy", edit: set("spec.persistentPodStateRetentionPolicy", "Never"),
			says: []string{"persistentPodStateRetentionPolicy", `"Never"`, "WhenScaled"}},
		{name: "unknown answer to missing nodes", edit: set("spec.flotilla", "{missingNodes: Never}"),
			says: []string{"spec.flotilla.missingNodes", `"Never"`, "Release"}},
	})
}
