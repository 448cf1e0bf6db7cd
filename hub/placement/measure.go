package placement

import topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"

// asked tells the meter of what users ask for, as it is looked at.
func (r *Reconciler) asked(s *state) {
	if s.object == nil {
		r.meter.Forget(s.key)
		return
	}
	r.meter.Asked(s.key, s.object.GetGeneration(), s.placement, s.now)
}

// counted tells the meter which numbers a decision changed, once it stands.
func (r *Reconciler) counted(s *state, step step) {
	var last []topology.Cell
	if s.placement != nil {
		last = s.placement.Spec.Cells
	}
	switch {
	case step.spec != nil:
		r.meter.Decided(last, step.spec.Cells)
	case step.remove:
		r.meter.Decided(last, nil)
	}
}
