package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// InForce returns the workload as members are to have it: with the template of before where its own failed and was rolled back,
// else as it is.
func InForce(o client.Object, p *topology.WorkloadPlacement) client.Object {
	if !RolledBack(&p.Spec) {
		return o
	}
	if back := withTemplateOfBefore(o, p.Spec.Wave); back != nil {
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
func (s *state) rollBack() {
	if s.placement == nil || s.object == nil {
		return
	}
	spec := &s.placement.Spec
	if spec.Wave == nil || spec.Wave.RolledBack == "" || s.object.GetAnnotations()[topology.AnnotationWave] == waves.RetryWord(spec.Revision, spec.RevisionSequence, spec.Wave) {
		return
	}
	if back := withTemplateOfBefore(s.object, spec.Wave); back != nil {
		s.object, s.rolledBack = back, true
	}
}

// withTemplateOfBefore returns the workload with the template that the update of a wave left; nil where it has another template
// than the one that failed.
func withTemplateOfBefore(o client.Object, w *topology.WaveProgress) client.Object {
	cs, ok := o.(*apps.CloneSet)
	if !ok || w.Template == nil {
		return nil
	}
	data, err := history.Canonical(cs.Spec.Template)
	if err != nil || history.Hash(data, nil) != w.RolledBack {
		return nil
	}
	template, err := decodeTemplate[corev1.PodTemplateSpec](w.Template.Raw)
	if err != nil {
		return nil
	}
	back := cs.DeepCopy()
	back.Spec.Template = template
	return back
}

// decodeTemplate reads a template as a placement keeps it.
func decodeTemplate[T any](raw []byte) (T, error) {
	return history.Decode[T]([]byte(`{"spec":{"template":` + string(raw) + `}}`))
}

// leftTemplate is what a rollback would put back: the template of the last decision, of a kind that has but one.
func leftTemplate(f *Facts) *runtime.RawExtension {
	if f.Last == nil || f.Workload.Key.Kind != apps.CloneSetKind.Kind {
		return nil
	}
	return f.Last.Template
}
