package sidecarset

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// Reconciler brings SidecarSets to running pods.
type Reconciler struct {
	*workload.Controller[*v1beta1.SidecarSet, memory]
	// namespace has the revisions.
	namespace string
	allowed   *allow.Source
	// gauge counts the pods without their sidecars.
	gauge *prometheus.GaugeVec
}

// The conditions that errors of a pass are kept under.
const (
	failureRevision = "FailedRevision"
	failureUpdate   = "FailedUpdate"
)

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, set: p.Object, held: map[types.UID]bool{},
		workloads: map[types.UID]*rollout.Workload{}}, r.gather, r.revise, r.decide, r.pullAhead, r.permit, r.apply,
		r.reasons, r.trim, r.report)
}

// decide makes the plan, if there is a revision.
func (r *Reconciler) decide(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil || s.latest == nil {
		return true, nil
	}
	var err error
	if s.inFlight, s.absent, err = r.settle(ctx, s); err != nil {
		return false, err
	}
	s.recreate = s.recreates() && s.due(r.Clock.Now())
	r.plan(s)
	return true, nil
}

// plan makes the plan, without the pods that are held.
func (r *Reconciler) plan(s *scope) {
	plan, err := rollout.PlanOf(&rollout.Set{
		Name: s.set.Name, Labels: s.set.Labels, Spec: r.spec(s), Hashes: s.hashes, Revision: s.latest.Name,
		Version: s.set.ResourceVersion, Held: s.held, Recreate: s.recreate, Missing: s.missing, InFlight: s.inFlight,
		Absent: s.absent, Grant: s.grant(), Refused: s.refusedAt(), Recreates: s.recreates(),
	}, s.pods, s.allowed, r.Clock.Now())
	if err != nil {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidSpec, Message: err.Error()}
	}
	if s.plan = plan; s.toUpdate() > 0 {
		s.Sooner(s.Budget.AskAgain()) // a SidecarSet at rest asks nothing
	}
}

// spec returns the spec that holds: nothing is updated while a person has to correct it.
func (r *Reconciler) spec(s *scope) *v1beta1.SidecarSetSpec {
	if s.Stalled == nil && !s.Budget.Expired && s.paused() == s.set.Spec.UpdateStrategy.Paused {
		return &s.set.Spec
	}
	spec := s.set.Spec.DeepCopy()
	spec.UpdateStrategy.Paused = true
	return spec
}

// apply writes the pods of the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	r.evict(ctx, s)
	writes := s.plan.Writes
	if len(writes) == 0 {
		return true, nil
	}
	steps := write.Steps{N: len(writes), Start: s.Width(r.Clock.Now()), Limit: write.InFlight}
	refused := make([]error, len(writes))
	done, err := write.SlowStart(ctx, steps, func(i int) error {
		err := r.write(ctx, s, writes[i])
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			refused[i], err = err, nil // as by the budget of this pod: the others go on
		}
		return err
	})
	s.worked, s.updated = s.worked || done > 0, 0
	for _, w := range writes[:min(done, len(writes))] {
		if w.Patch != nil {
			s.updated++
		}
	}
	for i, why := range refused {
		if why != nil {
			s.updated--
			s.refuse(writes[i].Pod, nil, budgetText(why), r.Clock.Now())
			err = cmp.Or(err, why)
		}
	}
	s.Reached(done, r.Clock.Now())
	s.Fail(failureUpdate, err)
	return true, nil
}

// write makes one change. A pod that has changed since it was seen is looked at again: its event comes.
func (r *Reconciler) write(ctx context.Context, s *scope, w rollout.Write) error {
	pod := w.Pod.DeepCopy()
	if w.Patch != nil {
		if err := r.Writer.PatchPod(ctx, s.set.UID, pod, w.Patch); err != nil {
			if apierrors.IsConflict(errors.Unwrap(err)) || apierrors.IsConflict(err) {
				s.Sooner(podDelay)
				return nil
			}
			return err
		}
	}
	if w.Condition == nil {
		return nil
	}
	return r.Writer.PatchPodStatus(ctx, s.set.UID, pod, w.Condition)
}

// some names pods, at most a few.
func some(names []string) string {
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
