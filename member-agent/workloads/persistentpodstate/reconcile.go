package persistentpodstate

import (
	"context"
	"fmt"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// askEvery is how often a workload of the white list is read: no event tells of its replicas.
const askEvery = time.Minute

// Reconciler keeps the records of PersistentPodStates.
type Reconciler struct {
	*workload.Controller[*v1beta1.PersistentPodState, memory]
	// Namespace is the agent's own.
	Namespace string
}

// memory is what a PersistentPodState remembers between passes. An agent that starts has waited for no node yet.
type memory struct {
	// absent is since when no node has had the labels that a pod needs, by the name of the pod.
	absent map[string]time.Time
}

type pass = workload.Pass[*v1beta1.PersistentPodState, memory]

// scope is one pass over one PersistentPodState.
type scope struct {
	*pass
	state    *v1beta1.PersistentPodState
	facts    Facts
	plan     Plan
	released int
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, state: p.Object}, r.gather, r.decide, r.apply, r.report)
}

// gather reads the workload, its pods and the nodes.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	ref := s.state.Spec.TargetReference
	rules, err := r.ruling(ctx, s.state)
	if err != nil {
		return false, err
	}
	if rules != s.state.Name {
		s.Stalled = &conditions.Cause{Reason: reasonWorkloadTaken, Message: fmt.Sprintf(
			"%s %s has the older PersistentPodState %s, and can have one: delete one of the two", ref.Kind, ref.Name, rules)}
		return true, nil
	}
	t, ok, err := r.readTarget(ctx, s.state)
	switch {
	case err != nil:
		return false, err
	case !ok:
		s.Stalled = &conditions.Cause{Reason: reasonUnsupportedWorkload, Message: fmt.Sprintf(
			"targetRef is a %s of %s: only pods of StatefulSets, and of the kinds that %s of ConfigMap %s lists, are recorded",
			ref.Kind, ref.APIVersion, whiteList, configuration)}
		s.Sooner(askEvery)
		return true, nil
	}
	s.facts = Facts{State: s.state, Gone: t == nil, Nodes: map[string]map[string]string{}, Now: r.Clock.Now(),
		Absent: s.Memory.absent}
	if !watched(kindOf(ref)) {
		s.Sooner(askEvery)
	}
	if t == nil {
		return true, nil
	}
	s.facts.Ordinals = t.Set
	pods, err := r.Pods.Observe(t.uid, nil)
	if err != nil {
		return false, err
	}
	s.facts.Pods = pods.Active
	for _, node := range r.Nodes() {
		s.facts.Nodes[node.Name] = node.Labels
	}
	return true, nil
}

// decide makes the plan. One that is being deleted, or cannot be used, has none.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if s.Leaving == nil && s.Stalled == nil {
		s.plan = Compute(s.facts)
		s.Memory.absent = s.plan.Absent
		s.Sooner(s.plan.Wait)
	}
	return true, nil
}
