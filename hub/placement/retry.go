package placement

import "context"

// knownTries is how often a decision is made anew because members promised room to others meanwhile. The last one
// stands: then the room may be given twice, and what does not fit waits in its member.
const knownTries = 8

// decide makes a decision that knows what members promised to other workloads, and records what it promises itself.
func (r *Reconciler) decide(ctx context.Context, s *State) (Step, error) {
	for try := 1; ; try++ {
		read := s.read
		if try == knownTries {
			read = -1
		}
		next := Decide(s, r.rules)
		switch {
		case next.Remove, s.Object == nil:
			r.reservations.Write(r.clock.Now(), s.key, nil, nil, nil, -1)
			return next, nil
		case next.Spec == nil, r.reservations.Write(r.clock.Now(), s.key, next.requests, next.Spec.Cells, s.reports, read):
			return next, nil
		}
		if err := r.gatherMembers(ctx, s); err != nil {
			return Step{}, err
		}
	}
}
