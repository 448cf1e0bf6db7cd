package policy

import (
	"fmt"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
)

// maxUnknownNames is how many names a message has; a policy may have a thousand.
const maxUnknownNames = 5

// unknownNames says which members, zones and regions a policy names that no member has, and which subsets of its waves
// no workload of it has: mistyped, or not there yet. A bound or a weight of such a place bounds nothing, an update
// waits at a wave of nothing but such places, and nothing else would tell. subsets are those of the workloads that the
// policy has placed, nil where it has placed none. "" where all are known.
func unknownNames(
	spec *topology.FederationPolicySpec,
	members []topology.MemberCluster,
	subsets map[string]bool,
) string {
	clusters, zones, regions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range members {
		m := &members[i]
		clusters[m.Name], regions[decision.RegionOf(m)] = true, true
		for j := range m.Status.Zones {
			zones[m.Status.Zones[j].Name] = true
		}
	}
	var found []string
	add := func(known map[string]bool, field, format, name string) {
		if name != "" && !known[name] {
			found = append(found, field+": "+fmt.Sprintf(format, name))
		}
	}
	const noMember, noZone, noRegion = "there is no member %s", "no member has zone %s", "no member lies in region %s"
	for _, name := range spec.Clusters.Names {
		add(clusters, "clusters.names", noMember, name)
	}
	for i := range spec.Spread.Places {
		p := &spec.Spread.Places[i]
		add(regions, "spread.places", noRegion, p.Region)
		add(zones, "spread.places", noZone, p.Zone)
		add(clusters, "spread.places", noMember, p.Cluster)
	}
	for i := range spec.Overrides {
		for _, name := range spec.Overrides[i].Clusters.Names {
			add(clusters, "overrides", noMember, name)
		}
		for _, zone := range spec.Overrides[i].Zones {
			add(zones, "overrides", noZone, zone)
		}
	}
	for i := range spec.Rollout.Waves {
		w := &spec.Rollout.Waves[i]
		field := fmt.Sprintf("wave %s of rollout.waves", w.Name)
		for _, name := range w.Clusters.Names {
			add(clusters, field, noMember, name)
		}
		for _, zone := range w.Zones {
			add(zones, field, noZone, zone)
		}
		for _, name := range w.Subsets {
			if subsets != nil {
				add(subsets, field, "no workload of the policy has a subset %s", name)
			}
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > maxUnknownNames {
		found = append(found[:maxUnknownNames], fmt.Sprintf("and %d more", len(found)-maxUnknownNames))
	}
	return strings.Join(found, "; ")
}
