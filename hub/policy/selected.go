package policy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// SelectedFor returns the policy that holds for a workload as it is written, whether it exists or not, nil if none
// does; and the names of the members that the policy selects, sorted. It fails for a kind that the hub does not place,
// and where the reader fails.
func SelectedFor(
	ctx context.Context,
	reader client.Reader,
	kind schema.GroupKind,
	object client.Object,
) (*Policy, []string, error) {
	rules := kinds.All(kinds.HubRunsBuiltIns)
	rule, ok := rules[kind]
	if !ok {
		return nil, nil, fmt.Errorf("the hub does not place the kind %s; it places %s", kind.Kind, kinds.Names(rules))
	}
	workload, _ := rule.Read(object) // what is wrong with it is told where it is decided
	policies, err := List(ctx, reader, object.GetNamespace())
	if err != nil {
		return nil, nil, err
	}
	var recorded *topology.PolicyReference
	placement, _, err := store.FindPlacement(ctx, reader, workload.Key)
	if err != nil {
		return nil, nil, err
	}
	if placement != nil {
		recorded = placement.Spec.Policy
	}
	policy := Select(&workload, policies, recorded)
	if policy == nil {
		return nil, nil, nil
	}
	members, err := store.ListMembers(ctx, reader)
	if err != nil {
		return nil, nil, err
	}
	var selected []string
	for _, m := range decision.MembersFor(members, &policy.Spec.Clusters) {
		if m.Selected {
			selected = append(selected, m.Name)
		}
	}
	return policy, selected, nil
}
