package crds_test

import "testing"

const podUnavailableBudget = `
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata:
  name: web
  namespace: default
spec:
  selector: {matchLabels: {app: web}}
  maxUnavailable: 1
`

func testPodUnavailableBudgetRules(t *testing.T, s *server) {
	target := set("spec.targetRef", "{apiVersion: apps/v1, kind: Deployment, name: web}")
	both := func(edits ...edit) edit {
		return func(u *object) {
			for _, edit := range edits {
				edit(u)
			}
		}
	}
	s.check(t, podUnavailableBudget, []rule{
		{name: "as it is", edit: named("web")},
		{name: "a target", edit: both(remove("spec.selector"), target)},
		{name: "a percentage", edit: set("spec.maxUnavailable", "20%")},
		{name: "minAvailable", edit: both(remove("spec.maxUnavailable"), set("spec.minAvailable", "100%"))},
		{name: "selector and target", edit: target, says: []string{"spec", "exactly one of selector and targetRef"}},
		{name: "neither selector nor target", edit: remove("spec.selector"),
			says: []string{"spec", "exactly one of selector and targetRef"}},
		{name: "both limits", edit: set("spec.minAvailable", "1"),
			says: []string{"exactly one of maxUnavailable and minAvailable"}},
		{name: "no limit", edit: remove("spec.maxUnavailable"),
			says: []string{"exactly one of maxUnavailable and minAvailable"}},
		{name: "101%", edit: set("spec.maxUnavailable", "101%"),
			says: []string{"spec.maxUnavailable", "maxUnavailable is 101%", "from 0% to 100%"}},
		{name: "-1", edit: both(remove("spec.maxUnavailable"), set("spec.minAvailable", "-1")),
			says: []string{"spec.minAvailable", "minAvailable is -1"}},
		{name: "an empty selector", edit: set("spec.selector", "{}"),
			says: []string{"spec.selector", "selector is empty", "use targetRef"}},
		{name: "a target without a name", edit: both(remove("spec.selector"),
			set("spec.targetRef", "{apiVersion: apps/v1, kind: Deployment}")),
			says: []string{"spec.targetRef", "must have apiVersion, kind and name"}},
		{name: "a target of no version", edit: both(remove("spec.selector"),
			set("spec.targetRef", "{apiVersion: a/b/c, kind: Deployment, name: web}")),
			says: []string{"spec.targetRef.apiVersion", "such as apps/v1"}},
		{name: "failure policy", edit: set("spec.flotilla", "{failurePolicy: Fail}")},
		{name: "an unknown failure policy", edit: set("spec.flotilla", "{failurePolicy: Never}"),
			says: []string{"spec.flotilla.failurePolicy", `"Never"`, "Ignore"}},
		{name: "the limit changes", first: named("limit"), edit: set("spec.maxUnavailable", "50%")},
		{name: "the selector changes", first: named("selector"), edit: set("spec.selector", "{matchLabels: {app: db}}"),
			says: []string{"spec.selector", "selector cannot change", "make another"}},
		{name: "from selector to target", first: named("to-target"), edit: both(remove("spec.selector"), target),
			says: []string{"spec.targetRef", "targetRef cannot change"}},
	})
}

func testPodUnavailableBudgetRulesOfV1beta1(t *testing.T, s *server) {
	s.check(t, podUnavailableBudget, []rule{
		{name: "all fields", edit: set("spec", "{selector: {matchLabels: {app: web}}, maxUnavailable: 1, "+
			"protectOperations: [DELETE, RESIZE], protectTotalReplicas: 3, ignoredPodSelector: {matchLabels: {a: b}}}")},
		{name: "an unknown operation", edit: set("spec.protectOperations", "[delete]"),
			says: []string{"spec.protectOperations[0]", `"delete"`, "DELETE"}},
		{name: "no replicas", edit: set("spec.protectTotalReplicas", "0"),
			says: []string{"spec.protectTotalReplicas", "protectTotalReplicas is 0", "remove it"}},
		{name: "an empty ignoredPodSelector", edit: set("spec.ignoredPodSelector", "{}"),
			says: []string{"spec.ignoredPodSelector", "ignoredPodSelector is empty", "remove it"}},
	})
}
