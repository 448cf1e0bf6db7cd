// Package decision decides what of a workload goes where: it turns the facts of one workload into a
// WorkloadPlacementSpec. It is pure. [Plan] is a list of named steps over one draft; the facts are never written to.
//
//	cells       which (subset, cluster[, zone]) are possible: the subsets' node selectors matched against the members that
//	            the policy selects, or, where the workload has no subsets, the policy's spread
//	division    package division: replicas for each cell, starting from the last decision
//	lending     package lending: each subset's limits, granted to the clusters that the subset spans
//	sequence    one more than the last, and than any that a member reported, when the order of any cluster changed
//
// A member that is not Ready keeps its replicas and gets no more. A member that the policy no longer selects, or that
// is no longer accepted, is evacuated; its cells leave the placement when it has reported that no pod is left, or when
// it is gone. A cell of a selected member stays with 0 replicas, so that a scale down and up keeps the member object.
//
// An object of mode PerMember has one cell in each selected member instead of a division: each member decides how many
// pods it has, and the limits are granted over all members as those of divided workloads are. With placement One of the
// policy it runs in one member, and moves so that no two members start a job for the same time.
//
// A decision that is rejected changes nothing: existing objects stay, and a condition says why.
package decision

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	operators "k8s.io/apimachinery/pkg/selection"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// Facts are all that a decision depends on.
type Facts struct {
	// Kind is that of the workload.
	Kind         kinds.Kind
	Workload     kinds.Workload
	Policy       topology.PolicyReference
	Spread       topology.Spread
	Dependencies topology.Dependencies
	// Absent are the objects that the workload or the policy names and that do not exist on the hub.
	Absent map[topology.DependencyReference]bool
	// Local are those that stay on the hub because every cluster makes its own: tokens of ServiceAccounts.
	Local map[topology.DependencyReference]bool
	// Members are all that exist, sorted by name. UnknownMembers are those that the policy's spec.clusters names and that
	// do not exist.
	Members        []Member
	UnknownMembers []string
	// Overrides are what the policy changes in members' manifests.
	Overrides Overrides
	// Adopt: what runs in members without a mark is taken over. Found is what members told of it, by the member's name.
	Adopt bool
	Found map[string]Found
	// Failover is what the policy says of members that are not heard of.
	Failover topology.Failover
	// StatusValues are what the policy hands over from the statuses of lost members, by member and name.
	StatusValues map[string]map[string]string
	// Ticks are what the members say of their schedules, by the member's name, of a workload that can run in one member;
	// "" is what the user's object says.
	Ticks map[string]kinds.Ticks
	// Rollout is what the policy says of the order of updates, Word what a person said of its waves.
	Rollout topology.Rollout
	Word    string
	// RolledBack: the user's template failed, and Workload has the one of before.
	RolledBack bool
	// Answers are the last ones to questions of checks, by the questions' ids; Runs are how the Jobs of checks stand
	// in members.
	Answers map[string]waves.Answer
	Runs    map[waves.RunKey]waves.Run
	// Object is the user's workload, which checks of waves are about.
	Object kinds.Object
	// Reschedule is what the policy says of pods that members find no node for; nil: they wait where they are.
	Reschedule *topology.Reschedule
	// Now is the time, Heard since when the hub is in contact with its API server.
	Now, Heard time.Time
	// News is when the agent of each member was heard last, by the hub's clock; none for not since the hub listens.
	News map[string]time.Time
	// Division is what divides the workload instead of the policy's spread, nil for none.
	Division *kinds.Division
	// Last is the last decision, nil for the first.
	Last *topology.WorkloadPlacementSpec
	// Reports are the newest of each member about this placement, by the member's name.
	Reports map[string]capacity.Report
	// MaxReported is the highest sequence that a member reported for the workload, of this placement or an earlier one.
	MaxReported int64
	// Written is the sequence of the order that stands in each member's Work, by the member's name.
	Written map[string]int64
}

// draft is a decision in the making. Steps write to it, and to nothing else.
type draft struct {
	facts *Facts
	// workload, last, reschedule and reports start as those of the facts.
	workload   kinds.Workload
	last       *topology.WorkloadPlacementSpec
	reschedule *topology.Reschedule
	reports    map[string]capacity.Report
	// left are the places whose replicas go elsewhere, with the reason.
	left map[place]string
	// takenBack is what the division starts from beside the last decision, by cell.
	takenBack map[cellID]int32
	// standings are what is known of the nodes of some cells.
	standings map[cellID]*standing
	// short: the decision leaves replicas unplaced.
	short bool

	// result is the outcome of the division, used what moving replicas uses of each subset's limits.
	result divided
	used   map[string]lending.Amounts
	notes  []Note
	// newRevision: the last decision was about another template.
	newRevision bool
	wave        waves.Decision
	spec        topology.WorkloadPlacementSpec

	decision Decision
	// done: a step completed the decision.
	done bool
}

func newDraft(f *Facts) *draft {
	return &draft{facts: f, workload: f.Workload, last: f.Last, reschedule: f.Reschedule, reports: f.Reports}
}

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

// UnknownMembers returns the names of a policy's cluster selector that no member has.
func UnknownMembers(s *topology.ClusterSelector, members []topology.MemberCluster) []string {
	var unknown []string
	for _, name := range s.Names {
		if !slices.ContainsFunc(members, func(m topology.MemberCluster) bool { return m.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
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
