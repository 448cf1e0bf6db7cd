package crds_test

import (
	"strings"
	"testing"
)

const cloneSet = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata:
  name: web
  namespace: default
spec:
  replicas: 4
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
        tier: front
    spec:
      containers:
      - name: web
        image: registry.example/web:1
`

// madeAtPath is where madeAt puts a time: a field of a type of Kubernetes that definitions declare.
const madeAtPath = "spec.volumeClaimTemplates[0].metadata.creationTimestamp"

// madeAt returns claim templates with a time, given as YAML.
func madeAt(time string) string { return "[{metadata: {name: data, creationTimestamp: " + time + "}}]" }

func testCloneSetRules(t *testing.T, s *server) {
	const rolling = "spec.updateStrategy.rollingUpdate"
	s.check(t, cloneSet, []rule{
		{name: "as it is", edit: named("web")},
		{name: "name of 52", edit: named(strings.Repeat("a", 52))},
		{name: "name of 53", edit: named(strings.Repeat("a", 53)),
			says: []string{"has 53 characters", "at most 52", "choose a shorter name"}},

		{name: "no selector", edit: remove("spec.selector"),
			says: []string{"spec.selector", "selector is missing or empty", "give matchLabels"}},
		{name: "empty selector", edit: set("spec.selector", "{}"), says: []string{"selector is missing or empty"}},
		{name: "selector of another label", edit: set("spec.selector.matchLabels", "{app: shop}"),
			says: []string{"spec.selector", "selector does not match the labels of template.metadata.labels",
				"give the template the labels"}},
		{name: "template without labels", edit: remove("spec.template.metadata"), says: []string{"selector does not match"}},
		{name: "In", edit: set("spec.selector", "{matchExpressions: [{key: app, operator: In, values: [shop, web]}]}")},
		{name: "not In", edit: set("spec.selector", "{matchExpressions: [{key: app, operator: In, values: [shop]}]}"),
			says: []string{"selector does not match"}},
		{name: "NotIn", edit: set("spec.selector", "{matchExpressions: [{key: app, operator: NotIn, values: [shop]}, {key: "+
			"other, operator: NotIn, values: [a]}]}")},
		{name: "not NotIn", edit: set("spec.selector", "{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}"),
			says: []string{"selector does not match"}},
		{name: "Exists", edit: set("spec.selector", "{matchExpressions: [{key: app, operator: Exists}]}")},
		{name: "not Exists", edit: set("spec.selector", "{matchExpressions: [{key: other, operator: Exists}]}"),
			says: []string{"selector does not match"}},
		{name: "DoesNotExist", edit: set("spec.selector",
			"{matchLabels: {app: web}, matchExpressions: [{key: other, operator: DoesNotExist}]}")},
		{name: "not DoesNotExist", edit: set("spec.selector", "{matchExpressions: [{key: app, operator: DoesNotExist}]}"),
			says: []string{"selector does not match"}},
		{name: "NotIn without values", edit: set("spec.selector",
			"{matchLabels: {app: web}, matchExpressions: [{key: other, operator: NotIn}]}"),
			says: []string{"spec.selector.matchExpressions[0].values", "values are missing", "name them"}},
		{name: "Exists with values", edit: set("spec.selector",
			"{matchExpressions: [{key: app, operator: Exists, values: [web]}]}"),
			says: []string{"spec.selector.matchExpressions[0].values", "take no values", "remove them"}},
		{name: "unknown operator", edit: set("spec.selector",
			"{matchExpressions: [{key: app, operator: Is, values: [web]}]}"), says: []string{"operator", `"Is"`}},
		{name: "selector changes", first: named("selector-changes"),
			edit: set("spec.selector", "{matchLabels: {tier: front}}"),
			says: []string{"spec.selector", "selector cannot change", "set it back"}},
		{name: "template changes", first: named("template-changes"), edit: set("spec.template.metadata.labels.tier", "back")},
		{name: "everything that may change", first: named("may-change"),
			edit: all(set("spec.replicas", "9"), set("spec.minReadySeconds", "5"), set("spec.revisionHistoryLimit", "3"),
				set("spec.progressDeadlineSeconds", "60"), set("spec.lifecycle", "{preDelete: {labelsHandler: {a: b}}}"),
				set("spec.scaleStrategy", "{podsToDelete: [web-a]}"),
				set(rolling, "{partition: 50%}"), set("spec.volumeClaimTemplates",
					"[{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]"))},

		{name: "restartPolicy Always", edit: set("spec.template.spec.restartPolicy", "Always")},
		{name: "restartPolicy Never", edit: set("spec.template.spec.restartPolicy", "Never"),
			says: []string{"spec.template.spec.restartPolicy", "restartPolicy must be Always", "use a job"}},
		{name: "activeDeadlineSeconds", edit: set("spec.template.spec.activeDeadlineSeconds", "60"),
			says: []string{"spec.template.spec.activeDeadlineSeconds", "cannot be set", "remove it"}},
		{name: "a time", edit: set("spec.volumeClaimTemplates", madeAt(`"2026-01-01T00:00:00.5+01:00"`))},
		{name: "no time", edit: set("spec.volumeClaimTemplates", madeAt(`null`))},
		{name: "a time in small letters", edit: set("spec.volumeClaimTemplates", madeAt(`"2026-01-01t00:00:00z"`)),
			says: []string{madeAtPath, "2026-01-01t00:00:00z"}},
		{name: "a time with something behind it", edit: set("spec.volumeClaimTemplates", madeAt(`"2026-01-01T00:00:00ZT"`)),
			says: []string{madeAtPath, "should match"}},
		{name: "a time of an offset that is none", edit: set("spec.volumeClaimTemplates",
			madeAt(`"2026-01-01T00:00:00+99:00"`)), says: []string{madeAtPath, "should match"}},
		{name: "no containers", edit: set("spec.template.spec.containers", "[]"),
			says: []string{"spec.template.spec.containers", "has no containers"}},

		{name: "negative replicas", edit: set("spec.replicas", "-1"),
			says: []string{"spec.replicas", "-1", "greater than or equal to 0"}},
		{name: "negative minReadySeconds", edit: set("spec.minReadySeconds", "-1"),
			says: []string{"spec.minReadySeconds", "-1"}},
		{name: "deadline 0", edit: set("spec.progressDeadlineSeconds", "0"), says: []string{"spec.progressDeadlineSeconds"}},
		{name: "deadline as minReadySeconds", edit: all(set("spec.minReadySeconds", "30"),
			set("spec.progressDeadlineSeconds", "30")),
			says: []string{"spec.progressDeadlineSeconds", "progressDeadlineSeconds is 30, which is not greater than " +
				"minReadySeconds", "raise it"}},
		{name: "Case9: the largest deadline means none",
			edit: all(set("spec.minReadySeconds", "2147483647"), set("spec.progressDeadlineSeconds", "2147483647"))},
		{name: "Case9: the largest deadline alone", edit: set("spec.progressDeadlineSeconds", "2147483647")},
		{name: "Case9: the largest minReadySeconds alone", edit: set("spec.minReadySeconds", "2147483647")},
		{name: "Case9: one second less is a deadline", edit: all(set("spec.minReadySeconds", "2147483646"),
			set("spec.progressDeadlineSeconds", "2147483646")),
			says: []string{"spec.progressDeadlineSeconds", "progressDeadlineSeconds is 2147483646, which is not greater than " +
				"minReadySeconds"}},
		{name: "Case9: one second more than any number", edit: set("spec.progressDeadlineSeconds", "2147483648"),
			says: []string{"spec.progressDeadlineSeconds", "int32"}},
		{name: "Case9: one second more of minReadySeconds", edit: set("spec.minReadySeconds", "2147483648"),
			says: []string{"spec.minReadySeconds", "int32"}},
		{name: "deadline above minReadySeconds", edit: all(set("spec.minReadySeconds", "30"),
			set("spec.progressDeadlineSeconds", "31"))},

		{name: "podsToDelete", edit: set("spec.scaleStrategy.podsToDelete", "[web-a, web-b]")},
		{name: "podsToDelete twice", edit: set("spec.scaleStrategy.podsToDelete", "[web-a, web-b, web-a]"),
			says: []string{"spec.scaleStrategy.podsToDelete[2]", "Duplicate", "web-a"}},
		{name: "scale maxUnavailable", edit: set("spec.scaleStrategy.maxUnavailable", "10%")},
		{name: "scale maxUnavailable 101%", edit: set("spec.scaleStrategy.maxUnavailable", "101%"),
			says: []string{"spec.scaleStrategy.maxUnavailable", "101%", "from 0% to 100%"}},

		{name: "unknown type", edit: set("spec.updateStrategy.type", "Rolling"),
			says: []string{"spec.updateStrategy.type", `"Rolling"`, "RollingUpdate", "OnDelete"}},
		{name: "OnDelete", edit: set("spec.updateStrategy.type", "OnDelete")},
		{name: "unknown podUpdatePolicy", edit: set(rolling, "{podUpdatePolicy: InPlace}"),
			says: []string{"podUpdatePolicy", "InPlaceIfPossible"}},

		{name: "partition 0", edit: set(rolling, "{partition: 0}")},
		{name: "partition 0%", edit: set(rolling, `{partition: "0%"}`)},
		{name: "partition 7%", edit: set(rolling, `{partition: "7%"}`)},
		{name: "partition 99%", edit: set(rolling, `{partition: "99%"}`)},
		{name: "partition 100%", edit: set(rolling, `{partition: "100%"}`)},
		{name: "partition above replicas", edit: set(rolling, "{partition: 100}")},
		{name: "partition -1", edit: set(rolling, "{partition: -1}"),
			says: []string{"rollingUpdate.partition", "-1", "integer of 0 or more"}},
		{name: "partition 101%", edit: set(rolling, `{partition: "101%"}`),
			says: []string{"rollingUpdate.partition", "101%", "from 0% to 100%"}},
		{name: "partition 1000%", edit: set(rolling, `{partition: "1000%"}`), says: []string{"from 0% to 100%"}},
		{name: "partition -5%", edit: set(rolling, `{partition: "-5%"}`), says: []string{"from 0% to 100%"}},
		{name: "partition half", edit: set(rolling, "{partition: half}"), says: []string{"half", "from 0% to 100%"}},
		{name: "partition as text", edit: set(rolling, `{partition: "5"}`), says: []string{"from 0% to 100%"}},
		{name: "partition %", edit: set(rolling, `{partition: "%"}`), says: []string{"from 0% to 100%"}},
		{name: "partition empty", edit: set(rolling, `{partition: ""}`), says: []string{"from 0% to 100%"}},
		{name: "partition 1.5%", edit: set(rolling, `{partition: "1.5%"}`), says: []string{"from 0% to 100%"}},
		{name: "partition :5%", edit: set(rolling, `{partition: ":5%"}`), says: []string{"from 0% to 100%"}},
		{name: "maxUnavailable -1", edit: set(rolling, "{maxUnavailable: -1}"),
			says: []string{"rollingUpdate.maxUnavailable", "-1", "integer of 0 or more"}},
		{name: "maxSurge -1", edit: set(rolling, "{maxSurge: -1}"),
			says: []string{"rollingUpdate.maxSurge", "-1", "integer of 0 or more"}},
		{name: "maxSurge 250%", edit: set(rolling, "{maxSurge: 250%}")},
		{name: "partition 10000000000", edit: set(rolling, "{partition: 10000000000}"),
			says: []string{"rollingUpdate.partition", "2147483647"}},
		{name: "maxUnavailable 10000000000", edit: set(rolling, "{maxUnavailable: 10000000000}"),
			says: []string{"rollingUpdate.maxUnavailable", "2147483647"}},
		{name: "maxSurge 10000000000", edit: set(rolling, "{maxSurge: 10000000000}"),
			says: []string{"rollingUpdate.maxSurge", "2147483647"}},
		{name: "scale maxUnavailable 10000000000", edit: set("spec.scaleStrategy.maxUnavailable", "10000000000"),
			says: []string{"scaleStrategy.maxUnavailable", "2147483647"}},
		{name: "maxSurge many", edit: set(rolling, "{maxSurge: many}"),
			says: []string{"rollingUpdate.maxSurge", "many", "or a percentage"}},

		{name: "0 unavailable, no surge", edit: set(rolling, "{maxUnavailable: 0}"),
			says: []string{"rollingUpdate", "maxUnavailable and maxSurge are both 0", "raise one of them"}},
		{name: "0% and 0%", edit: set(rolling, `{maxUnavailable: "0%", maxSurge: "0%"}`), says: []string{"are both 0"}},
		{name: "0 and surge", edit: set(rolling, "{maxUnavailable: 0, maxSurge: 1}")},
		{name: "0 and surge 10%", edit: set(rolling, "{maxUnavailable: 0%, maxSurge: 10%}")},
		{name: "surge 0 alone", edit: set(rolling, "{maxSurge: 0}")},
		{name: "InPlaceOnly and surge", edit: set(rolling, "{podUpdatePolicy: InPlaceOnly, maxSurge: 1}"),
			says: []string{"rollingUpdate.maxSurge", "does not go with podUpdatePolicy InPlaceOnly", "remove maxSurge"}},
		{name: "InPlaceOnly and surge 0", edit: set(rolling, "{podUpdatePolicy: InPlaceOnly, maxSurge: 0}")},

		{name: "weights", edit: set(rolling, "{priorityStrategy: {weightPriority: [{weight: 50, matchSelector: "+
			"{matchLabels: {a: b}}}]}}")},
		{name: "weight 101", edit: set(rolling, "{priorityStrategy: {weightPriority: [{weight: 101, matchSelector: "+
			"{matchLabels: {a: b}}}]}}"), says: []string{"weight", "101", "100"}},
		{name: "weight without values", edit: set(rolling,
			"{priorityStrategy: {weightPriority: [{weight: 50, matchSelector: {matchExpressions: [{key: a, operator: In}]}}]}}"),
			says: []string{"weightPriority[0].matchSelector.matchExpressions[0].values", "values are missing"}},
		{name: "order", edit: set(rolling, "{priorityStrategy: {orderPriority: [{orderedKey: a}]}}")},
		{name: "order without key", edit: set(rolling, `{priorityStrategy: {orderPriority: [{orderedKey: ""}]}}`),
			says: []string{"orderedKey is empty", "name the label"}},
		{name: "weights and order", edit: set(rolling, "{priorityStrategy: {orderPriority: [{orderedKey: a}], "+
			"weightPriority: [{weight: 1, matchSelector: {}}]}}"),
			says: []string{"priorityStrategy", "orderPriority or weightPriority, not both"}},
		{name: "scatter", edit: set(rolling, "{scatterStrategy: [{key: a, value: b}, {key: a, value: c}]}")},
		{name: "scatter without key", edit: set(rolling, `{scatterStrategy: [{key: "", value: b}]}`),
			says: []string{"scatterStrategy[0].key", "key is empty", "name the label"}},
		{name: "scatter twice", edit: set(rolling, "{scatterStrategy: [{key: a, value: b}, {key: a, value: b}]}"),
			says: []string{"scatterStrategy", "the same key and value twice"}},
		{name: "pre-download", edit: set(rolling, "{inPlaceUpdateStrategy: {gracePeriodSeconds: 10, "+
			"imagePreDownloadParallelism: 10%, imagePreDownloadTimeoutSeconds: 60}}")},
		{name: "pre-download -1", edit: set(rolling, "{inPlaceUpdateStrategy: {imagePreDownloadParallelism: -1}}"),
			says: []string{"imagePreDownloadParallelism", "-1"}},
		{name: "negative grace", edit: set(rolling, "{inPlaceUpdateStrategy: {gracePeriodSeconds: -1}}"),
			says: []string{"gracePeriodSeconds", "-1"}},

		{name: "claims", edit: set("spec.volumeClaimTemplates",
			"[{metadata: {name: a}, spec: {}}, {metadata: {name: b}, spec: {}}]")},
		{name: "claim without name", edit: set("spec.volumeClaimTemplates", "[{spec: {}}]"),
			says: []string{"spec.volumeClaimTemplates[0].metadata", "Required"}},
		{name: "claims of one name", edit: set("spec.volumeClaimTemplates",
			"[{metadata: {name: a}, spec: {}}, {metadata: {name: a}, spec: {}}]"),
			says: []string{"two volumeClaimTemplates have the same metadata.name"}},
	})
}
