package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	operators "k8s.io/apimachinery/pkg/selection"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// Member is what a decision depends on of a member cluster.
type Member struct {
	Name   string
	Region string
	// Labels of its MemberCluster.
	Labels map[string]string
	// Zones that have nodes, sorted; "" stands for nodes without the label.
	Zones []string
	// Selected: accepted, and taken in by the policy.
	Selected bool
	// Ready: the agent renews its Lease. A member that is not gets nothing new.
	Ready bool
	// Silent: its lease has run out on both sides, so that what it may disrupt is lent to others.
	Silent bool
	// Weight is its part of a weighted spread.
	Weight int32
	// Taint is the strongest effect of its taints that the policy does not tolerate, "" for none.
	Taint division.Effect
	// State is what it counts as under the policy's failover, "" where the policy has none. Lost: others are to run its replicas.
	// Fencing: it counts as lost, and nobody knows yet that nothing of the workload runs there.
	State   failover.State
	Lost    bool
	Fencing bool
	// Rooms are its zones with what they have and what is requested there, as the agent reports them.
	Rooms []topology.Zone
	// Promised is what other workloads were promised there, and the report does not count yet.
	Promised Room
}

// match is the answer for one subset and one member.
type match struct {
	ok bool
	// zones that the subset names in this member, nil where the subset names no zones.
	zones []string
	// assumed are the keys that the hub does not know.
	assumed []string
}

// matchTerm tells whether nodes of a member can match a subset's node selector, and in which zones. Keys that the hub does
// not know are assumed to match.
func matchTerm(term *corev1.NodeSelectorTerm, m *Member) match {
	var zonal []corev1.NodeSelectorRequirement
	result := match{ok: true}
	for _, r := range term.MatchExpressions {
		switch r.Key {
		case topology.LabelCluster:
			result.ok = result.ok && matchValue(&r, m.Name, true)
		case corev1.LabelTopologyRegion:
			result.ok = result.ok && matchValue(&r, m.Region, m.Region != "")
		case corev1.LabelTopologyZone:
			zonal = append(zonal, r)
		default:
			result.assumed = append(result.assumed, r.Key)
		}
	}
	for _, r := range term.MatchFields {
		result.assumed = append(result.assumed, r.Key)
	}
	slices.Sort(result.assumed)
	result.assumed = slices.Compact(result.assumed)
	if !result.ok || len(zonal) == 0 {
		return result
	}
	for _, zone := range m.Zones {
		inZone := true
		for i := range zonal {
			inZone = inZone && matchValue(&zonal[i], zone, zone != "")
		}
		if inZone {
			result.zones = append(result.zones, zone)
		}
	}
	result.ok = len(result.zones) > 0
	return result
}

// matchValue answers one requirement as Kubernetes does for a node's label; has is false where the label is missing.
func matchValue(r *corev1.NodeSelectorRequirement, value string, has bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	case corev1.NodeSelectorOpGt:
		return compares(r, operators.GreaterThan, value, has)
	case corev1.NodeSelectorOpLt:
		return compares(r, operators.LessThan, value, has)
	}
	return false
}

// compares answers a requirement that compares whole numbers. What is none, such as most names of places, matches nothing.
func compares(r *corev1.NodeSelectorRequirement, how operators.Operator, value string, has bool) bool {
	requirement, err := labels.NewRequirement(r.Key, how, r.Values)
	return err == nil && has && requirement.Matches(labels.Set{r.Key: value})
}
