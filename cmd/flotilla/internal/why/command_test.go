package why

import (
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

func TestHeadline(t *testing.T) {
	cells := []explain.CellAnswer{{Cluster: "east", Replicas: 3, Reason: topology.Reason{Code: "PerMember"}}}
	for want, answer := range map[string]*explain.Answer{
		"CloneSet shop/api: 3 replicas, 2 placed by FederationPolicy all": {Kind: "CloneSet", Replicas: 3, Placed: 2,
			Policy: "FederationPolicy all"},
		"DaemonSet shop/api: placed by FederationPolicy all": {Kind: "DaemonSet", PerMember: true, Replicas: 1, Placed: 3,
			Policy: "FederationPolicy all", Cells: cells},
		"DaemonSet shop/api: not placed": {Kind: "DaemonSet", PerMember: true, Replicas: 1},
	} {
		answer.Namespace, answer.Name = "shop", "api"
		var out strings.Builder
		if err := write(&out, answer); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(out.String(), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReasonsOfPodsAreAnswered(t *testing.T) {
	answer := &explain.Answer{Kind: "CloneSet", Namespace: "shop", Name: "api", Cells: []explain.CellAnswer{},
		PodReasons: []kinds.PodReason{{Reason: "CrashLoopBackOff", Container: "app", Message: "ends with exit code 3",
			Count:    2,
			Clusters: map[string]int32{"east": 2}, Cluster: "east", Pod: "api-x"}}}
	var out strings.Builder
	if err := write(&out, answer); err != nil {
		t.Fatal(err)
	}
	want := "pods are not Ready or not gone: CrashLoopBackOff: container app ends with exit code 3 " +
		"(2 pods: east 2; see pod api-x in east)\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("%s\nlacks %s", out.String(), want)
	}
}
