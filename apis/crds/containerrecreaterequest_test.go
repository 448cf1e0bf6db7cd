package crds_test

import "testing"

const containerRecreateRequest = `
apiVersion: apps.kruise.io/v1beta1
kind: ContainerRecreateRequest
metadata:
  name: restart
  namespace: default
spec:
  podName: web-1
  containers:
  - name: web
`

func testContainerRecreateRequestRules(t *testing.T, s *server) {
	s.check(t, containerRecreateRequest, []rule{
		{name: "as it is", edit: named("restart")},
		{name: "all fields", edit: all(set("spec.strategy", "{failurePolicy: Ignore, orderedRecreate: true, "+
			"forceRecreate: true, terminationGracePeriodSeconds: 0, unreadyGracePeriodSeconds: 3, minStartedSeconds: 5}"),
			set("spec.activeDeadlineSeconds", "3"), set("spec.ttlSecondsAfterFinished", "0"),
			set("spec.containers", "[{name: web, preStop: {httpGet: {port: http, path: /}}, "+
				"ports: [{name: http, containerPort: 80, protocol: TCP}], "+
				"statusContext: {containerID: 'containerd://1', restartCount: 2}}, {name: log}]"))},
		{name: "no pod", edit: set("spec.podName", `""`), says: []string{"spec.podName", "podName is empty", "name a pod"}},
		{name: "no containers", edit: set("spec.containers", "[]"),
			says: []string{"spec.containers", "containers is empty", "name at least one"}},
		{name: "a container without a name", edit: set("spec.containers", `[{name: ""}]`),
			says: []string{"spec.containers[0].name", "name is empty"}},
		{name: "a container twice", edit: set("spec.containers", "[{name: a}, {name: a}]"),
			says: []string{"spec.containers[1]", "Duplicate"}},
		{name: "unknown failure policy", edit: set("spec.strategy", "{failurePolicy: Retry}"),
			says: []string{"spec.strategy.failurePolicy", `"Retry"`, "Ignore"}},
		{name: "a deadline of 2", edit: set("spec.activeDeadlineSeconds", "2"),
			says: []string{"spec.activeDeadlineSeconds", "activeDeadlineSeconds is 2", "must be 3 or more"}},
		{name: "negative times", edit: all(set("spec.ttlSecondsAfterFinished", "-1"), set("spec.strategy",
			"{terminationGracePeriodSeconds: -1, unreadyGracePeriodSeconds: -1, minStartedSeconds: -1}")),
			says: []string{"spec.ttlSecondsAfterFinished", "spec.strategy.terminationGracePeriodSeconds",
				"spec.strategy.unreadyGracePeriodSeconds", "spec.strategy.minStartedSeconds"}},
		{name: "the labels change", first: named("labels"), edit: set("metadata.labels", "{a: b}")},
		{name: "the containers change", first: named("containers"), edit: set("spec.containers", "[{name: other}]"),
			says: []string{"spec", "spec cannot change", "create another ContainerRecreateRequest"}},
		{name: "the strategy changes", first: named("strategy"), edit: set("spec.strategy", "{failurePolicy: Ignore}"),
			says: []string{"spec", "spec cannot change"}},
		{name: "the default is written", first: named("default"), edit: set("spec.strategy", "{failurePolicy: Fail}")},
	})
}
