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
// than the one that failed, or the template of before cannot be put back.
func withTemplateOfBefore(o client.Object, w *topology.WaveProgress) client.Object {
	if w.Template == nil {
		return nil
	}
	switch o := o.(type) {
	case *apps.CloneSet:
		data, err := history.Canonical(o.Spec.Template.PodTemplateSpec)
		if err != nil || history.Hash(data, nil) != w.RolledBack {
			return nil
		}
		template, err := decodeTemplate[corev1.PodTemplateSpec](w.Template.Raw)
		if err != nil {
			return nil
		}
		back := o.DeepCopy()
		back.Spec.Template = apps.NewPodTemplate(template)
		return back
	case *apps.UnitedDeployment:
		if failed, refusal := readUnitedDeployment(o); refusal != nil || failed.Revision != w.RolledBack {
			return nil
		}
		if back := takenBack(o, w.Template.Raw, w.From); back != nil {
			return back
		}
	}
	return nil
}

// takenBack returns a UnitedDeployment with the pod template of an earlier template; nil where that does not make the revision,
// since the patches of its subsets changed meanwhile. Limits, replicas and subsets stay those of today.
func takenBack(ud *apps.UnitedDeployment, template []byte, revision string) *apps.UnitedDeployment {
	before, err := decodeTemplate[apps.SubsetTemplate](template)
	if err != nil || before.CloneSetTemplate == nil || ud.Spec.Template.CloneSetTemplate == nil {
		return nil // other templates have no waves
	}
	back := ud.DeepCopy()
	back.Spec.Template.CloneSetTemplate.Spec.Template = before.CloneSetTemplate.Spec.Template
	if w, refusal := readUnitedDeployment(back); refusal != nil || w.Revision != revision {
		return nil
	}
	return back
}

// decodeTemplate reads a template as a placement keeps it.
func decodeTemplate[T any](raw []byte) (T, error) {
	return history.Decode[T]([]byte(`{"spec":{"template":` + string(raw) + `}}`))
}

// leftTemplate is what a rollback of the update that begins now would put back: the template of the last decision. Nil where it
// cannot be put back.
func leftTemplate(f *Facts) *runtime.RawExtension {
	if f.Last == nil || f.Last.Template == nil {
		return nil
	}
	switch o := f.Object.(type) {
	case *apps.CloneSet:
		return f.Last.Template
	case *apps.UnitedDeployment:
		if takenBack(o, f.Last.Template.Raw, f.Last.Revision) != nil {
			return f.Last.Template
		}
	}
	return nil
}

// lastWave is how far waves were, as an update that begins now finds it: without a template that cannot be put back any more.
func lastWave(f *Facts) *topology.WaveProgress {
	last := f.Last.Wave
	ud, ok := f.Object.(*apps.UnitedDeployment)
	if !ok || last == nil || last.Template == nil || takenBack(ud, last.Template.Raw, last.From) != nil {
		return last
	}
	last = last.DeepCopy()
	last.Template = nil
	return last
}
