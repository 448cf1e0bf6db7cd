package placement

import (
	"fmt"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// dependencies returns what goes with the workload under a policy, sorted, and what there is to say about it. absent tells
// which objects do not exist on the hub.
func dependencies(f *Facts) ([]topology.Dependency, []Note) {
	policy := f.Dependencies
	var wanted []kinds.Need
	if policy.Mode != topology.DependenciesNone {
		wanted = slices.Clone(f.Workload.Needs)
	}
	for _, ref := range policy.Extra {
		if !slices.ContainsFunc(wanted, func(n kinds.Need) bool { return n.DependencyReference == ref }) && !kinds.ClusterMade(ref.Kind, "", ref.Name, nil) {
			wanted = append(wanted, kinds.Need{DependencyReference: ref})
		}
	}
	slices.SortFunc(wanted, func(a, b kinds.Need) int { return kinds.CompareRefs(a.DependencyReference, b.DependencyReference) })
	var carried []topology.Dependency
	var missing, secrets, tokens []string
	for _, n := range wanted {
		switch {
		case n.Kind == kinds.SecretKind && policy.Secrets != topology.SecretsCarry:
			if !n.Optional {
				secrets = append(secrets, n.Name)
			}
			continue
		case f.Local[n.DependencyReference]:
			if !n.Optional {
				tokens = append(tokens, n.Name)
			}
			continue
		case f.Absent[n.DependencyReference] && !n.Optional:
			missing = append(missing, n.Kind+" "+n.Name)
		}
		carried = append(carried, topology.Dependency{DependencyReference: n.DependencyReference, Missing: f.Absent[n.DependencyReference]})
	}
	var notes []Note
	if len(missing) > 0 {
		notes = append(notes, Note{Reason: DependencyMissing, Message: fmt.Sprintf(
			"%s does not exist in namespace %s of the hub, and %s needs it; create it there, or in each member", listed(missing), f.Workload.Key.Namespace, f.Workload.Key.Sentence())})
	}
	if len(secrets) > 0 {
		notes = append(notes, Note{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s names Secret %s, and Secrets stay on the hub; set spec.dependencies.secrets: Carry in %s %s, or make it in each member",
			f.Workload.Key.Sentence(), listed(secrets), f.Policy.Kind, f.Policy.Name)})
	}
	if len(tokens) > 0 {
		notes = append(notes, Note{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s names Secret %s, the token of a ServiceAccount of the hub, which is worth nothing in a member and stays; make one of that name in each member",
			f.Workload.Key.Sentence(), listed(tokens))})
	}
	if over := len(carried) - topology.MaxDependencies; over > 0 {
		carried = carried[:topology.MaxDependencies]
		notes = append(notes, Note{Reason: TooManyDependencies, Stalled: true, Message: fmt.Sprintf(
			"%s names %d objects, and at most %d go with a workload; the last %d by kind and name do not: make them in each member, or put several into one",
			f.Workload.Key.Sentence(), topology.MaxDependencies+over, topology.MaxDependencies, over)})
	}
	return carried, notes
}

// listed joins names for a sentence; of many the first are named.
func listed(names []string) string {
	if more := len(names) - clustersInColumn; more > 0 {
		names = append(slices.Clone(names[:clustersInColumn]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
