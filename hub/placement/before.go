package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// maxBefore is the largest template of before that is kept, in bytes: members get it as an annotation, and an API server takes
// 256 KiB of all annotations of an object. The other half is the user's.
const maxBefore = 128 * 1024

// beforeOf is the template that pods have which the update under way does not reach yet, nil where it may reach all. A member that
// joins meanwhile has never had it, and would make all of its pods of the newest.
//
// Where the update before this one did not reach all either, most pods have what that one was to replace.
func beforeOf(f *Facts, spec *topology.WorkloadPlacementSpec, wave *waves.Decision, newRevision bool) *topology.TemplateBefore {
	if f.Last == nil || f.Workload.Key.Kind != apps.CloneSetKind.Kind || wave.Ceilings == nil && reachesAll(spec) {
		return nil
	}
	before := f.Last.Before
	if newRevision && before == nil && f.Last.Revision != "" && f.Last.Template != nil {
		before = &topology.TemplateBefore{Revision: f.Last.Revision, Template: *f.Last.Template}
	}
	if before == nil || before.Revision == spec.Revision || len(before.Template.Raw) > maxBefore {
		return nil
	}
	return before
}

// reachesAll tells whether all pods may be updated, as the workload says.
func reachesAll(spec *topology.WorkloadPlacementSpec) bool {
	var update int32
	for i := range spec.Limits {
		update += spec.Limits[i].Update
	}
	return update >= spec.Replicas
}

// keepsOld tells whether pods of a member are to keep the template of before.
func keepsOld(order []*topology.Cell) bool {
	var old int32
	for _, c := range order {
		old += c.Replicas - c.Share.Update
	}
	return old > 0
}

func beforeRevision(spec *topology.WorkloadPlacementSpec) string {
	if spec.Before == nil {
		return ""
	}
	return spec.Before.Revision
}

// WithTemplateBefore returns a CloneSet as it was with the template of before.
func WithTemplateBefore(cs *apps.CloneSet, before *topology.TemplateBefore) (*apps.CloneSet, error) {
	template, err := decodeTemplate[corev1.PodTemplateSpec](before.Template.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the template of before of CloneSet %s/%s: %w", cs.Namespace, cs.Name, err)
	}
	old := cs.DeepCopy()
	old.Spec.Template = template
	return old, nil
}
