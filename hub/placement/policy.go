package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Kinds of policies, as a PolicyReference names them.
const (
	KindPolicy        = "FederationPolicy"
	KindClusterPolicy = "ClusterFederationPolicy"
)

// Policy is a policy of either scope.
type Policy struct {
	Ref     topology.PolicyReference
	Created time.Time
	Spec    topology.FederationPolicySpec
}

// How precisely a policy selects a workload; more goes before less.
const (
	notSelected = iota
	byKind
	byLabels
	byName
)

// selects tells how precisely a policy selects the workload, notSelected if it does not.
func (p *Policy) selects(w *Workload) int {
	best := notSelected
	for i := range p.Spec.Workloads {
		best = max(best, selectedBy(&p.Spec.Workloads[i], w))
	}
	return best
}

func selectedBy(s *topology.WorkloadSelector, w *Workload) int {
	if s.Kind != w.Key.Kind || groupOf(s) != groupIn(w.Ref.APIVersion) {
		return notSelected
	}
	if s.Name != "" {
		if s.Name == w.Key.Name {
			return byName
		}
		return notSelected
	}
	if s.Selector == nil {
		return byKind
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil || !selector.Matches(labels.Set(w.Labels)) {
		return notSelected
	}
	return byLabels
}

func groupOf(s *topology.WorkloadSelector) string {
	if s.APIVersion == "" {
		return apps.GroupVersion.Group
	}
	return groupIn(s.APIVersion)
}

// groupIn returns the group of an apiVersion, which is empty for that of the core.
func groupIn(apiVersion string) string {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		return ""
	}
	return group
}

// SelectPolicy returns the policy that holds for the workload, nil if none selects it. Policies of the namespace go before
// those of the cluster, which are the default. Among those of one scope the recorded one stays; else the most precise
// (name, then labels, then kind), then the oldest, then the first by name.
func SelectPolicy(w *Workload, policies []Policy, recorded *topology.PolicyReference) *Policy {
	var candidates []*Policy
	for i := range policies {
		if policies[i].selects(w) > notSelected {
			candidates = append(candidates, &policies[i])
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, func(a, b *Policy) int {
		return cmp.Or(
			first(a.Ref.Kind == KindPolicy, b.Ref.Kind == KindPolicy),
			first(recorded != nil && a.Ref == *recorded, recorded != nil && b.Ref == *recorded),
			cmp.Compare(b.selects(w), a.selects(w)),
			a.Created.Compare(b.Created),
			strings.Compare(a.Ref.Name, b.Ref.Name),
		)
	})
}

// first orders what is true before what is false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// unknownKinds returns what a policy names and the table of kinds does not have.
func unknownKinds(spec *topology.FederationPolicySpec, rules map[string]Rule) []string {
	var unknown []string
	for i := range spec.Workloads {
		s := &spec.Workloads[i]
		if runsOnHub(s, rules) {
			continue
		}
		if rule, ok := rules[s.Kind]; !ok || rule.GVK.Group != groupOf(s) {
			entry := fmt.Sprintf("%s (%s)", s.Kind, groupOf(s))
			if meant := meantBy(s, rules); meant != "" {
				entry = fmt.Sprintf("%s (%s, which is what an entry without apiVersion means; for the %s of %s write apiVersion: %[4]s)", s.Kind, groupOf(s), s.Kind, meant)
			}
			unknown = append(unknown, entry)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// meantBy returns the apiVersion that an entry without one may mean, "" where it has one or no kind of this name is known. The API
// server fills in the default, so that an entry with it may be one without.
func meantBy(s *topology.WorkloadSelector, rules map[string]Rule) string {
	if s.APIVersion != "" && s.APIVersion != apps.GroupVersion.String() {
		return ""
	}
	for _, native := range natives() {
		if native.Kind == s.Kind {
			return native.GroupVersion().String()
		}
	}
	if rule, ok := rules[s.Kind]; ok && rule.GVK.Group != apps.GroupVersion.Group {
		return rule.GVK.GroupVersion().String()
	}
	return ""
}

// kindsOfHub returns what a policy names and the hub's own cluster runs.
func kindsOfHub(spec *topology.FederationPolicySpec, rules map[string]Rule) []string {
	var named []string
	for i := range spec.Workloads {
		if s := &spec.Workloads[i]; runsOnHub(s, rules) {
			named = append(named, fmt.Sprintf("%s (%s)", s.Kind, groupOf(s)))
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// insteadOf says what to do with the kinds that the hub's own cluster runs: what carries such pods, and where nothing does, who runs them.
func insteadOf(spec *topology.FederationPolicySpec, rules map[string]Rule) string {
	var ways []string
	for i := range spec.Workloads {
		s := &spec.Workloads[i]
		if !runsOnHub(s, rules) {
			continue
		}
		switch s.Kind {
		case "Deployment", "ReplicaSet":
			ways = append(ways, "put the pod template into a UnitedDeployment (spec.template.deploymentTemplate), or use a CloneSet, and name that kind")
		case "StatefulSet":
			ways = append(ways, "put the StatefulSet into a UnitedDeployment (spec.template.statefulSetTemplate), and name that kind")
		default: // each cluster's own nodes, and what runs once, are not divided
			ways = append(ways, fmt.Sprintf("apply the %s in the members that are to run it, in a namespace that is not federated", s.Kind))
		}
	}
	slices.Sort(ways)
	return strings.Join(slices.Compact(ways), "; ")
}

func selectsHeldSecrets(spec *topology.FederationPolicySpec) bool {
	return !letsGo(spec, secretKind) && slices.ContainsFunc(spec.Workloads, func(s topology.WorkloadSelector) bool {
		return s.Kind == secretKind && groupOf(&s) == ""
	})
}

// selectsMember tells whether a policy's cluster selector takes in a member.
func selectsMember(s *topology.ClusterSelector, m *topology.MemberCluster) bool {
	if len(s.Names) > 0 && !slices.Contains(s.Names, m.Name) {
		return false
	}
	if s.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	return err == nil && selector.Matches(labels.Set(m.Labels))
}
