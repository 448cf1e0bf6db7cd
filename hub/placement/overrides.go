package placement

import (
	"fmt"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Overrides are what a policy changes in members' manifests, as a decision depends on it.
type Overrides struct {
	// Hashes by cluster; a cluster without overrides is not in it.
	Hashes map[string]string
	// Remarks are sentences about entries that do not hold where one might think so.
	Remarks []string
}

// overridesOf reads the overrides of a policy for the members that exist.
func overridesOf(policy *Policy, key wire.Key, members []topology.MemberCluster) (Overrides, *kinds.Rejection) {
	list := policy.Spec.Overrides
	if len(list) == 0 {
		return Overrides{}, nil
	}
	if misfit := override.Check(list); misfit != nil {
		return Overrides{}, Misfit(policy.Ref, key, "", misfit)
	}
	o := Overrides{Hashes: map[string]string{}, Remarks: override.Partly(list, members)}
	for i := range members {
		hash, err := override.Hash(override.For(list, &members[i]))
		if err != nil {
			return Overrides{}, &kinds.Rejection{Reason: InvalidOverride, Message: fmt.Sprintf("%s %s cannot be carried out on %s: %v; correct the entry", policy.Ref.Kind, policy.Ref.Name, key.Sentence(), err)}
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
	return &kinds.Rejection{Reason: InvalidOverride, Message: fmt.Sprintf("overrides[%d] of %s %s does not fit %s%s: %s; until then nothing new is delivered",
		misfit.Index, policy.Kind, policy.Name, key.Sentence(), where, misfit.Problem)}
}
