package crds_test

import (
	"strings"
	"testing"
)

const (
	podProbeMarker = `
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata:
  name: roles
  namespace: default
spec:
  selector: {matchLabels: {app: db}}
  probes:
  - name: leader
    containerName: db
    probe: {exec: {command: [is-leader]}}
    podConditionType: example.org/leader
`
	nodePodProbe = `
apiVersion: apps.kruise.io/v1alpha1
kind: NodePodProbe
metadata:
  name: node-1
spec:
  podProbes:
  - name: db-0
    namespace: default
    uid: "1"
    IP: 10.0.0.1
    probes:
    - name: roles#leader
      containerName: db
      probe: {tcpSocket: {port: 80}}
`
)

// probe is a list of one probe with these fields beside its names.
func probe(fields string) edit {
	return set("spec.probes", "[{name: leader, containerName: db, "+fields+"}]")
}

// probed is a probe by a handler.
func probed(handler string) edit {
	return probe("podConditionType: example.org/leader, probe: " + handler)
}

// marked is a probe with a policy.
func marked(policy string) edit {
	return probe("probe: {exec: {command: [a]}}, markerPolicy: " + policy)
}

// conditioned is a probe with a type of condition.
func conditioned(kind string) edit {
	return probe("probe: {exec: {command: [a]}}, podConditionType: " + kind)
}

