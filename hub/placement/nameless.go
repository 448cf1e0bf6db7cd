package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// mostNameless is how many names a message has; a policy may have a thousand.
const mostNameless = 5

// nameless says which members, zones and regions a policy names that no member has, and which subsets of its waves no workload of it has:
// mistyped, or not there yet. A bound or a weight of such a place bounds nothing, an update waits at a wave of nothing but such places, and
// nothing else would tell. subsets are those of the workloads that the policy has placed, nil where it has placed none. "" where all are
// known.
func nameless(spec *topology.FederationPolicySpec, members []topology.MemberCluster, subsets map[string]bool) string {
	clusters, zones, regions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range members {
		m := &members[i]
		clusters[m.Name], regions[regionOf(m)] = true, true
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
	if found = slices.Compact(found); len(found) > mostNameless {
		found = append(found[:mostNameless], fmt.Sprintf("and %d more", len(found)-mostNameless))
	}
	return strings.Join(found, "; ")
}

// placesChanged lets through what policies can name of a member: that it is there, its zones, its region.
func placesChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
		return regionOf(before) != regionOf(after) || !slices.EqualFunc(before.Status.Zones, after.Status.Zones, func(a, b topology.Zone) bool { return a.Name == b.Name })
	}}
}

// everyPolicy returns all policies of both scopes.
func (w *watches) everyPolicy(ctx context.Context, _ client.Object) []PolicyKey {
	own, shared := &topology.FederationPolicyList{}, &topology.ClusterFederationPolicyList{}
	for _, list := range []client.ObjectList{own, shared} {
		if err := w.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "list policies")
			return nil
		}
	}
	var keys []PolicyKey
	for i := range own.Items {
		keys = append(keys, PolicyKey{KindPolicy, own.Items[i].Namespace, own.Items[i].Name})
	}
	for i := range shared.Items {
		keys = append(keys, PolicyKey{KindClusterPolicy, "", shared.Items[i].Name})
	}
	return keys
}
