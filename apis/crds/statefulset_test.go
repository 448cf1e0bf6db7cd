package crds_test

import (
	"fmt"
	"strings"
	"testing"
)

const statefulSet = `
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata:
  name: db
  namespace: default
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      app: db
  template:
    metadata:
      labels:
        app: db
    spec:
      containers:
      - name: db
        image: registry.example/db:1
`

// claimsOf returns claim templates that request storage from one class in one access mode each.
func claimsOf(class, mode string, storage ...string) string {
	list := make([]string, len(storage))
	for i := range storage {
		list[i] = fmt.Sprintf("{metadata: {name: c%d}, spec: {storageClassName: %s, accessModes: [%s], "+
			"resources: {requests: {storage: %s}}}}", i, class, mode, storage[i])
	}
	return "[" + strings.Join(list, ",") + "]"
}

func testStatefulSetRules(t *testing.T, s *server) {
	const (
		rolling = "spec.updateStrategy.rollingUpdate"
		policy  = "spec.podManagementPolicy"
		claims  = "spec.volumeClaimTemplates"
	)
	ordered := set(policy, "OrderedReady")
	s.check(t, statefulSet, []rule{
		{name: "as it is", edit: named("db")},
		{name: "name of 52", edit: named(strings.Repeat("a", 52))},
		{name: "name of 53", edit: named(strings.Repeat("a", 53)),
			says: []string{"has 53 characters", "at most 52", "choose a shorter name"}},
		{name: "name with a dot", edit: named("db.main"),
			says: []string{"the name db.main has a dot", "choose a name without dots"}},

		{name: "no selector", edit: remove("spec.selector"),
			says: []string{"spec.selector", "selector is missing or empty", "give matchLabels"}},
		{name: "empty selector", edit: set("spec.selector", "{}"), says: []string{"selector is missing or empty"}},
		{name: "selector of another label", edit: set("spec.selector.matchLabels", "{app: web}"),
			says: []string{"spec.selector", "does not match the labels of template.metadata.labels", "give the template"}},
		{name: "restartPolicy Never", edit: set("spec.template.spec.restartPolicy", "Never"),
			says: []string{"spec.template.spec.restartPolicy", "must be Always"}},
		{name: "activeDeadlineSeconds", edit: set("spec.template.spec.activeDeadlineSeconds", "60"),
			says: []string{"spec.template.spec.activeDeadlineSeconds", "cannot be set"}},

		{name: "selector changes", first: named("selector-changes"),
			edit: all(set("spec.selector.matchLabels", "{app: web}"), set("spec.template.metadata.labels", "{app: web}")),
			says: []string{"spec.selector", "selector cannot change", "set it back"}},
		{name: "serviceName changes", first: named("service-changes"), edit: set("spec.serviceName", "other"),
			says: []string{"spec.serviceName", "serviceName cannot change from db", "set it back"}},
		{name: "serviceName comes", first: all(named("service-comes"), remove("spec.serviceName")),
			edit: set("spec.serviceName", "db"),
			says: []string{"spec.serviceName", "serviceName cannot change from none"}},
		{name: "serviceName empty for none", first: all(named("service-empty"), remove("spec.serviceName")),
			edit: set("spec.serviceName", `""`)},
		{name: "serviceName of a domain", edit: set("spec.serviceName", "db.default"),
			says: []string{"spec.serviceName", "serviceName db.default is no name of a Service", "use at most 63 of a-z"}},
		{name: "serviceName of 64", edit: set("spec.serviceName", strings.Repeat("a", 64)),
			says: []string{"spec.serviceName", "63"}},
		{name: "podManagementPolicy changes", first: named("policy-changes"), edit: set(policy, "OrderedReady"),
			says: []string{policy, "podManagementPolicy cannot change from Parallel", "create a StatefulSet of another name"}},
		{name: "podManagementPolicy goes", first: named("policy-goes"), edit: remove(policy),
			says: []string{"cannot change from Parallel"}},
		{name: "podManagementPolicy by default", first: all(named("policy-default"), ordered), edit: remove(policy)},
		{name: "podManagementPolicy empty", first: all(named("policy-empty"), ordered), edit: set(policy, `""`)},
		{name: "unknown podManagementPolicy", edit: set(policy, "Serial"),
			says: []string{policy, `"Serial"`, "OrderedReady", "Parallel"}},
		{name: "everything that may change", first: named("may-change"), edit: all(
			set("spec.replicas", "9"), set("spec.template.metadata.labels.tier", "a"),
			set("spec.reserveOrdinals", "[1]"), set("spec.ordinals", "{start: 5}"),
			set("spec.lifecycle", "{preDelete: {labelsHandler: {a: b}}}"), set("spec.revisionHistoryLimit", "3"),
			set("spec.persistentVolumeClaimRetentionPolicy", "{whenDeleted: Delete, whenScaled: Delete}"),
			set("spec.scaleStrategy", "{maxUnavailable: 10%}"), set("spec.updateStrategy", "{type: OnDelete}"),
			set(claims, claimsOf("fast", "ReadWriteOnce", "1Gi")))},

		{name: "steps", edit: set("spec.flotilla",
			"{steps: [{partition: 90%}, {partition: 5, soak: 10m, timeout: 1h, approval: Required}, {partition: 0}]}")},
		{name: "steps without an end", edit: set("spec.flotilla", "{}")},
		{name: "a step of -1", edit: set("spec.flotilla", "{steps: [{partition: -1}]}"),
			says: []string{"spec.flotilla.steps[0].partition", "partition is -1", "correct it"}},
		{name: "a step of 101%", edit: set("spec.flotilla", "{steps: [{partition: 101%}]}"),
			says: []string{"partition is 101%", "from 0% to 100%"}},
		{name: "a step without a partition", edit: set("spec.flotilla", "{steps: [{soak: 10m}]}"),
			says: []string{"spec.flotilla.steps[0].partition", "Required"}},
		{name: "a soak that is no duration", edit: set("spec.flotilla", "{steps: [{partition: 1, soak: soon}]}"),
			says: []string{"spec.flotilla.steps[0].soak", "soak soon is no duration", "such as 10m"}},
		{name: "a timeout of 0s", edit: set("spec.flotilla", "{steps: [{partition: 1, timeout: 0s}]}"),
			says: []string{"timeout 0s is no duration above 0s"}},
		{name: "an unknown approval", edit: set("spec.flotilla", "{steps: [{partition: 1, approval: Never}]}"),
			says: []string{"spec.flotilla.steps[0].approval", `"Never"`, "Required"}},
		{name: "17 steps", edit: set("spec.flotilla",
			"{steps: ["+strings.TrimSuffix(strings.Repeat("{partition: 1},", 17), ",")+"]}"),
			says: []string{"spec.flotilla.steps", "16"}},
		{name: "steps with OnDelete",
			edit: all(set("spec.updateStrategy", "{type: OnDelete}"), set("spec.flotilla", "{steps: [{partition: 1}]}")),
			says: []string{"spec.flotilla.steps", "do not go with type OnDelete", "remove the steps"}},

		{name: "negative replicas", edit: set("spec.replicas", "-1"),
			says: []string{"spec.replicas", "-1", "greater than or equal to 0"}},
		{name: "no replicas", edit: set("spec.replicas", "0")},
		{name: "negative history", edit: set("spec.revisionHistoryLimit", "-1"),
			says: []string{"spec.revisionHistoryLimit", "-1"}},

		{name: "unknown type", edit: set("spec.updateStrategy.type", "Rolling"),
			says: []string{"spec.updateStrategy.type", `"Rolling"`, "OnDelete"}},
		{name: "OnDelete", edit: set("spec.updateStrategy", "{type: OnDelete}")},
		{name: "OnDelete with rollingUpdate",
			edit: set("spec.updateStrategy", "{type: OnDelete, rollingUpdate: {partition: 1}}"),
			says: []string{rolling, "rollingUpdate does not go with type OnDelete", "remove rollingUpdate"}},
		{name: "from RollingUpdate to OnDelete", first: all(named("to-on-delete"), set(rolling, "{partition: 1}")),
			edit: set("spec.updateStrategy", "{type: OnDelete}")},

		{name: "partition above replicas", edit: set(rolling, "{partition: 100}")},
		{name: "negative partition", edit: set(rolling, "{partition: -1}"), says: []string{rolling + ".partition", "-1"}},
		{name: "partition in percent", edit: set(rolling, "{partition: 50%}"),
			says: []string{rolling + ".partition", "integer"}},
		{name: "minReadySeconds", edit: set(rolling, "{minReadySeconds: 300}")},
		{name: "minReadySeconds above 300", edit: set(rolling, "{minReadySeconds: 301}"),
			says: []string{rolling + ".minReadySeconds", "301", "less than or equal to 300"}},
		{name: "negative minReadySeconds", edit: set(rolling, "{minReadySeconds: -1}"),
			says: []string{rolling + ".minReadySeconds", "-1"}},

		{name: "maxUnavailable", edit: set(rolling, "{maxUnavailable: 2}")},
		{name: "maxUnavailable 100%", edit: set(rolling, "{maxUnavailable: 100%}")},
		{name: "maxUnavailable 0", edit: set(rolling, "{maxUnavailable: 0}"),
			says: []string{rolling + ".maxUnavailable", "maxUnavailable is 0", "set it to 1 or more, or set paused"}},
		{name: "maxUnavailable 0%", edit: set(rolling, `{maxUnavailable: "0%"}`), says: []string{"maxUnavailable is 0"}},
		{name: "maxUnavailable -1", edit: set(rolling, "{maxUnavailable: -1}"),
			says: []string{"maxUnavailable is -1", "integer of 1 or more"}},
		{name: "maxUnavailable 101%", edit: set(rolling, "{maxUnavailable: 101%}"),
			says: []string{"maxUnavailable is 101%", "from 1% to 100%"}},
		{name: "maxUnavailable as text", edit: set(rolling, `{maxUnavailable: "1"}`),
			says: []string{"maxUnavailable is 1", "integer of 1 or more"}},
		{name: "OrderedReady", edit: ordered},
		{name: "maxUnavailable 1 with OrderedReady", edit: all(ordered, set(rolling, "{maxUnavailable: 1}"))},
		{name: "maxUnavailable 2 with OrderedReady", edit: all(ordered, set(rolling, "{maxUnavailable: 2}")),
			says: []string{rolling + ".maxUnavailable", "maxUnavailable is 2: it must be 1 with podManagementPolicy"}},
		{name: "maxUnavailable 1% with OrderedReady by default",
			edit: all(remove(policy), set(rolling, "{maxUnavailable: 1%}")),
			says: []string{"maxUnavailable is 1%", "must be 1 with podManagementPolicy OrderedReady"}},
		{name: "unordered", edit: set(rolling, "{unorderedUpdate: {priorityStrategy: {orderPriority: [{orderedKey: a}]}}}")},
		{name: "unordered with OrderedReady", edit: all(ordered, set(rolling, "{unorderedUpdate: {}}")),
			says: []string{rolling + ".unorderedUpdate", "unorderedUpdate needs podManagementPolicy Parallel", "remove it"}},
		{name: "weights and order", edit: set(rolling,
			"{unorderedUpdate: {priorityStrategy: {orderPriority: [{orderedKey: a}], "+
				"weightPriority: [{weight: 1, matchSelector: {}}]}}}"),
			says: []string{"priorityStrategy", "orderPriority or weightPriority, not both"}},

		{name: "in place without the readiness gate, which new pods get",
			edit: set(rolling, "{podUpdatePolicy: InPlaceOnly}")},
		{name: "unknown podUpdatePolicy", edit: set(rolling, "{podUpdatePolicy: InPlace}"),
			says: []string{"podUpdatePolicy", "InPlaceIfPossible"}},
		{name: "negative grace", edit: set(rolling, "{inPlaceUpdateStrategy: {gracePeriodSeconds: -1}}"),
			says: []string{"gracePeriodSeconds", "-1"}},
		{name: "claims of one name", edit: set(claims, "[{metadata: {name: a}}, {metadata: {name: a}}]"),
			says: []string{"two volumeClaimTemplates have the same metadata.name"}},
	})
}

