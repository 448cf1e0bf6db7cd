package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// TestNatives holds who is said to run Kubernetes' own workloads, by the table of what is placed.
func TestNatives(t *testing.T) {
	spec := &topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{
		{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "apps/v1beta2", Kind: "StatefulSet"},
		{APIVersion: "batch/v1", Kind: "CronJob"},
		{APIVersion: "apps/v1", Kind: "Job"}, {APIVersion: "apps.kruise.io/v1beta1", Kind: "ReplicaSet"},
	}}
	here, away := kinds.All(kinds.HubRunsBuiltIns), kinds.All(kinds.MembersRunBuiltIns)
	if got := strings.Join(kindsOfHub(spec, here), ", "); got != "CronJob (batch), Deployment (apps), StatefulSet (apps)" {
		t.Errorf("the hub's cluster runs %s", got)
	}
	if got := kindsOfHub(spec, away); len(got) > 0 {
		t.Errorf("a hub without controllers runs %v", got)
	}
	for _, rules := range []kinds.Table{here, away} {
		unknown := strings.Join(unknownKinds(spec, rules), ", ")
		for _, want := range []string{
			"Job (apps)", "ReplicaSet (apps.kruise.io; for the ReplicaSet of apps/v1 write apiVersion: apps/v1)",
		} {
			if !strings.Contains(unknown, want) {
				t.Errorf("the kinds that are not placed are %s, without %s", unknown, want)
			}
		}
	}
	if says := kinds.Names(here); strings.Contains(says, "Deployment (apps/v1)") {
		t.Error(says)
	}
	if says := kinds.Names(away); !strings.Contains(says, "Deployment (apps/v1)") ||
		!strings.Contains(says, "CronJob (batch/v1)") {
		t.Error(says)
	}
	for _, tc := range []struct {
		owner string
		part  bool
	}{{"apps/v1 Deployment", true}, {"batch/v1 CronJob", true}, {"example.com/v1 Deployment", false}, {"", false}} {
		object := &corev1.Pod{}
		if version, kind, ok := strings.Cut(tc.owner, " "); ok {
			object.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Controller: new(true)}}
		}
		if kinds.OfBuiltIn(object) != tc.part {
			t.Errorf("an object of %q is a part of a workload: %v", tc.owner, !tc.part)
		}
	}
}
