package crds_test

import "testing"

const sidecarSet = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata:
  name: logs
spec:
  selector:
    matchLabels: {app: web}
  containers:
  - name: log
    image: log:1
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`

func testSidecarSetRules(t *testing.T, s *server) {
	s.check(t, sidecarSet, sidecarSetObjects())
	s.check(t, sidecarSet, sidecarSetUpdates())
}

func sidecarSetObjects() []rule {
	const (
		containers, inits = "spec.containers", "spec.initContainers"
		strategy          = "spec.updateStrategy"
	)
	return []rule{
		{name: "as it is", edit: named("logs")},
		{name: "everything", edit: all(
			set(containers, `[{name: log, image: "log:1", podInjectPolicy: AfterAppContainer,
				upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: empty}, shareVolumePolicy: {type: enabled},
				transferEnv: [{sourceContainerName: web, envNames: [A]}, {envName: B, sourceContainerNameFrom: {fieldRef:
					{fieldPath: "metadata.labels['main']"}}}],
				resourcesPolicy: {targetContainersMode: max, resourcesExpr: {limits: {cpu: cpu*50%}}}}]`),
			set(inits, `[{name: native, image: i, restartPolicy: Always, resourcesPolicy: {resourcesExpr: {}}}]`),
			set("spec.injectionStrategy", "{revision: {customVersion: a, policy: Partial}}"),
			set("spec.patchPodMetadata", `[{annotations: {a: b}, patchPolicy: MergePatchJson}]`),
			set(strategy, `{selector: {matchLabels: {a: b}}, maxUnavailable: 20%, scatterStrategy: [{key: a, value: "*"}]}`))},
		{name: "a name with a dot", edit: named("a.b"), says: []string{"no dots", "choose another name"}},
		{name: "no selector", edit: remove("spec.selector"), says: []string{"spec.selector", "selects no pods"}},
		{name: "an empty selector", edit: set("spec.selector", "{matchLabels: {}}"),
			says: []string{"spec.selector", "selects no pods"}},
		{name: "partition and selector", edit: set(strategy, "{selector: {matchLabels: {a: b}}, partition: 1}"),
			says: []string{strategy + ".partition", "give one of them"}},
		{name: "a negative partition", edit: set(strategy, "{partition: -1}"),
			says: []string{strategy + ".partition", "is -1"}},
		{name: "none unavailable", edit: set(strategy, "{maxUnavailable: 0}"),
			says: []string{strategy + ".maxUnavailable", "is 0", "paused"}},
		{name: "no name", edit: set(containers, "[{image: i}]"), says: []string{containers, "name", "Required"}},
		{name: "a name twice", edit: set(containers, "[{name: a}, {name: a}]"), says: []string{containers, "Duplicate"}},
		{name: "no empty image", edit: set(containers, "[{name: a, image: i, upgradeStrategy: {upgradeType: HotUpgrade}}]"),
			says: []string{"hotUpgradeEmptyImage is missing"}},
		{name: "two sources", edit: set(containers, "[{name: a, transferEnv: [{sourceContainerName: b, envName: A, "+
			"sourceContainerNameFrom: {}}]}]"), says: []string{"transferEnv", "give either"}},
		{name: "no variables", edit: set(containers, "[{name: a, transferEnv: [{sourceContainerName: b}]}]"),
			says: []string{"transferEnv", "name the variables"}},
		{name: "another field", edit: set(containers, "[{name: a, transferEnv: [{envName: A, "+
			"sourceContainerNameFrom: {fieldRef: {fieldPath: metadata.name}}}]}]"), says: []string{"fieldPath", "neither"}},
		{name: "resources twice", edit: set(containers, "[{name: a, resources: {limits: {cpu: 1}}, resourcesPolicy: "+
			"{resourcesExpr: {}}}]"), says: []string{"resourcesPolicy", "remove one of them"}},
		{name: "resourcesPolicy of an init container", edit: set(inits, "[{name: i, resourcesPolicy: {resourcesExpr: {}}}]"),
			says: []string{inits, "restartPolicy Always only"}},
		{name: "a hot init container", edit: set(inits, "[{name: i, upgradeStrategy: {upgradeType: HotUpgrade, "+
			"hotUpgradeEmptyImage: e}}]"), says: []string{inits, "not for init containers"}},
		{name: "a custom version that is no label", edit: set("spec.customVersion", "a/b"),
			says: []string{"spec.customVersion", "no value of a label"}},
		{name: "an own knob", edit: all(named("recreate"), set("spec.flotilla", "{recreate: IfNeeded}"))},
		{name: "no such knob", edit: set("spec.flotilla", "{recreate: Always}"), says: []string{"spec.flotilla.recreate"}},
		{name: "no revision", edit: set("spec.injectionStrategy", "{revision: {}}"), says: []string{"names none"}},
	}
}

func sidecarSetUpdates() []rule {
	const containers = "spec.containers"
	const hot = "[{name: log, image: i, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: e}}]"
	return []rule{
		{name: "another image", first: named("image"), edit: set(containers, `[{name: log, image: "log:2"}]`)},
		{name: "a container goes", first: named("removed"), edit: remove(containers)},
		{name: "a container comes", first: named("added"), edit: set(containers, "[{name: log, image: i}, {name: b}]"),
			says: []string{containers, "cannot be added", "another SidecarSet"}},
		{name: "an init container comes", first: named("init"), edit: set("spec.initContainers", "[{name: i, image: i}]")},
		{name: "it becomes hot", first: named("hot"), edit: set(containers, hot),
			says: []string{"upgradeStrategy", "upgradeType cannot change"}},
		{name: "it stays hot", first: all(named("stays"), set(containers, hot)),
			edit: all(named("stays"), set(containers, hot), set("spec.revisionHistoryLimit", "3"))},
		{name: "no revisions", edit: set("spec.revisionHistoryLimit", "0"), says: []string{"revisionHistoryLimit"}},
	}
}
