package placement

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// InForce returns the workload as members are to run it: with the previous template where its own failed and was rolled back,
// else as it is.
func InForce(kind kinds.Kind, o client.Object, p *topology.WorkloadPlacement) client.Object {
	if !RolledBack(&p.Spec) {
		return o
	}
	if back := withPreviousTemplate(kind, o, p.Spec.Wave); back != nil {
		return back
	}
	return o
}

// RolledBack tells whether a placement's orders carry the template of before, since the newest one failed.
func RolledBack(spec *topology.WorkloadPlacementSpec) bool {
	return spec.Wave != nil && spec.Wave.RolledBack != "" && spec.Revision == spec.Wave.From
}

// rollBack makes a decision about the template of before where that of the workload failed and is to be rolled back, unless a
// person has it tried again.
func (s *state) rollBack(kind kinds.Kind) {
	if s.placement == nil || s.object == nil {
		return
	}
	spec := &s.placement.Spec
	if spec.Wave == nil || spec.Wave.RolledBack == "" || s.object.GetAnnotations()[topology.AnnotationWave] == waves.RetryWord(spec.Revision, spec.RevisionSequence, spec.Wave) {
		return
	}
	if back := withPreviousTemplate(kind, s.object, spec.Wave); back != nil {
		s.object, s.rolledBack = back, true
	}
}

// withPreviousTemplate returns the workload with the template that the update of a wave replaced; nil where the workload has
// another template than the one that failed, or the previous one cannot be restored.
func withPreviousTemplate(kind kinds.Kind, o client.Object, w *topology.WaveProgress) client.Object {
	if w.Template == nil || kind.Template == nil || kind.Template.Revision(o) != w.RolledBack {
		return nil
	}
	if back := kind.Template.Restore(o, w.Template.Raw, w.From); back != nil {
		return back
	}
	return nil
}

// restore returns the workload with a previous template, nil where that no longer makes the revision.
func (f *Facts) restore(template []byte, revision string) kinds.Object {
	if f.Kind.Template == nil {
		return nil
	}
	return f.Kind.Template.Restore(f.Object, template, revision)
}

// leftTemplate is what a rollback of the update that begins now would put back: the template of the last decision. Nil where it
// cannot be put back.
func leftTemplate(f *Facts) *runtime.RawExtension {
	if f.Last == nil || f.Last.Template == nil {
		return nil
	}
	if f.restore(f.Last.Template.Raw, f.Last.Revision) == nil {
		return nil
	}
	return f.Last.Template
}

// lastWave is how far waves were, as an update that begins now finds it: without a template that cannot be put back any more.
func lastWave(f *Facts) *topology.WaveProgress {
	last := f.Last.Wave
	if last == nil || last.Template == nil || f.restore(last.Template.Raw, last.From) != nil {
		return last
	}
	last = last.DeepCopy()
	last.Template = nil
	return last
}
