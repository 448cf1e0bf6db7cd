package crds_test

import (
	"fmt"
	"strings"
	"testing"
)

const workloadSpread = `
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata:
  name: web
  namespace: default
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  subsets:
  - name: zone-a
    requiredNodeSelector:
      matchExpressions:
      - {key: topology.kubernetes.io/zone, operator: In, values: [a]}
    preferredNodeSelector:
    - weight: 10
      preference:
        matchExpressions:
        - {key: disk, operator: Exists}
    tolerations:
    - {key: pool, operator: Exists}
    maxReplicas: 3
    patch: {metadata: {labels: {zone: a}}, spec: {containers: [{name: web, env: [{name: ZONE, value: a}]}]}}
  - name: zone-b
`

func testWorkloadSpreadRules(t *testing.T, s *server) {
	const (
		subsets  = "spec.subsets"
		target   = "spec.targetRef"
		strategy = "spec.scheduleStrategy"
	)
	adaptive := func(seconds int) edit {
		return set(strategy, fmt.Sprintf("{type: Adaptive, adaptive: {rescheduleCriticalSeconds: %d}}", seconds))
	}
	stateful := set(target, "{apiVersion: apps/v1, kind: StatefulSet, name: web}")
	s.check(t, workloadSpread, []rule{
		{name: "as it is", edit: named("web")},
		{name: "no target", edit: remove(target), says: []string{"spec.targetRef", "Required"}},
		{name: "target without a name", edit: set(target+".name", `""`),
			says: []string{"spec.targetRef.name", "name is empty"}},
		{name: "target without a kind", edit: set(target+".kind", `""`),
			says: []string{"spec.targetRef.kind", "kind is empty", "such as Deployment"}},
		{name: "target of a strange version", edit: set(target+".apiVersion", "a/b/c"),
			says: []string{"spec.targetRef.apiVersion", "such as apps/v1"}},
		{name: "core version", edit: set(target, "{apiVersion: v1, kind: ReplicationController, name: a}")},
		{name: "target changes", first: named("target-changes"), edit: set(target+".name", "shop"),
			says: []string{"spec.targetRef", "targetRef cannot change", "make another WorkloadSpread"}},
		{name: "everything else changes", first: named("else-changes"),
			edit: all(set(subsets, "[{name: c, maxReplicas: 30%}, {name: d}]"), adaptive(30),
				set("spec.targetFilter", "{selector: {matchLabels: {a: b}}, replicasPathList: [spec.replicas]}"))},
		{name: "filter by a strange operator", edit: set("spec.targetFilter",
			"{selector: {matchExpressions: [{key: a, operator: Is}]}}"), says: []string{"operator", `"Is"`}},

		{name: "no subsets", edit: remove(subsets), says: []string{"spec.subsets"}},
		{name: "empty subsets", edit: set(subsets, "[]"),
			says: []string{"spec.subsets", "subsets is empty", "give at least one"}},
		{name: "subset without a name", edit: set(subsets, `[{name: ""}]`),
			says: []string{"spec.subsets[0].name", "name of a subset is empty"}},
		{name: "two of one name", edit: set(subsets, "[{name: a}, {name: a}]"),
			says: []string{"spec.subsets[1]", "Duplicate"}},
		{name: "one subset", edit: set(subsets, "[{name: a}]")},
		{name: "names with dots and capitals", edit: set(subsets, "[{name: Zone_A.1, maxReplicas: 1}, {name: b}]")},
		{name: "operator of a term", edit: set(subsets, "[{name: a, requiredNodeSelector: {matchExpressions: [{key: a, "+
			"operator: Is}]}}]"), says: []string{"operator", `"Is"`}},
		{name: "operator of a preference", edit: set(subsets,
			"[{name: a, preferredNodeSelector: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Is}]}}]}]"),
			says: []string{"operator", `"Is"`}},

		{name: "negative max", edit: set(subsets, "[{name: a, maxReplicas: -1}, {name: b}]"),
			says: []string{"spec.subsets[0].maxReplicas", "maxReplicas is -1", "integer of 0 or more"}},
		{name: "max of 101%", edit: set(subsets, "[{name: a, maxReplicas: 101%}, {name: b}]"),
			says: []string{"maxReplicas is 101%", "from 0% to 100%"}},
		{name: "max as text", edit: set(subsets, `[{name: a, maxReplicas: "5"}, {name: b}]`),
			says: []string{"maxReplicas is 5"}},
		{name: "max of 0", edit: set(subsets, "[{name: a, maxReplicas: 0}, {name: b}]")},
		{name: "all with a max", edit: set(subsets, "[{name: a, maxReplicas: 2}, {name: b, maxReplicas: 2}]")},
		{name: "integers and percentages", edit: set(subsets,
			"[{name: a, maxReplicas: 5}, {name: b, maxReplicas: 50%}, {name: c}]"),
			says: []string{"spec.subsets", `an integer for ["a"] and a percentage for ["b"]`, "use one or the other"}},
		{name: "30% and the rest", edit: set(subsets, "[{name: a, maxReplicas: 30%}, {name: b}]")},
		{name: "30% and 70%", edit: set(subsets, "[{name: a, maxReplicas: 30%}, {name: b, maxReplicas: 70%}]")},
		{name: "30% and 60%", edit: set(subsets, "[{name: a, maxReplicas: 30%}, {name: b, maxReplicas: 60%}]"),
			says: []string{"spec.subsets", "are 90% together", "make them 100%, or remove maxReplicas of the last"}},
		{name: "30% and 80%", edit: set(subsets, "[{name: a, maxReplicas: 30%}, {name: b, maxReplicas: 80%}]"),
			says: []string{"are 110% together", "make them 100%"}},
		{name: "110% and the rest", edit: set(subsets, "[{name: a, maxReplicas: 30%}, {name: b, maxReplicas: 80%}, {name: "+
			"c}]"), says: []string{"are 110% together, they can be 100% at most", "lower them"}},

		{name: "StatefulSet", edit: stateful},
		{name: "StatefulSet by percentages", edit: all(stateful, set(subsets, "[{name: a, maxReplicas: 30%}, {name: b}]")),
			says: []string{"spec.subsets", "by their ordinals", `for ["a"]`, "replace it by an integer"}},

		{name: "Fixed", edit: set(strategy, "{type: Fixed}")},
		{name: "unknown strategy", edit: set(strategy, "{type: Random}"),
			says: []string{"spec.scheduleStrategy.type", `"Random"`, "Adaptive", "Fixed"}},
		{name: "Adaptive", edit: adaptive(295)},
		{name: "Adaptive by percentages", edit: all(adaptive(30), set(subsets, "[{name: a, maxReplicas: 30%}, {name: b}]"))},
		{name: "Adaptive without times", edit: set(strategy,
			"{type: Adaptive, adaptive: {disableSimulationSchedule: true}}")},
		{name: "Adaptive with a last max", edit: all(adaptive(30), set(subsets, "[{name: a}, {name: b, maxReplicas: 5}]")),
			says: []string{"spec.subsets", "subset b has maxReplicas", "add a subset without one"}},
		{name: "Adaptive too slow for 2", edit: adaptive(296),
			says: []string{"rescheduleCriticalSeconds is 296", "all 2 subsets", "lower it to 295 at most"}},
		{name: "Adaptive too slow for 4", edit: all(adaptive(99),
			set(subsets, "[{name: a}, {name: b}, {name: c}, {name: d}]")),
			says: []string{"spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds", "lower it to 98 at most"}},
		{name: "Adaptive in time for 4", edit: all(adaptive(98),
			set(subsets, "[{name: a}, {name: b}, {name: c}, {name: d}]"))},
		{name: "one subset, any time", edit: all(adaptive(9999), set(subsets, "[{name: a}]"))},
		{name: "Fixed with times", edit: set(strategy, "{type: Fixed, adaptive: {rescheduleCriticalSeconds: 9999}}")},
		{name: "negative time", edit: adaptive(-1), says: []string{"rescheduleCriticalSeconds", "-1"}},

		{name: "as many subsets as there may be", edit: manySpread(256, `{"name": "s%d", "maxReplicas": "0%%"}`,
			`{"name": "last"}`)},
		{name: "one more", edit: manySpread(257, `{"name": "s%d"}`), says: []string{"spec.subsets", "256"}},
		{name: "as many subsets as there may be, update",
			first: all(named("many"), manySpread(256, `{"name": "s%d", "maxReplicas": 1}`)),
			edit:  manySpread(256, `{"name": "s%d", "maxReplicas": "0%%"}`, `{"name": "last"}`)},
	})
}

// manySpread gives the spread n subsets, the last of them these.
func manySpread(n int, subset string, last ...string) edit {
	var list []string
	for i := range n - len(last) {
		list = append(list, fmt.Sprintf(subset, i))
	}
	return set("spec.subsets", "["+strings.Join(append(list, last...), ",")+"]")
}
