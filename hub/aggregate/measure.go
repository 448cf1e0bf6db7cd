package aggregate

// measure tells the meter how far the members are with what the placement was made of.
func (r *Reconciler) measure(f *Facts, s *Sum) {
	if f.Placement == nil || len(f.Placement.Spec.Cells) == 0 {
		return
	}
	r.meter.Answered(f.Key, f.Placement.Spec.Workload.Generation, s.Answered, s.Stalled == nil && s.Done())
}
