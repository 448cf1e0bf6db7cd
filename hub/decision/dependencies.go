package decision

import (
	"fmt"
	"slices"
	"strings"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// dependencies returns what goes with the workload under a policy, sorted, and what there is to say about it. absent
// tells which objects do not exist on the hub.
func dependencies(d *draft) ([]topology.Dependency, []Note) {
	if d.workload.Key.ClusterScoped() {
		return nil, nil // it names no objects of a namespace
	}
	policy := d.facts.Dependencies
	var wanted []kinds.Need
	if policy.Mode != topology.DependenciesNone {
		wanted = slices.Clone(d.workload.Needs)
	}
	for _, ref := range policy.Extra {
		if !slices.ContainsFunc(wanted, func(n kinds.Need) bool { return n.DependencyReference == ref }) &&
			!kinds.ClusterMade(ref.Kind, "", ref.Name, nil) {
			wanted = append(wanted, kinds.Need{DependencyReference: ref})
		}
	}
	slices.SortFunc(
		wanted,
		func(a, b kinds.Need) int { return kinds.CompareRefs(a.DependencyReference, b.DependencyReference) },
	)
	var carried []topology.Dependency
	var missing, secrets, tokens []string
	for _, n := range wanted {
		switch {
		case n.Kind == kinds.SecretKind && policy.Secrets != topology.SecretsCarry:
			if !n.Optional {
				secrets = append(secrets, n.Name)
			}
			continue
		case d.facts.Local[n.DependencyReference]:
			if !n.Optional {
				tokens = append(tokens, n.Name)
			}
			continue
		case d.facts.Absent[n.DependencyReference] && !n.Optional:
			missing = append(missing, n.Kind+" "+n.Name)
		}
		carried = append(
			carried,
			topology.Dependency{DependencyReference: n.DependencyReference, Missing: d.facts.Absent[n.DependencyReference]},
		)
	}
	var notes []Note
	if len(missing) > 0 {
		notes = append(notes, Note{Reason: DependencyMissing, Message: fmt.Sprintf(
			"%s does not exist in namespace %s of the hub, and %s needs it; create it there, or in each member",
			listed(missing),
			d.workload.Key.Namespace,
			d.workload.Key.Sentence(),
		)})
	}
	if len(secrets) > 0 {
		notes = append(notes, Note{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s names Secret %s, and Secrets stay on the hub; set spec.dependencies.secrets: Carry in %s %s, or make it in "+
				"each member",
			d.workload.Key.Sentence(),
			listed(secrets),
			d.facts.Policy.Kind,
			d.facts.Policy.Name,
		)})
	}
	if len(tokens) > 0 {
		notes = append(notes, Note{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s names Secret %s, the token of a ServiceAccount of the hub, which is worth nothing in a member and stays; make "+
				"one of that name in each member",
			d.workload.Key.Sentence(),
			listed(tokens),
		)})
	}
	if over := len(carried) - topology.MaxDependencies; over > 0 {
		carried = carried[:topology.MaxDependencies]
		notes = append(notes, Note{Reason: TooManyDependencies, Stalled: true, Message: fmt.Sprintf(
			"%s names %d objects, and at most %d go with a workload; the last %d by kind and name do not: make them in each "+
				"member, or put several into one",
			d.workload.Key.Sentence(),
			topology.MaxDependencies+over,
			topology.MaxDependencies,
			over,
		)})
	}
	return carried, notes
}

// listed joins names for a sentence; of many the first are named.
func listed(names []string) string {
	if more := len(names) - ClustersInColumn; more > 0 {
		names = append(slices.Clone(names[:ClustersInColumn]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Overrides are what a policy changes in members' manifests, as a decision depends on it.
type Overrides struct {
	// Hashes by cluster; a cluster without overrides is not in it.
	Hashes map[string]string
	// Remarks are sentences about entries that do not hold where one might think so.
	Remarks []string
}

// OverridesOf reads the overrides of a policy for the members that exist.
func OverridesOf(
	policy topology.PolicyReference,
	list []topology.Override,
	key wire.Key,
	members []topology.MemberCluster,
) (Overrides, *kinds.Rejection) {
	if len(list) == 0 {
		return Overrides{}, nil
	}
	if misfit := override.Check(list); misfit != nil {
		return Overrides{}, Misfit(policy, key, "", misfit)
	}
	o := Overrides{Hashes: map[string]string{}, Remarks: override.Partly(list, members)}
	for i := range members {
		hash, err := override.Hash(override.For(list, &members[i]))
		if err != nil {
			return Overrides{}, &kinds.Rejection{
				Reason: InvalidOverride,
				Message: fmt.Sprintf(
					"%s %s cannot be carried out on %s: %v; correct the entry",
					policy.Kind,
					policy.Name,
					key.Sentence(),
					err,
				),
			}
		}
		if hash != "" {
			o.Hashes[members[i].Name] = hash
		}
	}
	return o, nil
}

// mark records in each cell what its cluster gets.
func (o *Overrides) mark(cells []topology.Cell) {
	for i := range cells {
		cells[i].Overrides = o.Hashes[cells[i].Cluster]
	}
}

// Misfit is the refusal for an override that does not fit; cluster is empty where it fits nowhere.
func Misfit(policy topology.PolicyReference, key wire.Key, cluster string, misfit *override.Misfit) *kinds.Rejection {
	where := ""
	if cluster != "" {
		where = " in " + cluster
	}
	return &kinds.Rejection{
		Reason: InvalidOverride,
		Message: fmt.Sprintf("overrides[%d] of %s %s does not fit %s%s: %s; until then nothing new is delivered",
			misfit.Index, policy.Kind, policy.Name, key.Sentence(), where, misfit.Problem),
	}
}
