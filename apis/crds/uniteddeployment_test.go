package crds_test

import (
	"fmt"
	"strings"
	"testing"
)

const unitedDeployment = `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata:
  name: shop
  namespace: default
spec:
  replicas: 6
  selector:
    matchLabels:
      app: shop
  template:
    cloneSetTemplate:
      metadata:
        labels:
          app: shop
      spec:
        template:
          metadata:
            labels:
              app: shop
          spec:
            containers:
            - name: shop
              image: registry.example/shop:1
  topology:
    subsets:
    - name: zone-a
      nodeSelectorTerm:
        matchExpressions:
        - {key: topology.kubernetes.io/zone, operator: In, values: [a]}
      replicas: 2
    - name: zone-b
      nodeSelectorTerm:
        matchExpressions:
        - {key: topology.kubernetes.io/zone, operator: In, values: [b]}
      tolerations:
      - {key: pool, operator: Equal, value: b, effect: NoSchedule}
`

// podSpec is a child's spec with the label app and one container, for templates of the other kinds.
const podSpec = "{template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: shop, image: i}]}}}"

func testUnitedDeploymentRules(t *testing.T, s *server) {
	const (
		subsets  = "spec.topology.subsets"
		strategy = "spec.topology.scheduleStrategy"
		template = "spec.template"
		child    = "spec.template.cloneSetTemplate.spec"
	)
	s.check(t, unitedDeployment, []rule{
		{name: "as it is", edit: named("shop")},
		{name: "name of 39 with subset names of 6", edit: named(strings.Repeat("a", 39))},
		{name: "name of 40 with subset names of 6", edit: named(strings.Repeat("a", 40)),
			says: []string{"at most 45 characters together", "zone-a", "zone-b", "choose shorter names"}},
		{name: "name of 52 over Deployments", edit: all(named(strings.Repeat("a", 52)),
			set(template, "{deploymentTemplate: {spec: "+podSpec+"}}"))},
		{name: "name of 53", edit: all(named(strings.Repeat("a", 53)), remove("spec.topology")),
			says: []string{"has 53 characters", "at most 52", "choose a shorter name"}},

		{name: "Case9: the largest deadline means none",
			edit: all(set(child+".minReadySeconds", "2147483647"), set(child+".progressDeadlineSeconds", "2147483647"))},
		{name: "Case9: one second less is a deadline", edit: all(set(child+".minReadySeconds", "2147483646"),
			set(child+".progressDeadlineSeconds", "2147483646")),
			says: []string{child + ".progressDeadlineSeconds", "is not greater than minReadySeconds"}},
		{name: "no selector", edit: remove("spec.selector"), says: []string{"spec.selector", "selector is missing or empty"}},
		{name: "empty selector", edit: set("spec.selector", "{matchLabels: {}}"),
			says: []string{"selector is missing or empty"}},
		{name: "other labels in CloneSets", edit: set(child+".template.metadata.labels", "{app: web}"),
			says: []string{"spec.selector", "does not match the labels of " +
				"template.cloneSetTemplate.spec.template.metadata.labels"}},
		{name: "Deployments", edit: set(template, "{deploymentTemplate: {spec: "+podSpec+"}}")},
		{name: "other labels in Deployments", edit: set(template,
			"{deploymentTemplate: {spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a}]}}}}}"),
			says: []string{"does not match the labels of template.deploymentTemplate"}},
		{name: "Deployments without a template", edit: set(template, "{deploymentTemplate: {spec: {}}}"),
			says: []string{"does not match the labels of template.deploymentTemplate"}},
		{name: "StatefulSets", edit: set(template, "{statefulSetTemplate: {spec: "+podSpec+"}}")},
		{name: "other labels in StatefulSets", edit: set("spec.selector.matchLabels", "{app: web}"),
			says: []string{"does not match"}},
		{name: "advanced StatefulSets", edit: set(template, "{advancedStatefulSetTemplate: {spec: "+podSpec+"}}")},
		{name: "advanced StatefulSets that never update",
			edit: set(template, "{advancedStatefulSetTemplate: {spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 0}}, "+
				"template: {}}}}"),
			says: []string{"advancedStatefulSetTemplate.spec.updateStrategy.rollingUpdate.maxUnavailable",
				"maxUnavailable is 0"}},
		{name: "advanced StatefulSets with a wrong range",
			edit: set(template, `{advancedStatefulSetTemplate: {spec: {reserveOrdinals: ["1-"], template: {}}}}`),
			says: []string{"advancedStatefulSetTemplate.spec.reserveOrdinals[0]", `"1-"`, "should match"}},
		{name: "other labels in advanced StatefulSets", edit: all(set(template,
			"{advancedStatefulSetTemplate: {spec: "+podSpec+"}}"), set("spec.selector.matchLabels", "{app: web}")),
			says: []string{"does not match the labels of template.advancedStatefulSetTemplate"}},
		{name: "selector changes", first: named("selector-changes"),
			edit: all(set("spec.selector.matchLabels", "{app: shop, tier: a}"),
				set(child+".template.metadata.labels", "{app: shop, tier: a}")),
			says: []string{"spec.selector", "selector cannot change"}},

		{name: "no template", edit: remove(template), says: []string{"spec.template", "Required"}},
		{name: "empty template", edit: set(template, "{}"), says: []string{"template needs exactly one of"}},
		{name: "two templates", edit: set(template+".deploymentTemplate", "{spec: "+podSpec+"}"),
			says: []string{"spec.template", "template needs exactly one of", "remove the others"}},
		{name: "another template kind", first: named("another-kind"),
			edit: set(template, "{deploymentTemplate: {spec: "+podSpec+"}}")},
		{name: "restartPolicy in a Deployment", edit: set(template,
			"{deploymentTemplate: {spec: {template: {metadata: {labels: {app: shop}}, spec: {restartPolicy: Never, "+
				"containers: [{name: a}]}}}}}"), says: []string{"restartPolicy must be Always"}},
		{name: "limits in a CloneSet", edit: set(child+".updateStrategy.rollingUpdate", "{maxUnavailable: 0}"),
			says: []string{"are both 0"}},

		{name: "no subsets", edit: remove("spec.topology")},
		{name: "subset names twice", edit: set(subsets, "[{name: a}, {name: b}, {name: a}]"),
			says: []string{"spec.topology.subsets[2]", "Duplicate", `"a"`}},
		{name: "subset without name", edit: set(subsets, "[{replicas: 1}]"),
			says: []string{"spec.topology.subsets[0].name", "Required"}},
		{name: "subset name with capitals", edit: set(subsets, "[{name: ZoneA}]"),
			says: []string{"spec.topology.subsets[0].name", "ZoneA", "must be a DNS label"}},
		{name: "subset name with a dot", edit: set(subsets, "[{name: a.b}]"), says: []string{"a.b", "must be a DNS label"}},

		{name: "term changes", first: named("term-changes"),
			edit: set(subsets, "[{name: zone-a, nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, "+
				"operator: In, values: [c]}]}}, {name: zone-b, nodeSelectorTerm: {matchExpressions: [{key: "+
				"topology.kubernetes.io/zone, operator: In, values: [b]}]}, tolerations: [{key: pool, operator: Equal, value: b, "+
				"effect: NoSchedule}]}]"),
			says: []string{"spec.topology.subsets[0].nodeSelectorTerm", "nodeSelectorTerm of subset zone-a cannot change",
				"add a subset of another name"}},
		{name: "term goes", first: named("term-goes"), edit: set(subsets, "[{name: zone-a}]"),
			says: []string{"nodeSelectorTerm of subset zone-a cannot change"}},
		{name: "term comes", first: all(named("term-comes"), set(subsets, "[{name: zone-a}]")),
			edit: set(subsets, "[{name: zone-a, nodeSelectorTerm: {matchFields: [{key: metadata.name, operator: In, values: "+
				"[node-1]}]}}]"), says: []string{"nodeSelectorTerm of subset zone-a cannot change"}},
		{name: "an empty term comes", first: all(named("empty-term-comes"), set(subsets, "[{name: zone-a}]")),
			edit: set(subsets, "[{name: zone-a, nodeSelectorTerm: {}, tolerations: []}]")},
		{name: "tolerations change", first: all(named("tolerations-change"), set(subsets, "[{name: zone-a}]")),
			edit: set(subsets, "[{name: zone-a, tolerations: [{operator: Exists}]}]"),
			says: []string{"spec.topology.subsets[0].tolerations", "tolerations of subset zone-a cannot change",
				"add a subset of another name"}},
		{name: "subsets come, go and change places", first: all(named("subsets-come"),
			set(subsets, "[{name: a, tolerations: [{operator: Exists}]}, {name: b}]")),
			edit: set(subsets, "[{name: c}, {name: a, tolerations: [{operator: Exists}]}]")},
		{name: "unknown node operator", edit: set(subsets,
			"[{name: a, nodeSelectorTerm: {matchExpressions: [{key: k, operator: Equals, values: [v]}]}}]"),
			says: []string{"operator", `"Equals"`}},

		{name: "replicas and min", edit: set(subsets, "[{name: a, replicas: 1, minReplicas: 1}, {name: b}]"),
			says: []string{"spec.topology.subsets[0]", "subset a has replicas and also minReplicas or maxReplicas",
				"remove one"}},
		{name: "replicas and max", edit: set(subsets, "[{name: a, replicas: 1, maxReplicas: 1}, {name: b}]"),
			says: []string{"subset a has replicas and also"}},
		{name: "min and max", edit: set(subsets, "[{name: a, minReplicas: 1, maxReplicas: 1}, {name: b, minReplicas: 50%, "+
			"maxReplicas: 50%}, {name: c}]")},
		{name: "min above max", edit: set(subsets, "[{name: a, minReplicas: 3, maxReplicas: 2}, {name: b}]"),
			says: []string{"spec.topology.subsets[0].minReplicas", "subset a: minReplicas 3 is greater than maxReplicas 2",
				"lower minReplicas or raise maxReplicas"}},
		{name: "min% above max%", edit: set(subsets, "[{name: a, minReplicas: 10%, maxReplicas: 9%}, {name: b}]"),
			says: []string{"minReplicas 10% is greater than maxReplicas 9%"}},
		{name: "100% above 99%", edit: set(subsets, "[{name: a, minReplicas: 100%, maxReplicas: 99%}, {name: b}]"),
			says: []string{"minReplicas 100% is greater than maxReplicas 99%"}},
		{name: "min% below max%", edit: set(subsets, "[{name: a, minReplicas: 9%, maxReplicas: 10%}, {name: b}]")},
		{name: "number against percentage", edit: set(subsets,
			"[{name: a, minReplicas: 9, maxReplicas: 10%}, {name: b, minReplicas: 90%, maxReplicas: 1}, {name: c}]")},
		{name: "negative replicas", edit: set(subsets, "[{name: a, replicas: -1}, {name: b}]"),
			says: []string{"spec.topology.subsets[0].replicas", "replicas is -1", "integer of 0 or more"}},
		{name: "negative min", edit: set(subsets, "[{name: a, minReplicas: -1}, {name: b}]"),
			says: []string{"minReplicas is -1"}},
		{name: "max of 101%", edit: set(subsets, "[{name: a, maxReplicas: 101%}, {name: b}]"),
			says: []string{"spec.topology.subsets[0].maxReplicas", "maxReplicas is 101%", "from 0% to 100%"}},
		{name: "every subset has max", edit: set(subsets, "[{name: a, maxReplicas: 5}, {name: b, maxReplicas: 100%}]"),
			says: []string{"spec.topology.subsets", "every subset has maxReplicas", "remove maxReplicas of at least one"}},

		{name: "thirds", edit: set(subsets, "[{name: a, replicas: 33%}, {name: b, replicas: 33%}, {name: c, replicas: "+
			"33%}]")},
		{name: "100%", edit: set(subsets, "[{name: a, replicas: 5%}, {name: b, replicas: 95%}, {name: c}]")},
		{name: "101%", edit: set(subsets, "[{name: a, replicas: 7%}, {name: b, replicas: 94%}, {name: c}]"),
			says: []string{"spec.topology.subsets", "the percentages of replicas are 101% together", "lower them"}},
		{name: "100% in tens", edit: set(subsets, "[{name: a, replicas: 10%}, {name: b, replicas: 19%}, {name: c, "+
			"replicas: 71%}]")},
		{name: "102% in tens", edit: set(subsets, "[{name: a, replicas: 10%}, {name: b, replicas: 20%}, {name: c, "+
			"replicas: 72%}]"), says: []string{"are 102% together"}},
		{name: "103% by a zero", edit: set(subsets, "[{name: a, replicas: 0%}, {name: b, replicas: 99%}, {name: c, "+
			"replicas: 4%}]"), says: []string{"are 103% together"}},
		{name: "200%", edit: set(subsets, "[{name: a, replicas: 100%}, {name: b, replicas: 100%}]"),
			says: []string{"are 200% together"}},
		{name: "all specified, not the sum", edit: set(subsets, "[{name: a, replicas: 30}, {name: b, replicas: 10}]")},
		{name: "open subset gets none", edit: set(subsets, "[{name: a, replicas: 5}, {name: b, replicas: 2}, {name: c}]"),
			says: []string{"spec.topology.subsets", "the subsets ask for 7 replicas together, spec.replicas is 6",
				"raise spec.replicas"}},
		{name: "open subset gets none later", first: named("open-later"),
			edit: set(subsets, "[{name: c, replicas: 7}, {name: d}]"),
			says: []string{"the subsets ask for 7 replicas together, spec.replicas is 6"}},
		{name: "scaled below the numbers", first: named("scaled-below"), edit: set("spec.replicas", "1")},
		{name: "numbers of replicas by default", edit: all(remove("spec.replicas"),
			set(subsets, "[{name: a, replicas: 2}, {name: b}]")),
			says: []string{"ask for 2 replicas together, spec.replicas is 1"}},

		{name: "Adaptive", edit: all(set(strategy, "{type: Adaptive, adaptive: {rescheduleCriticalSeconds: 10}}"),
			set(subsets, "[{name: a, maxReplicas: 2}, {name: b}]"))},
		{name: "Adaptive with replicas", edit: set(strategy, "{type: Adaptive}"),
			says: []string{"spec.topology", "replicas is fixed for [\"zone-a\"]", "use minReplicas and maxReplicas"}},
		{name: "unknown strategy", edit: set(strategy, "{type: Random}"),
			says: []string{"scheduleStrategy.type", `"Random"`, "Adaptive", "Fixed"}},
		{name: "negative critical seconds", edit: set(strategy, "{adaptive: {rescheduleCriticalSeconds: -1}}"),
			says: []string{"rescheduleCriticalSeconds", "-1"}},

		{name: "partitions", edit: set("spec.updateStrategy",
			"{type: Manual, manualUpdate: {partitions: {zone-a: 1, zone-b: 0}}}")},
		{name: "partition of no subset", edit: set("spec.updateStrategy",
			"{manualUpdate: {partitions: {zone-a: 1, zone-x: 2}}}"),
			says: []string{"spec.updateStrategy.manualUpdate.partitions", "does not have: [\"zone-x\"]", "correct the names"}},
		{name: "partition without subsets", edit: all(remove("spec.topology"),
			set("spec.updateStrategy", "{manualUpdate: {partitions: {zone-a: 1}}}")),
			says: []string{"does not have: [\"zone-a\"]"}},
		{name: "negative partition", edit: set("spec.updateStrategy", "{manualUpdate: {partitions: {zone-a: -1}}}"),
			says: []string{"partitions", "it is negative for [\"zone-a\"]"}},
		{name: "unknown update type", edit: set("spec.updateStrategy", "{type: Auto}"),
			says: []string{"spec.updateStrategy.type", `"Auto"`, "Manual"}},
		{name: "negative replicas of the whole", edit: set("spec.replicas", "-1"), says: []string{"spec.replicas", "-1"}},
		{name: "as many subsets as there may be, by percentages",
			edit: all(named("many"), many(512, `{"name": "s%d", "replicas": "0%%", "nodeSelectorTerm": {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-%[1]d"]}]}}`))},
		{name: "as many subsets as there may be, by bounds",
			edit: all(named("many"), many(512, `{"name": "s%d", "minReplicas": "98%%"}`))},
		{name: "as many subsets as there may be, update",
			first: all(named("many-update"), many(512, `{"name": "s%d", "minReplicas": "98%%", "tolerations": [{"key": "zone-%[1]d", "operator": "Exists"}]}`)),
			edit:  many(512, `{"name": "s%d", "minReplicas": "99%%", "tolerations": [{"key": "zone-%[1]d", "operator": "Exists"}]}`)},
		{name: "one subset more", edit: many(513, `{"name": "s%d"}`), says: []string{"spec.topology.subsets", "512"}},
		{name: "patch", edit: set(subsets, "[{name: a, patch: {metadata: {labels: {z: a}}, spec: {containers: [{name: "+
			"shop, env: [{name: A, value: b}]}]}}}]")},
	})
}

// many gives the object n subsets, each with a partition.
func many(n int, subset string) edit {
	subsets, partitions := make([]string, n), make([]string, n)
	for i := range n {
		subsets[i] = fmt.Sprintf(subset, i)
		partitions[i] = fmt.Sprintf(`"s%d": 1`, i)
	}
	return all(set("spec.topology.subsets", "["+strings.Join(subsets, ",")+"]"),
		set("spec.updateStrategy.manualUpdate.partitions", "{"+strings.Join(partitions, ",")+"}"))
}
