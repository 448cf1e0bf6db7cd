package placement

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// maxBefore is the largest template of before that is kept, in bytes: members get it as an annotation, and an API server takes
// 256 KiB of all annotations of an object. The other half is the user's.
const maxBefore = 128 * 1024

// beforeOf is the template that pods have which the update under way does not reach yet, nil where it may reach all. A member that
// joins meanwhile has never had it, and would make all of its pods of the newest. replicas are those of each subset.
//
// Where the update before this one did not reach all either, most pods have what that one was to replace.
func beforeOf(f *Facts, spec *topology.WorkloadPlacementSpec, replicas map[string]int32, wave *waves.Decision, newRevision bool) *topology.TemplateBefore {
	if f.Last == nil || wave.Ceilings == nil && reachesAll(f, spec, replicas) {
		return nil
	}
	before := f.Last.Before
	if newRevision && before == nil && f.Last.Revision != "" && f.Last.Template != nil {
		before = &topology.TemplateBefore{Revision: f.Last.Revision, Template: *f.Last.Template}
	}
	if before == nil || before.Revision == spec.Revision || len(before.Template.Raw) > maxBefore || f.Kind.Template != nil && !f.Kind.Template.StillApplies(f.Object, before.Template.Raw, before.Revision) {
		return nil
	}
	return before
}

// reachesAll tells whether all pods may be updated, as the workload says.
func reachesAll(f *Facts, spec *topology.WorkloadPlacementSpec, replicas map[string]int32) bool {
	if f.Workload.Open {
		var update int32
		for i := range spec.Limits {
			update += spec.Limits[i].Update
		}
		return update >= spec.Replicas
	}
	return !slices.ContainsFunc(f.Workload.Subsets, func(s kinds.Subset) bool {
		n := replicas[s.Name]
		return !s.Removed && s.Amounts(n).Update < n
	})
}

// keepsOld tells whether pods of a member are to keep the template of before.
func keepsOld(order []*topology.Cell) bool {
	old := map[string]int32{}
	for _, c := range order {
		old[c.Subset] += c.Replicas - c.Share.Update
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(old)), func(n int32) bool { return n > 0 })
}

func beforeRevision(spec *topology.WorkloadPlacementSpec) string {
	if spec.Before == nil {
		return ""
	}
	return spec.Before.Revision
}

// WithPreviousTemplate returns a workload with its previous template.
func WithPreviousTemplate(kind kinds.Kind, object client.Object, previous *topology.TemplateBefore) (client.Object, error) {
	out, err := kind.Template.Set(object, previous.Template.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the template of before of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return out, nil
}
