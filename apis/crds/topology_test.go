package crds_test

import (
	"strings"
	"testing"
)

const policy = `
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata:
  name: all
  namespace: default
spec:
  workloads:
  - kind: CloneSet
`

const memberCluster = `
apiVersion: topology.flotilla.dev/v1alpha1
kind: MemberCluster
metadata:
  name: east
spec:
  accepted: true
  clusterID: 0b5b8cb7-3dd5-4a0b-9e1e-0d7a1f2c5a11
`

const workloadPlacement = `
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata:
  name: cloneset-web
  namespace: default
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: web, uid: a, generation: 1}
  replicas: 3
  placed: 3
  sequence: 2
  revisionSequence: 2
`

const work = `
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata:
  name: default.web.cloneset
  namespace: default
spec:
  workload:
    manifests:
    - apiVersion: apps.kruise.io/v1beta1
      kind: CloneSet
      metadata:
        name: web
        labels: {anything: goes}
      spec:
        any: thing
`

// handOver is a failover that hands values over.
func handOver(values string) string { return "{mode: Fence, handOver: {" + values + "}}" }

func testTopologyRules(t *testing.T, s *server) {
	t.Run("FederationPolicy", func(t *testing.T) {
		const workloads, overrides = "spec.workloads", "spec.overrides"
		s.check(t, policy, []rule{
			{name: "as it is", edit: named("all")},
			{name: "no workloads", edit: set(workloads, "[]"), says: []string{"spec.workloads", "at least 1"}},
			{name: "by name", edit: set(workloads, "[{kind: CloneSet, name: web}]")},
			{name: "by labels", edit: set(workloads, "[{kind: CloneSet, selector: {matchLabels: {a: b}}}]")},
			{name: "by both", edit: set(workloads, "[{kind: CloneSet, name: web, selector: {matchLabels: {a: b}}}]"),
				says: []string{"spec.workloads[0]", "has name and selector", "give one of them"}},
			{name: "unknown kind is a condition", edit: set(workloads, "[{kind: Clone}]")},
			{name: "empty kind", edit: set(workloads, `[{kind: ""}]`),
				says: []string{"spec.workloads[0].kind", "kind is empty", "name the kind"}},
			{name: "unknown operator", edit: set(workloads,
				"[{kind: CloneSet, selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}]"),
				says: []string{"operator", `"Equals"`}},
			{name: "clusters", edit: set("spec.clusters", "{names: [east, west], selector: {matchLabels: {a: b}}}")},
			{name: "tolerations", edit: set("spec.clusters",
				"{tolerations: [{key: a, operator: Exists}, {key: b, value: c, effect: NoSchedule}]}")},
			{name: "toleration of nothing known", edit: set("spec.clusters", "{tolerations: [{key: a, operator: Has}]}"),
				says: []string{"spec.clusters.tolerations", "unknown operator or effect", "Exists or Equal"}},
			{name: "places", edit: set("spec.spread", "{by: Zone, type: Weighted, maxSkew: 2, places: [{zone: a, weight: 0, "+
				"min: 1, max: 50%}, {cluster: east}, {cluster: east, zone: a}]}")},
			{name: "place of nothing", edit: set("spec.spread", "{places: [{min: 1}]}"),
				says: []string{"spec.spread.places[0]", "names nothing", "give region, zone or cluster"}},
			{name: "place twice", edit: set("spec.spread", "{places: [{zone: a, min: 1}, {zone: a, max: 2}]}"),
				says: []string{"spec.spread.places", "two entries", "give one entry"}},
			{name: "min above max", edit: set("spec.spread", "{places: [{zone: a, min: 3, max: 2}]}"),
				says: []string{"spec.spread.places[0].min", "min 3 is greater than max 2", "lower min or raise max"}},
			{name: "min above max in percent", edit: set("spec.spread", "{places: [{zone: a, min: 30%, max: 20%}]}"),
				says: []string{"min 30% is greater than max 20%"}},
			{name: "no percentage", edit: set("spec.spread", "{places: [{zone: a, max: 120%}]}"),
				says: []string{"spec.spread.places[0].max", "max is 120%", "0% to 100%"}},
			{name: "weight that has no effect", edit: set("spec.spread", "{places: [{zone: a, weight: 2}]}"),
				says: []string{"spec.spread.places", "only type Weighted", "remove the weight"}},
			{name: "negative weight", edit: set("spec.spread", "{type: Weighted, places: [{zone: a, weight: -2}]}"),
				says: []string{"spec.spread.places[0].weight", "greater than or equal to 0"}},
			{name: "skew of nothing", edit: set("spec.spread", "{maxSkew: 0}"),
				says: []string{"spec.spread.maxSkew", "greater than or equal to 1"}},
			{name: "cluster twice", edit: set("spec.clusters", "{names: [east, east]}"),
				says: []string{"spec.clusters.names[1]", "Duplicate"}},
			{name: "cluster with capitals", edit: set("spec.clusters", "{names: [east, West]}"),
				says: []string{"spec.clusters.names", "West", "DNS label"}},
			{name: "by Zone", edit: set("spec.spread", "{by: Zone, type: Even}")},
			{name: "by Rack", edit: set("spec.spread", "{by: Rack}"), says: []string{"spec.spread.by", "Rack", "Zone"}},
			{name: "unknown type", edit: set("spec.spread", "{type: Random}"),
				says: []string{"spec.spread.type", "Random", "Even"}},
			{name: "waves", edit: set("spec.rollout", `{strategy: Waves, waves: [{name: a, clusters: {names: [east], selector: {matchLabels: {a: b}}}, zones: [a], subsets: [b], size: 10%, soak: 1h30m, timeout: 90s, approval: Required, checks: [{name: a, expression: "true", patience: 0s}]}, {name: b, size: 3}]}`)},
			{name: "steps", edit: set("spec.rollout", `{steps: [{partition: 90%, soak: 10m, timeout: 1h, approval: Required}, {partition: 50%, checks: [{name: a, expression: "true"}]}, {partition: 5}, {partition: 0}]}`)},
			{name: "a step of more than all", edit: set("spec.rollout", "{steps: [{partition: 101%}]}"),
				says: []string{"spec.rollout.steps[0].partition", "partition is 101%", "100%"}},
			{name: "a step of text", edit: set("spec.rollout", "{steps: [{partition: half}]}"),
				says: []string{"spec.rollout.steps[0].partition", "partition is half"}},
			{name: "steps and waves", edit: set("spec.rollout",
				"{strategy: Waves, waves: [{name: a}], steps: [{partition: 3}]}"),
				says: []string{"spec.rollout.steps", "strategy is not Proportional", "remove steps"}},
			{name: "waves without waves", edit: set("spec.rollout", "{strategy: Waves}"),
				says: []string{"spec.rollout.waves", "there are no waves", "list them"}},
			{name: "waves that do not count", edit: set("spec.rollout", "{waves: [{name: a}]}"),
				says: []string{"spec.rollout.waves", "strategy is not Waves", "set strategy: Waves"}},
			{name: "waves with a capital", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: A}]}"),
				says: []string{"spec.rollout.waves[0].name", "name A is no DNS label"}},
			{name: "two waves of a name", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: a}, {name: a}]}"),
				says: []string{"spec.rollout.waves[1]", "Duplicate"}},
			{name: "size in halves", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: a, size: 0%}]}"),
				says: []string{"spec.rollout.waves[0].size", "size is 0%", "1% to 100%"}},
			{name: "size above all", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: a, size: 110%}]}"),
				says: []string{"spec.rollout.waves[0].size", "size is 110%", "1% to 100%"}},
			{name: "size of nothing", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: a, size: 0}]}"),
				says: []string{"spec.rollout.waves[0].size", "from 1"}},
			{name: "soak in days", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: a, soak: 2d}]}"),
				says: []string{"spec.rollout.waves[0].soak", "soak 2d", "such as 10m"}},
			{name: "timeout of nothing", edit: set("spec.rollout", "{strategy: Waves, waves: [{name: a, timeout: 0s}]}"),
				says: []string{"spec.rollout.waves[0].timeout", "timeout 0s", "such as 10m"}},
			{name: "check of nothing", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, expression: ""}]}]}`),
				says: []string{"spec.rollout.waves[0].checks[0].expression", "at least 1"}},
			{name: "checks of all kinds", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, http: {url: "https://metrics.example:9090/api?query=up%20", expression: "json.x < 3", interval: 5s, timeout: 1s, failureLimit: 0, caBundle: Y2E=}}, {name: b, http: {url: "http://[fd00::1]/x@y"}}, {name: c, job: {template: {metadata: {labels: {a: b}}, spec: {any: thing}}}}]}]}`)},
			{name: "check of neither", edit: set("spec.rollout", `{strategy: Waves, waves: [{name: a, checks: [{name: a}]}]}`),
				says: []string{"spec.rollout.waves[0].checks[0]", "check a has 0 of expression, http and job", "give one"}},
			{name: "check of two", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, expression: "true", http: {url: "http://a"}}]}]}`),
				says: []string{"check a has 2 of expression, http and job"}},
			{name: "url of a file", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, http: {url: "file:///etc/passwd"}}]}]}`),
				says: []string{"checks[0].http.url", "file:///etc/passwd is no address", "http:// or https://"}},
			{name: "url with a user", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, http: {url: "http://me:word@host/"}}]}]}`),
				says: []string{"checks[0].http.url", "without a user's name"}},
			{name: "asked too often", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, http: {url: "http://a", interval: 1s}}]}]}`),
				says: []string{"http.interval", "interval 1s is no duration from 5s to 24h"}},
			{name: "asked for too long", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, http: {url: "http://a", timeout: 2m}}]}]}`),
				says: []string{"http.timeout", "timeout 2m is no duration from 1s to 1m"}},
			{name: "no failures", edit: set("spec.rollout",
				`{strategy: Waves, waves: [{name: a, checks: [{name: a, http: {url: "http://a", failureLimit: -1}}]}]}`),
				says: []string{"http.failureLimit", "greater than or equal to 0"}},
			{name: "rollback", edit: set("spec.rollout", "{strategy: Waves, onFailure: Rollback, waves: [{name: a}]}")},
			{name: "retreat", edit: set("spec.rollout", "{strategy: Waves, onFailure: Retreat, waves: [{name: a}]}"),
				says: []string{"spec.rollout.onFailure", "onFailure Retreat is not known", "use Pause or Rollback"}},
			{name: "override", edit: set(overrides, `[{clusters: {names: [east], selector: {matchLabels: {a: b}}}, zones: [a], imageRegistry: "mirror.example:5000/hub", env: [{name: A, value: b}], labels: {a: b}, annotations: {a: b}}]`)},
			{name: "patch", edit: set(overrides, `[{patch: [{op: add, path: /spec/template/spec/priorityClassName, value: high}, {op: test, path: /spec/replicas, value: 3}, {op: replace, path: /spec/template/spec/tolerations, value: [{key: a}]}, {op: remove, path: /spec/lifecycle}]}]`)},
			{name: "override of nothing", edit: set(overrides, "[{clusters: {names: [east]}}]"),
				says: []string{"spec.overrides[0]", "changes nothing", "give imageRegistry"}},
			{name: "registry with a scheme", edit: set(overrides, `[{imageRegistry: "https://mirror.example"}]`),
				says: []string{"spec.overrides[0].imageRegistry", "https://mirror.example", "no scheme"}},
			{name: "our label", edit: set(overrides, "[{labels: {topology.flotilla.dev/hub: a}}]"),
				says: []string{"spec.overrides[0].labels", "the hub's own"}},
			{name: "our annotation", edit: set(overrides, "[{annotations: {topology.flotilla.dev/sequence: a}}]"),
				says: []string{"spec.overrides[0].annotations", "the hub's own"}},
			{name: "patch without a slash", edit: set(overrides, "[{patch: [{op: add, path: spec, value: 1}]}]"),
				says: []string{"spec.overrides[0].patch[0].path", "path spec is no JSON pointer"}},
			{name: "patch of replicas", edit: set(overrides, "[{patch: [{op: replace, path: /spec/replicas, value: 1}]}]"),
				says: []string{"spec.overrides[0].patch[0]", "cannot change /spec/replicas", "remove the operation"}},
			{name: "patch of a mark", edit: set(overrides, "[{patch: [{op: remove, path: "+
				"/metadata/annotations/topology.flotilla.dev~1sequence}]}]"),
				says: []string{"cannot change /metadata/annotations/topology.flotilla.dev~1sequence"}},
			{name: "reschedule", edit: set("spec.reschedule", "{}")},
			{name: "reschedule after", edit: set("spec.reschedule", "{after: 1h30m}")},
			{name: "reschedule too soon", edit: set("spec.reschedule", "{after: 10s}"),
				says: []string{"spec.reschedule.after", "after is 10s", "from 15s", "to 24h"}},
			{name: "reschedule too late", edit: set("spec.reschedule", "{after: 25h}"),
				says: []string{"spec.reschedule.after", "after is 25h", "to 24h"}},
			{name: "hand-over", edit: set("spec.failover", handOver(`labels: [role], annotations: [db.example.com/checkpoint, Last-ID_2], status: [{name: revision, jsonPath: "{.status.updateRevision}"}, {name: backup, jsonPath: '{.status.conditions[?(@.type=="Backup")].message}'}, {name: deep, jsonPath: "{.status.a[0].b-c}"}]`))},
			{name: "hand-over without Fence", edit: set("spec.failover", "{mode: Replace, handOver: {labels: [role]}}"),
				says: []string{"spec.failover.handOver", "does not go with mode Replace", "set mode: Fence"}},
			{name: "hand-over by default", edit: set("spec.failover", "{handOver: {labels: [role]}}"),
				says: []string{"spec.failover.handOver", "does not go with mode Never", "or remove handOver"}},
			{name: "hand-over of nothing", edit: set("spec.failover", handOver("labels: []")),
				says: []string{"spec.failover.handOver", "names 0 values", "name 1 to 16"}},
			{name: "hand-over of too much", edit: set("spec.failover",
				handOver("labels: [a1, a2, a3, a4, a5, a6, a7, a8, a9], annotations: [b1, b2, b3, b4, b5, b6, b7, b8]")),
				says: []string{"spec.failover.handOver", "names 17 values", "name 1 to 16"}},
			{name: "one variable for a label and an annotation",
				edit: set("spec.failover", handOver("labels: [a/last-id], annotations: [b/Last.ID]")),
				says: []string{"spec.failover.handOver", "FLOTILLA_HANDOVER_LAST_ID", "or rename it"}},
			{name: "one variable for a label and a status",
				edit: set("spec.failover", handOver(`labels: [a/x, a/z], status: [{name: Z, jsonPath: "{.status.a}"}]`)),
				says: []string{"FLOTILLA_HANDOVER_Z", "leave one of them out"}},
			{name: "no key of a label", edit: set("spec.failover", handOver("labels: [a/b/c]")),
				says: []string{"spec.failover.handOver.labels", `["a/b/c"] is no key of a label`, "[prefix/]name"}},
			{name: "no key of an annotation", edit: set("spec.failover", handOver("annotations: [-a]")),
				says: []string{"spec.failover.handOver.annotations", `["-a"] is no key of an annotation`}},
			{name: "no name of a value", edit: set("spec.failover", handOver(`status: [{name: a/b, jsonPath: "{.status.a}"}]`)),
				says: []string{"spec.failover.handOver.status[0].name", "name a/b is no name"}},
			{name: "path outside of the status", edit: set("spec.failover",
				handOver(`status: [{name: a, jsonPath: "{.spec.replicas}"}]`)),
				says: []string{"spec.failover.handOver.status[0].jsonPath", "{.spec.replicas} cannot be read", "below .status"}},
			{name: "path without end", edit: set("spec.failover", handOver(`status: [{name: a, jsonPath: "{.status.a[0}"}]`)),
				says: []string{"spec.failover.handOver.status[0].jsonPath", "cannot be read"}},
			{name: "path with a range", edit: set("spec.failover",
				handOver(`status: [{name: a, jsonPath: "{range .status.a[*]}{.b}{end}"}]`)),
				says: []string{"spec.failover.handOver.status[0].jsonPath", "cannot be read"}},
			{name: "reschedule and Fence", edit: all(set("spec.reschedule", "{}"), set("spec.failover", "{mode: Fence}")),
				says: []string{"spec.reschedule", "does not go with failover.mode Fence", "remove reschedule"}},
			{name: "reschedule at no time", edit: set("spec.reschedule", "{after: soon}"),
				says: []string{"spec.reschedule.after", "after soon is no duration", "such as 1m or 90s"}},
			{name: "patch that moves", edit: set(overrides, "[{patch: [{op: move, path: /spec/a}]}]"),
				says: []string{"spec.overrides[0].patch[0].op", "move", "replace"}},
		})
	})
	t.Run("ClusterFederationPolicy", func(t *testing.T) {
		kind := edit(func(u *object) { u.SetKind("ClusterFederationPolicy"); u.SetNamespace("") })
		s.check(t, policy, []rule{
			{name: "as it is", edit: kind},
			{name: "empty kind", edit: all(kind, set("spec.workloads", `[{kind: ""}]`)), says: []string{"kind is empty"}},
		})
	})
	t.Run("MemberCluster", func(t *testing.T) {
		s.check(t, memberCluster, []rule{
			{name: "as it is", edit: named("east")},
			{name: "without spec", edit: remove("spec")},
			{name: "name of 52", edit: named(strings.Repeat("a", 52))},
			{name: "name of 53", edit: named(strings.Repeat("a", 53)),
				says: []string{"has 53 characters", "DNS label of at most 52", "choose a shorter"}},
			{name: "name with a dot", edit: named("east.example"), says: []string{"east.example", "DNS label"}},
			{name: "id is given", first: all(named("id-given"), remove("spec.clusterID")), edit: set("spec.clusterID", "abc")},
			{name: "id changes", first: named("id-changes"), edit: set("spec.clusterID", "abc"),
				says: []string{"spec.clusterID", "clusterID is pinned to 0b5b8cb7", "delete this MemberCluster and join again"}},
			{name: "id goes", first: named("id-goes"), edit: remove("spec.clusterID"),
				says: []string{"clusterID is pinned to 0b5b8cb7"}},
			{name: "spec goes", first: named("spec-goes"), edit: remove("spec"),
				says: []string{"clusterID is pinned to 0b5b8cb7"}},
			{name: "the rest changes", first: named("rest-changes"),
				edit: all(set("spec.accepted", "false"), set("spec.region", "eu-1"), set("spec.weight", "5"),
					set("spec.taints", "[{key: a, effect: NoSchedule}]"))},
			{name: "region is no label value", edit: set("spec.region", "eu west"),
				says: []string{"spec.region", "eu west", "value of a label"}},
			{name: "negative weight", edit: set("spec.weight", "-1"), says: []string{"spec.weight", "-1"}},
			{name: "unknown effect", edit: set("spec.taints", "[{key: a, effect: Never}]"),
				says: []string{"spec.taints", "NoSchedule, PreferNoSchedule or NoExecute"}},
		})
	})
	t.Run("WorkloadPlacement", func(t *testing.T) {
		wave := func(number, of string) edit {
			return set("spec.wave", `{number: `+number+`, of: `+of+`, since: "2026-03-01T15:00:00Z"}`)
		}
		s.check(t, workloadPlacement, []rule{
			{name: "a template and a wave", edit: all(wave("1", "1"), set("spec.template", "{spec: {any: [thing]}}"))},
			{name: "wave 0", edit: wave("0", "1"), says: []string{"spec.wave.number", "greater than or equal to 1"}},
			{name: "wave of none", edit: wave("1", "0"), says: []string{"spec.wave.of", "greater than or equal to 1"}},
		})
	})
	t.Run("Work", func(t *testing.T) {
		s.check(t, work, []rule{
			{name: "as it is", edit: named("w")},
			{name: "no manifest list", edit: set("spec.workload.manifests", "a"),
				says: []string{"spec.workload.manifests", "array"}},
		})
	})
}
