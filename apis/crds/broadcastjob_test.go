package crds_test

import (
	"strings"
	"testing"
)

const broadcastJob = `
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata:
  name: repair
  namespace: default
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: repair
        image: registry.example/repair:1
`

func testBroadcastJobRules(t *testing.T, s *server) {
	const batches = "spec.flotilla.batches"
	checks := func(check string) edit { return set(batches, "{size: 1, checks: ["+check+"]}") }
	s.check(t, broadcastJob, []rule{
		{name: "as it is", edit: named("repair")},
		{name: "name of 63", edit: named(strings.Repeat("a", 63))},
		{name: "name of 64", edit: named(strings.Repeat("a", 64)),
			says: []string{"has 64 characters", "at most 63", "choose a shorter name"}},
		{name: "no restartPolicy", edit: remove("spec.template.spec.restartPolicy")},
		{name: "restartPolicy Always", edit: set("spec.template.spec.restartPolicy", "Always"),
			says: []string{"spec.template.spec.restartPolicy", "must be Never or OnFailure"}},
		{name: "a deadline of the pods", edit: set("spec.template.spec.activeDeadlineSeconds", "60")},
		{name: "no containers", edit: remove("spec.template.spec.containers"), says: []string{"has no containers"}},
		{name: "a label of ours", edit: set("spec.template.metadata.labels", "{broadcastjob-name: a}"),
			says: []string{"spec.template", "broadcastjob-name and broadcastjob-controller-uid", "remove them"}},
		{name: "a label of the user", edit: set("spec.template.metadata.labels", "{app: a}")},
		{name: "the template may change", first: named("may-change"),
			edit: set("spec.template.spec.containers", "[{name: a, image: b}]")},

		{name: "parallelism of 10%", edit: set("spec.parallelism", "10%")},
		{name: "no parallelism", edit: set("spec.parallelism", "0")},
		{name: "negative parallelism", edit: set("spec.parallelism", "-1"),
			says: []string{"spec.parallelism", "parallelism is -1", "integer of 0 or more"}},
		{name: "half", edit: set("spec.parallelism", "half"), says: []string{"parallelism is half"}},
		{name: "a deadline and a time to live",
			edit: set("spec.completionPolicy", "{activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 0}")},
		{name: "Never", edit: set("spec.completionPolicy", "{type: Never}")},
		{name: "Never with a deadline", edit: set("spec.completionPolicy", "{type: Never, activeDeadlineSeconds: 60}"),
			says: []string{"spec.completionPolicy.activeDeadlineSeconds", "does not go with type Never", "remove it"}},
		{name: "Never with a time to live",
			edit: set("spec.completionPolicy", "{type: Never, ttlSecondsAfterFinished: 60}"),
			says: []string{"spec.completionPolicy.ttlSecondsAfterFinished", "does not go with type Never"}},
		{name: "unknown completion policy", edit: set("spec.completionPolicy", "{type: Maybe}"),
			says: []string{"spec.completionPolicy.type", `"Maybe"`, "Never"}},
		{name: "negative deadline", edit: set("spec.completionPolicy", "{activeDeadlineSeconds: -1}"),
			says: []string{"activeDeadlineSeconds", "-1"}},
		{name: "negative time to live", edit: set("spec.completionPolicy", "{ttlSecondsAfterFinished: -1}"),
			says: []string{"ttlSecondsAfterFinished", "-1"}},
		{name: "a failure policy", edit: set("spec.failurePolicy", "{type: Pause, restartLimit: 3}")},
		{name: "unknown failure policy", edit: set("spec.failurePolicy", "{type: Retry}"),
			says: []string{"spec.failurePolicy.type", `"Retry"`, "FailFast"}},
		{name: "negative restartLimit", edit: set("spec.failurePolicy", "{restartLimit: -1}"),
			says: []string{"spec.failurePolicy.restartLimit", "-1"}},

		{name: "batches",
			edit: set(batches, "{size: 10%, orderBy: topology.kubernetes.io/zone, soak: 10m, maxRestarts: 0}")},
		{name: "batches without a size", edit: set(batches, "{soak: 10m}"), says: []string{batches + ".size", "Required"}},
		{name: "batches of nothing", edit: set(batches, "{size: 0}"),
			says: []string{batches + ".size", "size is 0", "a number of nodes from 1", "correct it"}},
		{name: "batches of 0%", edit: set(batches, `{size: "0%"}`), says: []string{"size is 0%"}},
		{name: "batches of 101%", edit: set(batches, "{size: 101%}"), says: []string{"size is 101%"}},
		{name: "orderBy of two words", edit: set(batches, "{size: 1, orderBy: the zone}"),
			says: []string{batches + ".orderBy", "orderBy the zone is no key of a label", "topology.kubernetes.io/zone"}},
		{name: "soak as a number", edit: set(batches, `{size: 1, soak: "600"}`),
			says: []string{batches + ".soak", "soak 600 is no duration", "such as 10m"}},
		{name: "soak of 721h", edit: set(batches, "{size: 1, soak: 721h}"), says: []string{"soak 721h is no duration"}},
		{name: "negative maxRestarts", edit: set(batches, "{size: 1, maxRestarts: -1}"),
			says: []string{batches + ".maxRestarts", "-1"}},

		{name: "a check by expression",
			edit: checks("{name: ready, expression: \"node.metadata.name != ''\", patience: 5m}")},
		{name: "a check by http", edit: checks("{name: web, http: {url: 'https://web.default/healthz'}}")},
		{name: "a check by pod",
			edit: checks("{name: probe, pod: {template: {spec: {containers: [{name: a, image: b}]}}}}")},
		{name: "a check of nothing", edit: checks("{name: none}"),
			says: []string{"check none has 0 of expression, http and pod", "give one of them"}},
		{name: "a check of two", edit: checks("{name: two, expression: 'true', http: {url: 'http://a/'}}"),
			says: []string{"check two has 2 of expression, http and pod"}},
		{name: "a check whose name is no label", edit: checks("{name: is it up, expression: 'true'}"),
			says: []string{"name is it up is no value of a label", "use letters"}},
		{name: "two checks of one name", edit: checks("{name: a, expression: 'true'}, {name: a, expression: 'true'}"),
			says: []string{"Duplicate value"}},
		{name: "an address with a user", edit: checks("{name: web, http: {url: 'http://me@web/'}}"),
			says: []string{"url http://me@web/ is no address that can be asked", "without a user's name"}},
		{name: "an address of a file", edit: checks("{name: web, http: {url: 'file:///etc/passwd'}}"),
			says: []string{"is no address that can be asked"}},
		{name: "a pod that never ends",
			edit: checks("{name: p, pod: {template: {spec: {restartPolicy: Always, containers: [{name: a, image: b}]}}}}"),
			says: []string{"restartPolicy must be Never or OnFailure"}},
		{name: "patience for ever", edit: checks("{name: a, expression: 'true', patience: forever}"),
			says: []string{"patience forever is no duration"}},
	})
}