func testPodProbeMarkerRules(t *testing.T, s *server) {
	const at = "spec.probes[0]"
	s.check(t, podProbeMarker, []rule{
		{name: "as it is", edit: named("roles")},
		{name: "all fields", edit: probed("{httpGet: {path: /, port: http, scheme: HTTPS, " +
			"httpHeaders: [{name: a, value: b}]}, initialDelaySeconds: 1, timeoutSeconds: 0, periodSeconds: 1, " +
			"successThreshold: 2, failureThreshold: 3, " +
			"terminationGracePeriodSeconds: 5}")},
		{name: "a connection", edit: probed("{tcpSocket: {port: 65535}}")},
		{name: "gRPC", edit: probed("{grpc: {port: 1, service: a}}")},
		{name: "marks", edit: marked("[{state: Succeeded, labels: {example.org/role: leader}}, " +
			"{state: Failed, annotations: {controller.kubernetes.io/pod-deletion-cost: \"-10\"}}]")},
		{name: "an empty selector", edit: set("spec.selector", "{}"),
			says: []string{"spec.selector", "selector is empty", "name labels"}},
		{name: "the selector changes", first: named("selector"), edit: set("spec.selector", "{matchLabels: {app: web}}"),
			says: []string{"spec.selector", "selector cannot change", "create another PodProbeMarker"}},
		{name: "the probes change", first: named("probes"), edit: probed("{tcpSocket: {port: a}}")},
		{name: "no probes", edit: set("spec.probes", "[]"), says: []string{"spec.probes", "probes is empty"}},
		{name: "a name twice", edit: set("spec.probes",
			"[{name: a, containerName: b, probe: {grpc: {port: 1}}, podConditionType: a}, "+
				"{name: a, containerName: b, probe: {grpc: {port: 1}}, podConditionType: b}]"),
			says: []string{"spec.probes[1]", "Duplicate"}},
		{name: "a condition twice", edit: set("spec.probes",
			"[{name: a, containerName: b, probe: {grpc: {port: 1}}, podConditionType: a}, "+
				"{name: b, containerName: b, probe: {grpc: {port: 1}}, podConditionType: a}]"),
			says: []string{"spec.probes", "two probes have the same podConditionType", "give each its own"}},
		{name: "a name with #", edit: set("spec.probes",
			"[{name: 'a#b', containerName: c, probe: {grpc: {port: 1}}, podConditionType: d}]"),
			says: []string{at + ".name", "name a#b of a probe", "without it"}},
		{name: "no name", edit: set("spec.probes",
			"[{name: '', containerName: c, probe: {grpc: {port: 1}}, podConditionType: d}]"),
			says: []string{at + ".name", "is empty or has a #"}},
		{name: "no container", edit: set("spec.probes",
			"[{name: a, containerName: '', probe: {grpc: {port: 1}}, podConditionType: d}]"),
			says: []string{at + ".containerName", "containerName is empty"}},
		{name: "no way to probe", edit: probed("{}"), says: []string{at + ".probe", "the probe has 0 of exec, httpGet"}},
		{name: "two ways to probe", edit: probed("{grpc: {port: 1}, tcpSocket: {port: 1}}"),
			says: []string{at + ".probe", "the probe has 2 of exec, httpGet, tcpSocket and grpc", "give one of them"}},
		{name: "no command", edit: probed("{exec: {}}"), says: []string{at + ".probe.exec", "exec has no command"}},
		{name: "a host", edit: probed("{httpGet: {port: 1, host: other}}"),
			says: []string{at + ".probe.httpGet.host", "host cannot be set", "remove it"}},
		{name: "a host of a connection", edit: probed("{tcpSocket: {port: 1, host: other}}"),
			says: []string{at + ".probe.tcpSocket.host", "host cannot be set"}},
		{name: "an unknown scheme", edit: probed("{httpGet: {port: 1, scheme: FTP}}"),
			says: []string{at + ".probe.httpGet.scheme", "scheme must be HTTP or HTTPS"}},
		{name: "port 0", edit: probed("{httpGet: {port: 0}}"),
			says: []string{at + ".probe.httpGet.port", "port must be from 1 to 65535"}},
		{name: "port 65536", edit: probed("{tcpSocket: {port: 65536}}"),
			says: []string{at + ".probe.tcpSocket.port", "port must be from 1 to 65535"}},
		{name: "port 0 of gRPC", edit: probed("{grpc: {port: 0}}"),
			says: []string{at + ".probe.grpc.port", "port is 0"}},
		{name: "a negative period", edit: probed("{grpc: {port: 1}, periodSeconds: -1}"),
			says: []string{at + ".probe.periodSeconds"}},
		{name: "nothing changes", edit: probe("probe: {grpc: {port: 1}}"),
			says: []string{at, "probe leader would change nothing", "podConditionType, markerPolicy or both"}},
		{name: "an empty condition", edit: conditioned("''"), says: []string{at, "would change nothing"}},
		{name: "no type of a condition", edit: conditioned("'is leader'"),
			says: []string{at + ".podConditionType", "podConditionType is leader is no type", "such as example.org/leader"}},
		{name: "a condition of the kubelet", edit: conditioned("Ready"),
			says: []string{at + ".podConditionType", "Ready is a condition that others write", "a name of your own"}},
		{name: "an unknown state", edit: marked("[{state: Unknown, labels: {a: b}}]"),
			says: []string{at + ".markerPolicy[0].state", `"Unknown"`, "Succeeded"}},
		{name: "a state twice", edit: marked("[{state: Failed, labels: {a: b}}, {state: Failed, labels: {c: d}}]"),
			says: []string{at + ".markerPolicy[1]", "Duplicate"}},
		{name: "a policy for nothing", edit: marked("[{state: Failed}]"),
			says: []string{at + ".markerPolicy[0]", "the policy for state Failed sets nothing"}},
		{name: "a value of no label", edit: marked("[{state: Failed, labels: {a: b c}}]"),
			says: []string{at + ".markerPolicy[0].labels.a", "should match"}},
		{name: "many probes", edit: manyProbes(32)},
		{name: "too many probes", edit: manyProbes(33), says: []string{"spec.probes", "at most 32"}},
	})
}

// manyProbes gives the object n probes.
func manyProbes(n int) edit {
	var probes []string
	for i := range n {
		name := strings.Repeat("a", i+1)
		probes = append(probes, "{name: "+name+", containerName: b, probe: {grpc: {port: 1}}, podConditionType: "+name+"}")
	}
	return set("spec.probes", "["+strings.Join(probes, ", ")+"]")
}

func testNodePodProbeRules(t *testing.T, s *server) {
	s.check(t, nodePodProbe, []rule{
		{name: "as it is", edit: named("node-1")},
		{name: "no pods", edit: remove("spec")},
		{name: "a pod twice", edit: set("spec.podProbes",
			"[{name: a, namespace: b, uid: c}, {name: a, namespace: b, uid: c}]"),
			says: []string{"spec.podProbes[1]", "Duplicate"}},
		{name: "a pod without a uid", edit: set("spec.podProbes", "[{name: a, namespace: b}]"),
			says: []string{"spec.podProbes[0].uid", "Required"}},
	})
}
