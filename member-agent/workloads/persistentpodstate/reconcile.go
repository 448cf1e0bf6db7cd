package persistentpodstate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// memory is what a PersistentPodState remembers between passes: nothing.
type memory struct{}

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
	s.facts = Facts{State: s.state, Gone: t == nil, Nodes: map[string]map[string]string{}}
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

// ruling returns the name of the PersistentPodState that is for the workload: the oldest.
func (r *Reconciler) ruling(ctx context.Context, state *v1beta1.PersistentPodState) (string, error) {
	var list v1beta1.PersistentPodStateList
	err := r.Client.List(ctx, &list, client.InNamespace(state.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("list PersistentPodStates: %w", err)
	}
	ref := state.Spec.TargetReference
	if first := Ruling(list.Items, func(other v1beta1.PersistentPodStateTarget) bool {
		return kindOf(other) == kindOf(ref) && other.Name == ref.Name
	}); first != nil {
		return first.Name, nil
	}
	return state.Name, nil
}

// Ruling returns the PersistentPodState that holds for a workload: the oldest whose target is the workload and that is
// not being deleted; nil if there is none.
func Ruling(
	states []v1beta1.PersistentPodState, is func(v1beta1.PersistentPodStateTarget) bool,
) *v1beta1.PersistentPodState {
	var first *v1beta1.PersistentPodState
	for i := range states {
		state := &states[i]
		if state.DeletionTimestamp != nil || !is(state.Spec.TargetReference) {
			continue
		}
		if first == nil || state.CreationTimestamp.Before(&first.CreationTimestamp) ||
			state.CreationTimestamp.Equal(&first.CreationTimestamp) && state.Name < first.Name {
			first = state
		}
	}
	return first
}

// decide makes the plan. One that is being deleted, or cannot be used, has none.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if s.Leaving == nil && s.Stalled == nil {
		s.plan = Compute(s.facts)
	}
	return true, nil
}

// apply deletes pods that were created with labels which no node has, so that their workload creates them without.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	for _, pod := range s.plan.Release {
		if err := r.release(ctx, s, pod); err != nil {
			s.Fail(reasonReleaseFailed, err)
		}
	}
	return true, nil
}

// release deletes the pod if its node selector has a required label, and no node has all of its labels. The cache does
// not have node selectors.
func (r *Reconciler) release(ctx context.Context, s *scope, cached *corev1.Pod) error {
	key := client.ObjectKeyFromObject(cached)
	pod := &corev1.Pod{}
	if err := r.Live.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read pod %s: %w", key.Name, err)
	}
	needs := map[string]string{}
	for _, label := range requiredOf(&s.state.Spec) {
		if value, ok := pod.Spec.NodeSelector[label]; ok {
			needs[label] = value
		}
	}
	if pod.UID != cached.UID || pod.Spec.NodeName != "" || len(needs) == 0 || s.facts.anyNode(labels.Set(needs)) {
		return nil
	}
	err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete pod %s, which needs labels that no node has: %w", key.Name, err)
	}
	s.released++
	return nil
}
