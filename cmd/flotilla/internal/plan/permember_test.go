package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// perMember are objects of the kinds that each member has whole.
const perMember = `apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: agent:1}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: repair, namespace: shop}
spec:
  parallelism: 2
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: repair:1}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: clean, namespace: shop}
spec:
  schedule: "@hourly"
  template:
    jobTemplate:
      spec:
        template:
          spec: {restartPolicy: Never, containers: [{name: main, image: clean:1}]}
`

// perMemberPolicies place them in both members, and the AdvancedCronJob in one.
const perMemberPolicies = `---
apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: nodes}
spec: {workloads: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet}, {kind: BroadcastJob}]}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: crons}
spec: {placement: One, workloads: [{kind: AdvancedCronJob}]}
`

func TestPlanOfWholeObjects(t *testing.T) {
	const why = "PerMember: every member that the policy selects has the whole object; " +
		"the number is how many pods the member asks for"
	members := file(t, fleet+perMemberPolicies)
	out, _, err := run(t, NewCommand(), "--members", members, "-f", file(t, perMember))
	if err != nil {
		t.Error(err)
	}
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"AdvancedCronJob shop/clean: placed on 1 cluster by ClusterFederationPolicy crons; member east starts the jobs",
		"CLUSTER ZONE SUBSET NOW PLAN WHY",
		"east - - 0 1 Alone: the policy lets one member start the jobs, and it is this one",
		"",
		"BroadcastJob shop/repair: placed on 2 clusters by ClusterFederationPolicy nodes",
		"CLUSTER ZONE SUBSET NOW PLAN WHY",
		"east - - 0 0 " + why,
		"west - - 0 0 " + why,
		"",
		"DaemonSet shop/agent: placed on 2 clusters by ClusterFederationPolicy nodes",
		"CLUSTER ZONE SUBSET NOW PLAN WHY",
		"east - - 0 0 " + why,
		"west - - 0 0 " + why,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
}
