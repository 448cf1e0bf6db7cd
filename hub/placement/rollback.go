package placement

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// InForce returns the workload as members are to run it: with the previous template where its own failed and was
// rolled back, else as it is.
func InForce(kind kinds.Kind, o client.Object, p *topology.WorkloadPlacement) client.Object {
	if !decision.RolledBack(&p.Spec) {
		return o
	}
	if back := withPreviousTemplate(kind, o, p.Spec.Wave); back != nil {
		return back
	}
	return o
}

// rollBack makes a decision about the template of before where that of the workload failed and is to be rolled back,
// unless a person has it tried again.
func (s *State) rollBack(kind kinds.Kind) {
	if s.Placement == nil || s.Object == nil {
		return
	}
	spec := &s.Placement.Spec
	if spec.Wave == nil || spec.Wave.RolledBack == "" ||
		s.Object.GetAnnotations()[topology.AnnotationWave] == waves.RetryWord(
			spec.Revision,
			spec.RevisionSequence,
			spec.Wave,
		) {
		return
	}
	if back := withPreviousTemplate(kind, s.Object, spec.Wave); back != nil {
		s.Object, s.rolledBack = back, true
	}
}

// withPreviousTemplate returns the workload with the template that the update of a wave replaced; nil where the
// workload has another template than the one that failed, or the previous one cannot be restored.
func withPreviousTemplate(kind kinds.Kind, o client.Object, w *topology.WaveProgress) client.Object {
	if w.Template == nil || kind.Template == nil || kind.Template.Revision(o) != w.RolledBack {
		return nil
	}
	if back := kind.Template.Restore(o, w.Template.Raw, w.From); back != nil {
		return back
	}
	return nil
}

// WithPreviousTemplate returns a workload with its previous template.
func WithPreviousTemplate(
	kind kinds.Kind,
	object client.Object,
	previous *topology.RevisionTemplate,
) (client.Object, error) {
	out, err := kind.Template.Set(object, previous.Template.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the template of before of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return out, nil
}
