package workload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// Revision is one pod template of a workload, by its published name and short hash.
type Revision struct {
	inplace.Revision
	Template *corev1.PodTemplateSpec
	// Claims is the hash of the claim templates that the revision was made with; "" for none.
	Claims string
}

// RevisionOf reads a stored revision.
func RevisionOf(stored *appsv1.ControllerRevision) (Revision, error) {
	template, err := history.Decode[corev1.PodTemplateSpec](stored.Data.Raw)
	if err != nil {
		return Revision{}, fmt.Errorf("read revision %s: %w", stored.Name, err)
	}
	return Revision{
		Revision: inplace.Revision{Name: stored.Name, Hash: history.ShortHash(stored)},
		Template: &template, Claims: stored.Annotations[volumes.AnnotationHash],
	}, nil
}

// Revisions are the revisions of a workload with one pod template.
type Revisions struct {
	// Stored are all of them, the oldest first: they say what the template of a pod was.
	Stored []*appsv1.ControllerRevision
	// Update is the newest revision, Current the one that all pods had last. They may be the same.
	Update, Current Revision
	// Collisions is for the status: how many names were taken.
	Collisions *int32
}

// RevisionStatus is what the status of a workload says of its revisions.
type RevisionStatus struct {
	Update, Current string
	Collisions      *int32
	// Answered: the status is that of this generation of the spec, whose template could be used.
	Answered bool
}

// Known reads the revisions that the status names. It is for a pass that does not look at the template.
func (r *Revisions) Known(status RevisionStatus) error {
	r.Collisions = status.Collisions
	var err error
	if update := history.Named(r.Stored, status.Update); update != nil {
		if r.Update, err = RevisionOf(update); err != nil {
			return err
		}
	}
	r.Current = r.Update
	return r.readCurrent(status)
}

// readCurrent sets the current revision, if the status names one that still exists.
func (r *Revisions) readCurrent(status RevisionStatus) (err error) {
	if status.Current == r.Update.Name {
		return nil
	}
	if current := history.Named(r.Stored, status.Current); current != nil {
		r.Current, err = RevisionOf(current)
	}
	return err
}

// unchanged returns the update revision if the status answers this generation and its update revision still is the
// newest. This saves most passes the comparison of templates. Nil means compare.
func (r *Revisions) unchanged(status RevisionStatus) *appsv1.ControllerRevision {
	if !status.Answered || len(r.Stored) == 0 {
		return nil
	}
	if newest := r.Stored[len(r.Stored)-1]; newest.Name == status.Update {
		return newest
	}
	return nil
}

// Revise finds or writes the revision of the template, and finds the current one. previous is the revision that pods
// are to keep until they are updated, where the status names none; it may be nil.
func (c *Controller[T, M]) Revise(
	ctx context.Context, r *Revisions, owner history.Owner, template *corev1.PodTemplateSpec,
	status RevisionStatus, previous *appsv1.ControllerRevision,
) (err error) {
	r.Collisions = status.Collisions
	update := r.unchanged(status)
	if update == nil {
		update, r.Collisions, err = history.Revise(ctx, c.History, owner, r.Stored, *template, status.Collisions)
		if err != nil {
			return err
		}
	}
	// The template of the spec means the same as the stored one, which need not be decoded.
	r.Update = Revision{
		Revision: inplace.Revision{Name: update.Name, Hash: history.ShortHash(update)},
		Template: template, Claims: owner.Annotations[volumes.AnnotationHash],
	}
	if history.Named(r.Stored, update.Name) == nil {
		r.Stored = append(r.Stored, update)
	}
	r.Current = r.Update
	if previous != nil && previous.Name != update.Name {
		r.Current, err = RevisionOf(previous)
		return err
	}
	return r.readCurrent(status)
}

// defaultHistoryLimit is the published default of revisionHistoryLimit.
const defaultHistoryLimit = 10

// Trim deletes stored revisions that nothing uses, beyond the limit; nil is the published default.
func (c *Controller[T, M]) Trim(
	ctx context.Context, stored []*appsv1.ControllerRevision, limit *int32, inUse func(*appsv1.ControllerRevision) bool,
) error {
	keep := defaultHistoryLimit
	if limit != nil {
		keep = int(*limit)
	}
	if len(stored) <= keep {
		return nil
	}
	if err := c.History.Delete(ctx, history.Excess(stored, inUse, keep)); err != nil {
		return fmt.Errorf("trim the history: %w", err)
	}
	return nil
}
