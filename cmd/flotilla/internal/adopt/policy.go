package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// checkPolicy compares the members that were named with those that a policy selects, and says what is wrong, empty if
// they are the same. The hub asks every member that the policy selects: what runs in one that was not named would be
// counted too and scaled away, and what runs in one that is not selected would be made elsewhere once more.
func checkPolicy(
	ctx context.Context,
	hub client.Client,
	key wire.Key,
	object *unstructured.Unstructured,
	members []member,
) (string, error) {
	typed, err := typedOf(object)
	if err != nil {
		return "", err
	}
	policy, selected, err := policy.SelectedFor(ctx, hub, key.GroupKind(), typed)
	if err != nil {
		return "", err
	}
	named := make([]string, len(members))
	for i := range members {
		named[i] = members[i].name
	}
	slices.Sort(named)
	if policy == nil {
		return fmt.Sprintf("no policy selects %s: create a FederationPolicy for it in namespace %s with "+
			"spec.clusters.names: [%s]",
			key.Sentence(), key.Namespace, strings.Join(named, ", ")), nil
	}
	return mismatch(key, policy.Ref.Kind+" "+policy.Ref.Name, named, selected), nil
}

// mismatch is pure; both lists are sorted.
func mismatch(key wire.Key, policy string, named, selected []string) string {
	without := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
	}
	if left := without(named, selected); len(left) > 0 {
		return fmt.Sprintf(
			"%s does not select %s, so that what runs there would be made in other members too: widen its spec.clusters, or "+
				"leave %s out of --from",
			policy,
			strings.Join(left, ", "),
			strings.Join(left, ", "),
		)
	}
	if more := without(selected, named); len(more) > 0 {
		return fmt.Sprintf(
			"%s selects %s too, which --from does not name: if %s runs there, add it to --from; if not, set "+
				"spec.clusters.names: [%s] until all is adopted",
			policy,
			strings.Join(more, ", "),
			key.Sentence(),
			strings.Join(named, ", "),
		)
	}
	return ""
}
