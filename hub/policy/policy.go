package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
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
	NotSelected = iota
	byKind
	byLabels
	byName
)

// Selects returns how precisely a policy selects the workload, NotSelected if it does not.
func (p *Policy) Selects(w *kinds.Workload) int {
	best := NotSelected
	for i := range p.Spec.Workloads {
		best = max(best, selectedBy(&p.Spec.Workloads[i], w))
	}
	return best
}

func selectedBy(s *topology.WorkloadSelector, w *kinds.Workload) int {
	if kindOf(s) != w.Key.GroupKind() {
		return NotSelected
	}
	if s.Name != "" {
		if s.Name == w.Key.Name {
			return byName
		}
		return NotSelected
	}
	if s.Selector == nil {
		return byKind
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil || !selector.Matches(labels.Set(w.Labels)) {
		return NotSelected
	}
	return byLabels
}

// kindOf returns the kind that an entry selects. Without apiVersion it is the one that the hub knows of this name. The
// group of a name that several groups have is that of no kind: such an entry selects nothing, and the policy's status
// says so.
func kindOf(s *topology.WorkloadSelector) schema.GroupKind {
	if s.APIVersion != "" {
		return schema.FromAPIVersionAndKind(s.APIVersion, s.Kind).GroupKind()
	}
	return bareKind(s.Kind, kinds.Named(s.Kind))
}

// bareKind returns the kind of this name, of which named are those that hubs place.
func bareKind(name string, named []schema.GroupVersionKind) schema.GroupKind {
	switch len(named) {
	case 0:
		return schema.GroupKind{Group: apps.GroupVersion.Group, Kind: name}
	case 1:
		return named[0].GroupKind()
	default:
		return schema.GroupKind{Group: severalGroups, Kind: name}
	}
}

// severalGroups is no valid name of a group.
const severalGroups = "(several groups)"

// Select returns the policy that holds for the workload, nil if none selects it. Policies of the namespace go before
// those of the cluster, which are the default. Among those of one scope the recorded one stays; else the most precise
// (name, then labels, then kind), then the oldest, then the first by name.
func Select(w *kinds.Workload, policies []Policy, recorded *topology.PolicyReference) *Policy {
	var candidates []*Policy
	for i := range policies {
		if policies[i].Selects(w) > NotSelected {
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
			cmp.Compare(b.Selects(w), a.Selects(w)),
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

// runsOnHub reports whether an entry names a kind that the hub's own cluster runs: the table has no such kinds.
func runsOnHub(s *topology.WorkloadSelector, rules kinds.Table) bool {
	_, placed := rules[kindOf(s)]
	return kinds.IsBuiltIn(kindOf(s)) && !placed
}

// unknownKinds returns what a policy names and the table of kinds does not have.
func unknownKinds(spec *topology.FederationPolicySpec, rules kinds.Table) []string {
	var unknown []string
	for i := range spec.Workloads {
		s := &spec.Workloads[i]
		if runsOnHub(s, rules) {
			continue
		}
		_, never := kinds.NeverPlaced(kindOf(s))
		if _, ok := rules[kindOf(s)]; !ok && !never {
			unknown = append(unknown, unknownKind(s, kinds.Named(s.Kind)))
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// neverPlaced returns the kinds that a policy in a namespace ("" for none) names and that are never placed by it, with
// what to do instead.
func neverPlaced(spec *topology.FederationPolicySpec, namespace string, rules kinds.Table) []string {
	var named []string
	for i := range spec.Workloads {
		kind := kindOf(&spec.Workloads[i])
		if instead, never := kinds.NeverPlaced(kind); never {
			named = append(named, instead)
		}
		if namespace != "" && rules[kind].ClusterScoped {
			named = append(named, kind.Kind+", whose objects have no namespace: name it in a ClusterFederationPolicy")
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// unknownKind names what an entry selects that is not placed, of which named are the kinds of this name that hubs
// place. Earlier definitions filled in the apiVersion of this suite, so an entry with it may have been written without
// one.
func unknownKind(s *topology.WorkloadSelector, named []schema.GroupVersionKind) string {
	versions := make([]string, 0, len(named))
	for _, kind := range named {
		versions = append(versions, kind.GroupVersion().String())
	}
	group := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind).Group
	if s.APIVersion == "" {
		group = bareKind(s.Kind, named).Group
	}
	switch {
	case group == severalGroups:
		return fmt.Sprintf(
			"%s without apiVersion, which several groups have; write apiVersion: %s",
			s.Kind,
			strings.Join(versions, " or apiVersion: "),
		)
	case group == apps.GroupVersion.Group && len(versions) > 0:
		return fmt.Sprintf(
			"%s (%s; for the %s of %s write apiVersion: %[4]s)",
			s.Kind,
			group,
			s.Kind,
			strings.Join(versions, " or "),
		)
	default:
		return fmt.Sprintf("%s (%s)", s.Kind, group)
	}
}

// kindsOfHub returns what a policy names and the hub's own cluster runs.
func kindsOfHub(spec *topology.FederationPolicySpec, rules kinds.Table) []string {
	var named []string
	for i := range spec.Workloads {
		if s := &spec.Workloads[i]; runsOnHub(s, rules) {
			named = append(named, fmt.Sprintf("%s (%s)", s.Kind, kindOf(s).Group))
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// insteadOf says what to do with the kinds that the hub's own cluster runs: what carries such pods, and where nothing
// does, who runs them.
func insteadOf(spec *topology.FederationPolicySpec, rules kinds.Table) string {
	var ways []string
	for i := range spec.Workloads {
		s := &spec.Workloads[i]
		if !runsOnHub(s, rules) {
			continue
		}
		ways = append(ways, kinds.InsteadOf(s.Kind))
	}
	slices.Sort(ways)
	return strings.Join(slices.Compact(ways), "; ")
}

func selectsHeldSecrets(spec *topology.FederationPolicySpec) bool {
	return !kinds.LetsGo(spec, kinds.SecretKind) &&
		slices.ContainsFunc(spec.Workloads, func(s topology.WorkloadSelector) bool {
			return kindOf(&s) == schema.GroupKind{Group: corev1.GroupName, Kind: kinds.SecretKind}
		})
}

// List returns the policies that a namespace's workloads can fall under; of cluster-scoped objects, whose namespace is
// empty, the ClusterFederationPolicies alone.
func List(ctx context.Context, reader client.Reader, namespace string) ([]Policy, error) {
	local, global := &topology.FederationPolicyList{}, &topology.ClusterFederationPolicyList{}
	if namespace != "" {
		if err := reader.List(ctx, local, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list FederationPolicies of %s: %w", namespace, err)
		}
	}
	if err := reader.List(ctx, global, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterFederationPolicies: %w", err)
	}
	var policies []Policy
	for i := range local.Items {
		p := &local.Items[i]
		if p.DeletionTimestamp == nil {
			policies = append(
				policies,
				Policy{topology.PolicyReference{Kind: KindPolicy, Name: p.Name}, p.CreationTimestamp.Time, p.Spec},
			)
		}
	}
	for i := range global.Items {
		p := &global.Items[i]
		if p.DeletionTimestamp == nil {
			policies = append(
				policies,
				Policy{topology.PolicyReference{Kind: KindClusterPolicy, Name: p.Name}, p.CreationTimestamp.Time, p.Spec},
			)
		}
	}
	return policies, nil
}
