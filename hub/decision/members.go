package decision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	operators "k8s.io/apimachinery/pkg/selection"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
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
	// State is what it counts as under the policy's failover, "" where the policy has none. Lost: others are to run
	// its replicas. Fencing: it counts as lost, and nobody knows yet that nothing of the workload runs there.
	State   failover.State
	Lost    bool
	Fencing bool
	// Capacity is what it has for more pods.
	capacity.Capacity
}

// Match is the answer for one subset and one member.
type Match struct {
	OK bool
	// Zones that the subset names in this member, nil where the subset names no zones.
	Zones []string
	// Assumed are the keys that the hub does not know.
	Assumed []string
}

// MatchTerm tells whether nodes of a member can match a subset's node selector, and in which zones. Keys that the hub
// does not know are assumed to match.
func MatchTerm(term *corev1.NodeSelectorTerm, m *Member) Match {
	var zonal []corev1.NodeSelectorRequirement
	result := Match{OK: true}
	for _, r := range term.MatchExpressions {
		switch r.Key {
		case topology.LabelCluster:
			result.OK = result.OK && matchValue(&r, m.Name, true)
		case corev1.LabelTopologyRegion:
			result.OK = result.OK && matchValue(&r, m.Region, m.Region != "")
		case corev1.LabelTopologyZone:
			zonal = append(zonal, r)
		default:
			result.Assumed = append(result.Assumed, r.Key)
		}
	}
	for _, r := range term.MatchFields {
		result.Assumed = append(result.Assumed, r.Key)
	}
	slices.Sort(result.Assumed)
	result.Assumed = slices.Compact(result.Assumed)
	if !result.OK || len(zonal) == 0 {
		return result
	}
	for _, zone := range m.Zones {
		inZone := true
		for i := range zonal {
			inZone = inZone && matchValue(&zonal[i], zone, zone != "")
		}
		if inZone {
			result.Zones = append(result.Zones, zone)
		}
	}
	result.OK = len(result.Zones) > 0
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

// compares answers a requirement that compares whole numbers. What is none, such as most names of places, matches
// nothing.
func compares(r *corev1.NodeSelectorRequirement, how operators.Operator, value string, has bool) bool {
	requirement, err := labels.NewRequirement(r.Key, how, r.Values)
	return err == nil && has && requirement.Matches(labels.Set{r.Key: value})
}

// MembersFor returns the members as a decision under this policy sees them.
func MembersFor(members []topology.MemberCluster, selector *topology.ClusterSelector) []Member {
	out := make([]Member, len(members))
	for i := range members {
		m := &members[i]
		out[i] = Member{
			Name:   m.Name,
			Region: RegionOf(m),
			Labels: m.Labels,
			Zones:  zonesOf(m),
			Selected: m.DeletionTimestamp == nil && m.Spec.Accepted &&
				meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberAccepted) && SelectsMember(selector, m),
			Ready:    meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady),
			Silent:   meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberSilent),
			Weight:   1,
			Taint:    untolerated(m.Spec.Taints, selector.Tolerations),
			Capacity: capacity.Capacity{Zones: m.Status.Zones},
		}
		if m.Spec.Weight != nil {
			out[i].Weight = *m.Spec.Weight
		}
	}
	return out
}

// RegionOf returns the region of a member, "" if it has none.
func RegionOf(m *topology.MemberCluster) string {
	if m.Spec.Region != "" {
		return m.Spec.Region
	}
	return m.Status.Region
}

// zonesOf returns the zones that have nodes, sorted.
func zonesOf(m *topology.MemberCluster) []string {
	var zones []string
	for i := range m.Status.Zones {
		if m.Status.Zones[i].Nodes > 0 {
			zones = append(zones, m.Status.Zones[i].Name)
		}
	}
	slices.Sort(zones)
	return zones
}

// SelectsMember reports whether a policy's cluster selector takes in a member.
func SelectsMember(s *topology.ClusterSelector, m *topology.MemberCluster) bool {
	if len(s.Names) > 0 && !slices.Contains(s.Names, m.Name) {
		return false
	}
	if s.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	return err == nil && selector.Matches(labels.Set(m.Labels))
}
