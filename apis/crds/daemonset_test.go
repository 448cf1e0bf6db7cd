package crds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const daemonSet = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata:
  name: log
  namespace: default
spec:
  selector:
    matchLabels:
      app: log
  template:
    metadata:
      labels:
        app: log
    spec:
      containers:
      - name: log
        image: registry.example/log:1
`

// annotated gives the object an annotation.
func annotated(key, value string) edit {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{key: value}) }
}

func testDaemonSetRules(t *testing.T, s *server) {
	const rolling = "spec.updateStrategy.rollingUpdate"
	s.check(t, daemonSet, []rule{
		{name: "as it is", edit: named("log")},
		{name: "no selector", edit: remove("spec.selector"),
			says: []string{"spec.selector", "selector is missing or empty", "give matchLabels"}},
		{name: "empty selector", edit: set("spec.selector", "{}"), says: []string{"selector is missing or empty"}},
		{name: "selector of another label", edit: set("spec.selector.matchLabels", "{app: web}"),
			says: []string{"spec.selector", "does not match the labels of template.metadata.labels", "give the template"}},
		{name: "selector changes", first: named("selector-changes"),
			edit: all(set("spec.selector.matchLabels", "{app: web}"), set("spec.template.metadata.labels", "{app: web}")),
			says: []string{"spec.selector", "selector cannot change", "set it back"}},
		{name: "restartPolicy Never", edit: set("spec.template.spec.restartPolicy", "Never"),
			says: []string{"spec.template.spec.restartPolicy", "must be Always"}},
		{name: "activeDeadlineSeconds", edit: set("spec.template.spec.activeDeadlineSeconds", "60"),
			says: []string{"spec.template.spec.activeDeadlineSeconds", "cannot be set"}},
		{name: "no containers", edit: set("spec.template.spec.containers", "[]"), says: []string{"has no containers"}},
		{name: "everything that may change", first: named("may-change"), edit: all(
			set("spec.burstReplicas", "10%"), set("spec.minReadySeconds", "5"), set("spec.revisionHistoryLimit", "3"),
			set("spec.template.metadata.labels.tier", "a"), set("spec.updateStrategy", "{type: OnDelete}"),
			set("spec.lifecycle", "{preDelete: {labelsHandler: {a: b}}}"))},

		{name: "negative minReadySeconds", edit: set("spec.minReadySeconds", "-1"),
			says: []string{"spec.minReadySeconds", "-1"}},
		{name: "negative history", edit: set("spec.revisionHistoryLimit", "-1"),
			says: []string{"spec.revisionHistoryLimit", "-1"}},
		{name: "burst of 0", edit: set("spec.burstReplicas", "0")},
		{name: "negative burst", edit: set("spec.burstReplicas", "-1"),
			says: []string{"spec.burstReplicas", "burstReplicas is -1", "integer of 0 or more"}},
		{name: "burst of 101%", edit: set("spec.burstReplicas", "101%"), says: []string{"burstReplicas is 101%"}},
		{name: "the hook inPlaceUpdate", edit: set("spec.lifecycle", "{inPlaceUpdate: {labelsHandler: {a: b}}}"),
			says: []string{"spec.lifecycle.inPlaceUpdate", "not supported for DaemonSets", "remove it"}},
		{name: "the hook preNormal", edit: set("spec.lifecycle", "{preNormal: {labelsHandler: {a: b}}}")},

		{name: "unknown type", edit: set("spec.updateStrategy.type", "Rolling"),
			says: []string{"spec.updateStrategy.type", `"Rolling"`, "OnDelete"}},
		{name: "OnDelete with rollingUpdate",
			edit: set("spec.updateStrategy", "{type: OnDelete, rollingUpdate: {partition: 1}}")},
		{name: "unknown rollingUpdateType", edit: set(rolling, "{rollingUpdateType: InPlaceOnly}"),
			says: []string{rolling + ".rollingUpdateType", `"InPlaceOnly"`, "InPlaceIfPossible"}},

		{name: "surge alone", edit: set(rolling, "{maxSurge: 20%}")},
		{name: "surge with 0 unavailable", edit: set(rolling, "{maxSurge: 1, maxUnavailable: 0}")},
		{name: "surge and unavailable", edit: set(rolling, "{maxSurge: 1, maxUnavailable: 10%}"),
			says: []string{rolling + ".maxSurge", "maxUnavailable is 10% and maxSurge is 1", "set maxUnavailable to 0, or"}},
		{name: "both 0", edit: set(rolling, "{maxSurge: 0, maxUnavailable: 0}"),
			says: []string{rolling + ".maxUnavailable", "cannot be 0 when maxSurge is 0", "set paused"}},
		{name: "0 unavailable alone", edit: set(rolling, `{maxUnavailable: "0%"}`),
			says: []string{"cannot be 0 when maxSurge is 0"}},
		{name: "unavailable 100%", edit: set(rolling, "{maxUnavailable: 100%}")},
		{name: "unavailable 101%", edit: set(rolling, "{maxUnavailable: 101%}"), says: []string{"maxUnavailable is 101%"}},
		{name: "surge -1", edit: set(rolling, "{maxSurge: -1}"), says: []string{rolling + ".maxSurge", "maxSurge is -1"}},
		{name: "in place", edit: set(rolling, "{rollingUpdateType: InPlaceIfPossible, maxUnavailable: 2}")},
		{name: "in place with surge", edit: set(rolling, "{rollingUpdateType: InPlaceIfPossible, maxSurge: 1}"),
			says: []string{rolling + ".maxSurge", "maxSurge is 1: it does not go with rollingUpdateType InPlaceIfPossible"}},
		{name: "partition of 50%", edit: set(rolling, "{partition: 50%}")},
		{name: "partition above nodes", edit: set(rolling, "{partition: 100000}")},
		{name: "partition -1", edit: set(rolling, "{partition: -1}"),
			says: []string{rolling + ".partition", "partition is -1", "from 0% to 100%"}},
		{name: "a canary", edit: set(rolling, "{selector: {matchLabels: {canary: yes}}}"),
			says: []string{"selector.matchLabels"}},
		{name: "a canary by text", edit: set(rolling, `{selector: {matchLabels: {canary: "yes"}}}`)},
		{name: "a canary without values", edit: set(rolling, "{selector: {matchExpressions: [{key: a, operator: In}]}}"),
			says: []string{rolling + ".selector", "values are missing"}},
	})
}

// testDaemonSetRulesOfV1beta1 checks what v1alpha1 says in another way.
func testDaemonSetRulesOfV1beta1(t *testing.T, s *server) {
	s.check(t, daemonSet, []rule{
		{name: "partitioned scaling", edit: set("spec.scaleStrategy", "{partitionedScaling: true}")},
		{name: "Surging", edit: set("spec.updateStrategy.rollingUpdate", "{rollingUpdateType: Surging}"),
			says: []string{"rollingUpdateType", `"Surging"`, "Standard"}},
	})
}