// testStatefulSetRulesOfV1beta1 checks the fields that v1alpha1 lacks.
func testStatefulSetRulesOfV1beta1(t *testing.T, s *server) {
	const reserved = "spec.reserveOrdinals"
	ordered := set("spec.podManagementPolicy", "OrderedReady")
	s.check(t, statefulSet, []rule{
		{name: "negative start", edit: set("spec.ordinals", "{start: -1}"), says: []string{"spec.ordinals.start", "-1"}},
		{name: "reserved numbers and ranges", edit: set(reserved, `[0, 7, "3-5", "10-10", 2147483647]`)},
		{name: "reserved twice", edit: set(reserved, `[1, 1, "1-2", "2-3"]`)},
		{name: "reserved negative", edit: set(reserved, "[1, -1]"),
			says: []string{reserved + "[1]", "-1", "greater than or equal to 0"}},
		{name: "reserved beyond ordinals", edit: set(reserved, "[2147483648]"),
			says: []string{reserved + "[0]", "2147483648"}},
		{name: "reserved number as text", edit: set(reserved, `["5"]`),
			says: []string{reserved + "[0]", `"5"`, "should match"}},
		{name: "reserved open range", edit: set(reserved, `["5-"]`),
			says: []string{reserved + "[0]", `"5-"`, "should match"}},
		{name: "reserved list in text", edit: set(reserved, `["1,2"]`),
			says: []string{reserved + "[0]", `"1,2"`, "should match"}},
		{name: "reserved range of negative numbers", edit: set(reserved, `["-1-3"]`),
			says: []string{reserved + "[0]", `"-1-3"`}},
		{name: "reserved range of 11 digits", edit: set(reserved, `["0-10000000000"]`),
			says: []string{reserved + "[0]", "should match"}},
		{name: "scale maxUnavailable", edit: set("spec.scaleStrategy", "{maxUnavailable: 20%}")},
		{name: "scale maxUnavailable 0", edit: set("spec.scaleStrategy", "{maxUnavailable: 0}"),
			says: []string{"spec.scaleStrategy.maxUnavailable", "maxUnavailable is 0", "remove it"}},
		{name: "scale maxUnavailable half", edit: set("spec.scaleStrategy", "{maxUnavailable: half}"),
			says: []string{"spec.scaleStrategy.maxUnavailable", "maxUnavailable is half", "from 1% to 100%"}},
		{name: "scale maxUnavailable with OrderedReady", edit: all(ordered, set("spec.scaleStrategy", "{maxUnavailable: 1}")),
			says: []string{"spec.scaleStrategy.maxUnavailable", "maxUnavailable is 1: it needs podManagementPolicy Parallel"}},
		{name: "empty scaleStrategy with OrderedReady", edit: all(ordered, set("spec.scaleStrategy", "{}"))},
		{name: "unknown retention", edit: set("spec.persistentVolumeClaimRetentionPolicy", "{whenScaled: Keep}"),
			says: []string{"whenScaled", `"Keep"`, "Retain"}},
		{name: "unknown claim strategy", edit: set("spec.volumeClaimUpdateStrategy", "{type: Always}"),
			says: []string{"spec.volumeClaimUpdateStrategy.type", `"Always"`, "OnPodRollingUpdate"}},
	})
	testStatefulSetClaims(t, s)
}

