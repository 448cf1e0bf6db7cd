package strict_test

import (
	"slices"
	"testing"

	"github.com/flotilla-dev/flotilla/apis/apps/strict"
)

func TestTemplates(t *testing.T) {
	const bad = `{"spec":{"containers":"x","nodename":"n"}}`
	for _, row := range []struct {
		kind, object, mistake, unknown string
	}{
		{"CloneSet", `{"spec":{"replicas":"x","template":` + bad + `}}`,
			"spec.template.spec.containers", "spec.template.spec.nodename"},
		{"CloneSet", `{"spec":{"volumeClaimTemplates":[{"spec":{"volumeName":5,"size":1}}]}}`,
			"spec.volumeClaimTemplates[0].spec.volumeName", "spec.volumeClaimTemplates[0].spec.size"},
		{"StatefulSet", `{"spec":{"replicas":"x","template":` + bad + `}}`,
			"spec.template.spec.containers", "spec.template.spec.nodename"},
		{"CloneSet", `{}`, "", ""},
		{"CloneSet", `{"spec":5}`, "", ""},
		{"CloneSet", `{"spec":{"template":` + good + `}}`, "", ""},
		{"UnitedDeployment", `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":` + bad + `}}}}}`,
			"spec.template.cloneSetTemplate.spec.template.spec.containers",
			"spec.template.cloneSetTemplate.spec.template.spec.nodename"},
		{"UnitedDeployment", `{"spec":{"template":{"advancedStatefulSetTemplate":{"spec":{"template":` + bad + `}}}}}`,
			"spec.template.advancedStatefulSetTemplate.spec.template.spec.containers",
			"spec.template.advancedStatefulSetTemplate.spec.template.spec.nodename"},
		{"UnitedDeployment", `{"spec":{"template":{"statefulSetTemplate":{"spec":{"serviceName":5,"servicename":"x"}}}}}`,
			"spec.template.statefulSetTemplate.spec.serviceName", "spec.template.statefulSetTemplate.spec.servicename"},
		{"UnitedDeployment", `{"spec":{"template":{"deploymentTemplate":{"metadata":{"name":5},"spec":{"pause":true}}}}}`,
			"spec.template.deploymentTemplate.metadata.name", "spec.template.deploymentTemplate.spec.pause"},
		{"BroadcastJob", `{"spec":{"template":` + bad + `}}`,
			"spec.template.spec.containers", "spec.template.spec.nodename"},
		{"BroadcastJob", `{"spec":{"flotilla":{"batches":{"checks":[{"name":"a","pod":{"template":` + bad + `}}]}}}}`,
			"spec.flotilla.batches.checks[a].pod.template.spec.containers",
			"spec.flotilla.batches.checks[a].pod.template.spec.nodename"},
		{"SidecarSet", `{"spec":{"containers":[{"name":"a","args":5,"Image":"i"}]}}`,
			"spec.containers[0].args", "spec.containers[0].Image"},
		{"SidecarSet", `{"spec":{"initContainers":[{"name":"a","env":[{"value":5,"v":1}]}]}}`,
			"spec.initContainers[0].env[0].value", "spec.initContainers[0].env[0].v"},
		{"SidecarSet", `{"spec":{"volumes":[{"name":5,"emptydir":{}}]}}`, "spec.volumes[0].name", "spec.volumes[0].emptydir"},
		{"SidecarSet", `{"spec":{"containers":[{"name":"a","podInjectPolicy":"x","upgradeStrategy":{"upgradeType":"y"},` +
			`"shareVolumePolicy":{},"shareVolumeDevicePolicy":{},"transferEnv":[],"resourcesPolicy":{"a":1}}]}}`, "", ""},
		{"WorkloadSpread", `{"spec":{"template":` + bad + `}}`, "", ""},
	} {
		found := strict.Templates(row.kind, []byte(row.object))
		var mistakes []string
		for _, mistake := range found.Mistakes {
			mistakes = append(mistakes, mistake.Field)
		}
		if !slices.Equal(mistakes, paths(row.mistake)) || !slices.Equal(found.Unknown, paths(row.unknown)) {
			t.Errorf("%s %s: mistakes %v, unknown %q", row.kind, row.object, found.Mistakes, found.Unknown)
		}
	}
}

func paths(path string) []string {
	if path == "" {
		return nil
	}
	return []string{path}
}
