package decision

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestMatchTerm(t *testing.T) {
	member := &Member{Name: "east", Region: "eu", Zones: []string{"", "a", "b"}}
	numbered := &Member{Name: "west", Zones: []string{"", "1", "2", "3"}}
	require := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	zone, region, cluster := corev1.LabelTopologyZone, corev1.LabelTopologyRegion, topology.LabelCluster
	tests := []struct {
		reason  string
		terms   []corev1.NodeSelectorRequirement
		ok      bool
		zones   int
		assumed int
	}{
		{"nothing asked", nil, true, 0, 0},
		{"a zone it has", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpIn, "a", "q")}, true, 1, 0},
		{"a zone it has not", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpIn, "q")}, false, 0, 0},
		{"two requirements hold for one zone", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpIn, "a",
			"b"), require(zone, corev1.NodeSelectorOpNotIn, "a")}, true, 1, 0},
		{"not in also takes nodes without a zone", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpNotIn,
			"a")}, true, 2, 0},
		{"exists", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpExists)}, true, 2, 0},
		{"does not exist", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpDoesNotExist)}, true, 1, 0},
		{"numbers above one", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpGt, "1")}, true, 2, 0},
		{"numbers below one that is none", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpLt, "three")},
			false, 0, 0},
		{"names are no numbers", []corev1.NodeSelectorRequirement{require(zone, corev1.NodeSelectorOpGt, "0")}, false, 0, 0},
		{"its name", []corev1.NodeSelectorRequirement{require(cluster, corev1.NodeSelectorOpIn, "east", "west")}, true, 0, 0},
		{"another name", []corev1.NodeSelectorRequirement{require(cluster, corev1.NodeSelectorOpNotIn, "east")}, false, 0, 0},
		{"its region", []corev1.NodeSelectorRequirement{require(region, corev1.NodeSelectorOpIn, "eu")}, true, 0, 0},
		{"another region", []corev1.NodeSelectorRequirement{require(region, corev1.NodeSelectorOpIn, "us")}, false, 0, 0},
		{"what the hub does not know is assumed", []corev1.NodeSelectorRequirement{require("arch", corev1.NodeSelectorOpIn,
			"arm64"), require("cpu", corev1.NodeSelectorOpGt, "3")}, true, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			of := member
			if strings.HasPrefix(tt.reason, "numbers") {
				of = numbered
			}
			got := MatchTerm(&corev1.NodeSelectorTerm{MatchExpressions: tt.terms}, of)
			if got.OK != tt.ok || len(got.Zones) != tt.zones || len(got.Assumed) != tt.assumed {
				t.Errorf("got %+v", got)
			}
		})
	}
}