// testStatefulSetClaims changes claim templates: with OnPodRollingUpdate only their storage may change, and only grow.
func testStatefulSetClaims(t *testing.T, s *server) {
	const claims = "spec.volumeClaimTemplates"
	resizing := set("spec.volumeClaimUpdateStrategy", "{type: OnPodRollingUpdate}")
	from := func(name, templates string, edits ...edit) edit {
		return all(append(edits, named(name), set(claims, templates))...)
	}
	two := claimsOf("fast", "ReadWriteOnce", "10Gi", "1Gi")
	many := make([]string, 64)
	for i := range many {
		many[i] = "1Gi"
	}
	s.check(t, statefulSet, []rule{
		{name: "a claim shrinks with OnDelete", first: from("shrinks-on-delete", two),
			edit: set(claims, claimsOf("fast", "ReadWriteOnce", "5Gi"))},
		{name: "a claim grows", first: from("grows", two, resizing),
			edit: set(claims, claimsOf("fast", "ReadWriteOnce", "10240Mi", "2Gi"))},
		{name: "a claim grows to a number of bytes", first: from("grows-in-bytes", two, resizing),
			edit: set(claims, claimsOf("fast", "ReadWriteOnce", "10737418240", "2e9"))},
		{name: "a claim shrinks", first: from("shrinks", two, resizing),
			edit: set(claims, claimsOf("fast", "ReadWriteOnce", "9.5Gi", "1Gi")),
			says: []string{claims, `storage of volumeClaimTemplates ["c0"] cannot shrink`, "request at least as much"}},

		{name: "a number of bytes shrinks",
			first: from("bytes-shrink", claimsOf("fast", "ReadWriteOnce", "10737418240"), resizing),
			edit:  set(claims, claimsOf("fast", "ReadWriteOnce", "10737418239")), says: []string{`["c0"] cannot shrink`}},
		{name: "a claim requests nothing any more", first: from("requests-nothing", two, resizing),
			edit: set(claims, "[{metadata: {name: c0}}, {metadata: {name: c1}}]"), says: []string{`["c0", "c1"] cannot shrink`}},
		{name: "a claim shrinks as the strategy changes", first: from("judged-by-new", two),
			edit: all(resizing, set(claims, claimsOf("fast", "ReadWriteOnce", "5Gi", "1Gi"))),
			says: []string{`["c0"] cannot shrink`}},
		{name: "a claim shrinks as the strategy changes back", first: from("judged-by-new-back", two, resizing),
			edit: all(remove("spec.volumeClaimUpdateStrategy"), set(claims, claimsOf("fast", "ReadWriteOnce", "5Gi", "1Gi")))},
		{name: "another storage class", first: from("another-class", two, resizing),
			edit: set(claims, claimsOf("slow", "ReadWriteOnce", "10Gi", "1Gi")),
			says: []string{claims, `volumeClaimTemplates ["c0", "c1"] cannot change`, "set them back"}},
		{name: "another access mode", first: from("another-mode", two, resizing),
			edit: set(claims, claimsOf("fast", "ReadWriteMany", "10Gi", "1Gi")),
			says: []string{"storageClassName and accessModes", "cannot change"}},
		{name: "a claim goes", first: from("goes", two, resizing),
			edit: set(claims, claimsOf("fast", "ReadWriteOnce", "10Gi")),
			says: []string{claims, "volumeClaimTemplates cannot be added, removed or renamed", "set them back"}},
		{name: "all claims go", first: from("all-go", two, resizing), edit: remove(claims),
			says: []string{"cannot be added, removed or renamed"}},
		{name: "a claim comes", first: all(named("comes"), resizing), edit: set(claims, two),
			says: []string{"cannot be added, removed or renamed"}},
		{name: "a claim gets another name", first: from("renamed", two, resizing),
			edit: set(claims, strings.ReplaceAll(two, "c1", "c2")), says: []string{"cannot be added, removed or renamed"}},

		{name: "as many claims as there may be",
			first: from("most-claims", claimsOf("fast", "ReadWriteOnce", many...), resizing),
			edit:  set("spec.replicas", "5")},
		{name: "one claim more", edit: set(claims, claimsOf("fast", "ReadWriteOnce", append(many, "1Gi")...)),
			says: []string{claims, "64"}},
	})
}
