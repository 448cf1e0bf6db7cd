package cloneset

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// Reconciler brings CloneSets to what their specs ask for.
type Reconciler struct {
	client    client.Client
	live      client.Reader
	events    events.EventRecorder
	clock     clock.PassiveClock
	federated func(context.Context, string) (bool, error)
	source    *podset.Source
	claims    *volumes.Source
	history   history.Store
	writer    *write.Writer
	pods      *freshness.Store // writes to pods
	self      *freshness.Store // writes to CloneSets
	revisions *freshness.Store // writes to ControllerRevisions
	pace      *pace
	// ruling returns the WorkloadSpread that rules the CloneSet of this name, or nil.
	ruling     func(context.Context, types.NamespacedName) *v1beta1.WorkloadSpread
	allowance  func(context.Context, *v1beta1.CloneSet) (lent, over bool)
	foreign    func(*v1beta1.CloneSet) bool
	namespaces *namespaces.Terminating
	// noResize tells whether the API server lacks pods/resize; nil means that it has it.
	noResize func(context.Context) (bool, error)
	// shortHash makes labels of new pods name their revision by its hash alone.
	shortHash bool
}

// scope is one pass over one CloneSet.
type scope struct {
	key   types.NamespacedName
	cs    *v1beta1.CloneSet
	facts Facts
	plan  Plan

	collisions *int32
	done       outcome
	// stalled says why only a person can go on.
	stalled *conditions.Cause
	// leaving says that the CloneSet or its namespace is being deleted: the pass only reports.
	leaving *conditions.Cause
	// halted says that an error keeps this pass from a plan.
	halted bool
	// failed are errors of this pass by the condition that tells them.
	failed map[v1beta1.CloneSetConditionType]error
	// wake is when to look again; 0 means never.
	wake time.Duration
}

// A phase returns next=false when the pass ends here without a report.
type phase func(context.Context, *scope) (next bool, err error)

// Reconcile makes one pass: gather, plan, apply, report.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &scope{key: req.NamespacedName, failed: map[v1beta1.CloneSetConditionType]error{}}
	for _, run := range []phase{r.get, r.fresh, r.gather, r.decide, r.apply, r.turnedAway, r.trim, r.report, r.prune} {
		next, err := run(ctx, s)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("reconcile CloneSet %s: %w", s.key, err)
		}
		if !next {
			break
		}
	}
	for _, err := range s.failed {
		if s.stalled == nil {
			return ctrl.Result{}, fmt.Errorf("reconcile CloneSet %s: %w", s.key, err)
		}
	}
	return ctrl.Result{RequeueAfter: s.wake}, nil
}

// get reads the CloneSet; a pass over one that is gone or not ours ends here.
func (r *Reconciler) get(ctx context.Context, s *scope) (bool, error) {
	if r.federated != nil {
		if federated, err := r.federated(ctx, s.key.Namespace); err != nil || federated {
			return false, err
		}
	}
	cs := &v1beta1.CloneSet{}
	if err := r.client.Get(ctx, s.key, cs); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(s.key)
			return false, nil
		}
		return false, fmt.Errorf("read it: %w", err)
	}
	if cs.DeletionTimestamp == nil && r.foreign != nil && r.foreign(cs) {
		return false, nil
	}
	r.pace.remember(s.key, cs.UID)
	s.cs = cs
	return true, r.leave(ctx, s)
}

func (r *Reconciler) forget(key types.NamespacedName) {
	if uid, ok := r.pace.forget(key); ok {
		r.pods.Forget(uid)
		r.self.Forget(uid)
		r.revisions.Forget(uid)
		r.writer.Claims.Forget(uid)
		r.namespaces.Forget(uid)
	}
}

// decide makes the plan.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if s.stalled != nil && !s.empties() || s.halted || s.leaving != nil {
		s.plan = observe(s.facts)
		return true, nil
	}
	plan, err := Compute(s.facts)
	if err != nil {
		return false, fmt.Errorf("plan: %w", err)
	}
	if s.stalled == nil {
		s.stalled = plan.Stalled
	}
	s.plan, s.wake = plan, counts.Sooner(s.wake, counts.Sooner(plan.Wake, s.untilAsked()))
	return true, nil
}

// empties reports whether a template that cannot be decoded is not needed: the pods of earlier ones are only removed.
func (s *scope) empties() bool {
	return s.stalled.Reason == reasonInvalidTemplate && s.cs.Spec.Template.Undecoded != nil && s.facts.Limits.Replicas == 0 &&
		s.facts.Update.Template != nil
}
