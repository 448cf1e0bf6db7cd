package policy

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestNamesThatNoMemberHasAreTold holds that a policy says which of the members, zones and regions that it names there
// are not: a bound of a mistyped place would bound nothing in silence.
func TestNamesThatNoMemberHasAreTold(t *testing.T) {
	member := func(name, region string, zones ...string) topology.MemberCluster {
		m := topology.MemberCluster{}
		m.Name, m.Status.Region = name, region
		for _, zone := range zones {
			m.Status.Zones = append(m.Status.Zones, topology.Zone{Name: zone})
		}
		return m
	}
	moved := member("south", "eu", "c")
	moved.Spec.Region = "us" // before what its nodes say
	members := []topology.MemberCluster{member("east", "eu", "a", "b"), member("west", "eu"), moved}
	for _, tc := range []struct {
		name string
		spec topology.FederationPolicySpec
		want string
	}{
		{"nothing is named", topology.FederationPolicySpec{}, ""},
		{"all are there", topology.FederationPolicySpec{
			Clusters: topology.ClusterSelector{Names: []string{"east", "south"}},
			Spread: topology.Spread{Places: []topology.SpreadPlace{{Zone: "a"}, {Cluster: "west"}, {Region: "us"},
				{Region: "eu", Zone: "b", Cluster: "east"}}},
			Overrides: []topology.Override{{Clusters: topology.OverrideClusters{Names: []string{"west"}}, Zones: []string{"c"}}},
		}, ""},
		{"a member", topology.FederationPolicySpec{Clusters: topology.ClusterSelector{Names: []string{"eest", "west"}}},
			"clusters.names: there is no member eest"},
		{"places", topology.FederationPolicySpec{Spread: topology.Spread{Places: []topology.SpreadPlace{{Zone: "q"},
			{Cluster: "eest"}, {Region: "mars"}}}},
			"spread.places: no member has zone q; spread.places: no member lies in region mars; spread.places: there is no " +
				"member eest"},
		{"overrides, twice", topology.FederationPolicySpec{Overrides: []topology.Override{{Zones: []string{"q"}},
			{Zones: []string{"q"}, Clusters: topology.OverrideClusters{Names: []string{"eest"}}}}},
			"overrides: no member has zone q; overrides: there is no member eest"},
		{"waves", topology.FederationPolicySpec{Rollout: topology.Rollout{Waves: []topology.Wave{
			{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"eest", "west"}},
				Subsets: []string{"blue", "green"}}, {Name: "rest", Zones: []string{"a", "q"}},
		}}}, "wave canary of rollout.waves: no workload of the policy has a subset green; wave canary of rollout.waves: " +
			"there is no member eest; wave rest of rollout.waves: no member has zone q"},
		{"many", topology.FederationPolicySpec{Clusters: topology.ClusterSelector{Names: []string{"m1", "m2", "m3", "m4",
			"m5", "m6", "m7"}}},
			"clusters.names: there is no member m1; clusters.names: there is no member m2; clusters.names: there is no member " +
				"m3; clusters.names: there is no member m4; clusters.names: there is no member m5; and 2 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := unknownNames(&tc.spec, members, map[string]bool{"blue": true}); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestSubsetsOfWavesWaitForWorkloads: a policy that has placed nothing yet cannot know which subsets there are.
func TestSubsetsOfWavesWaitForWorkloads(t *testing.T) {
	spec := topology.FederationPolicySpec{Rollout: topology.Rollout{Waves: []topology.Wave{{Name: "canary",
		Subsets: []string{"blue"}}}}}
	if got := unknownNames(&spec, nil, nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestPoliciesLookAgainWhenPlacesChange holds that a member's zones and region wake policies, and its amounts do not.
func TestPoliciesLookAgainWhenPlacesChange(t *testing.T) {
	before := &topology.MemberCluster{}
	before.Status.Zones = []topology.Zone{{Name: "a", Nodes: 2, Ready: 2}}
	for _, tc := range []struct {
		name   string
		change func(*topology.MemberCluster)
		wakes  bool
	}{
		{"nothing", func(*topology.MemberCluster) {}, false},
		{"a node is not ready", func(m *topology.MemberCluster) { m.Status.Zones[0].Ready = 1 }, false},
		{"a zone more", func(m *topology.MemberCluster) { m.Status.Zones = append(m.Status.Zones, topology.Zone{Name: "b"}) },
			true},
		{"a zone is renamed", func(m *topology.MemberCluster) { m.Status.Zones[0].Name = "q" }, true},
		{"its region", func(m *topology.MemberCluster) { m.Spec.Region = "us" }, true},
	} {
		after := before.DeepCopy()
		tc.change(after)
		if wakes := placesChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); wakes != tc.wakes {
			t.Errorf("%s: wakes %t", tc.name, wakes)
		}
	}
}
