package cloneset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// leave makes this a pass that only reports if the CloneSet or its namespace is being deleted. What becomes of the pods is
// the garbage collector's and the namespace controller's to decide.
func (r *Reconciler) leave(ctx context.Context, s *scope) error {
	if s.cs.DeletionTimestamp != nil {
		s.leaving = &conditions.Cause{Reason: conditions.ReasonDeleting, Message: conditions.Waiting(s.cs)}
		return nil
	}
	cause, err := r.namespaces.Cause(ctx, s.cs.Namespace, s.cs.UID)
	if err != nil {
		return fmt.Errorf("ask whether it can create pods: %w", err)
	}
	s.turnAway(cause)
	return nil
}

// turnedAway makes this a pass that only reports if the API server refused a create because the namespace is being deleted.
func (r *Reconciler) turnedAway(_ context.Context, s *scope) (bool, error) {
	s.turnAway(r.namespaces.Refused(s.cs.Namespace, s.cs.UID, errors.Join(slices.Collect(maps.Values(s.failed))...)))
	return true, nil
}

// turnAway takes the cause for which nothing can be created, if there is one.
func (s *scope) turnAway(cause *conditions.Cause) {
	if cause == nil {
		return
	}
	s.leaving, s.stalled, s.halted = cause, nil, false
	clear(s.failed)
	s.wake = counts.Sooner(s.wake, namespaces.LookAgain)
}

// left returns the cause with what is left of the CloneSet.
func (s *scope) left(pods int32) conditions.Cause {
	return conditions.Cause{Reason: s.leaving.Reason, Message: fmt.Sprintf("%s; it has %d pods", s.leaving.Message, pods)}
}
