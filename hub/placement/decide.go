package placement

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// step is what a reconcile does: at most one of spec and remove; verdict nil where the workload is not the hub's.
type step struct {
	spec    *topology.WorkloadPlacementSpec
	remove  bool
	verdict *Verdict
	// requests of one pod, where something was decided.
	requests corev1.ResourceList
	// again is when the decision can change by time alone, 0 for never.
	again time.Duration
	// asks are what checks of a wave want asked.
	asks []waves.Ask
}

// decide is the plan of a reconcile: whether this workload is the hub's, under which policy, and what goes where.
func decide(s *state, rules kinds.Table) step {
	placed := s.placement != nil && s.placement.DeletionTimestamp == nil
	switch {
	case s.object == nil:
		return step{remove: placed}
	case s.object.GetDeletionTimestamp() != nil:
		return decideDeleted(s, rules[s.key.GroupKind()], placed)
	case s.terminating && (s.federated || s.placement != nil):
		if s.placement == nil && rules[s.key.GroupKind()].Mode == kinds.Copy {
			return step{}
		}
		return stepTerminating(s)
	case !s.federated && s.placement == nil:
		return step{}
	case s.placement != nil && s.placement.Spec.Workload.UID != s.object.GetUID():
		return step{remove: placed, verdict: s.refused(&kinds.Rejection{Reason: Removing, Message: fmt.Sprintf(
			"an earlier %s is still being removed; this one is placed after that", s.key.Sentence())}, false)}
	case wire.Withdrawn(s.object):
		return step{remove: placed, verdict: s.refused(&kinds.Rejection{Reason: Withdrawn, Message: withdrawn(s)}, false)}
	case s.placement != nil && !placed:
		return step{verdict: s.refused(&kinds.Rejection{Reason: Removing, Message: fmt.Sprintf(
			"what was placed of %s is being removed; it is placed again after that", s.key.Sentence())}, false)}
	case !s.federated:
		return step{verdict: s.refused(&kinds.Rejection{Reason: NamespaceNotFederated, Message: fmt.Sprintf(
			"namespace %s lost the label %s=true; %s is frozen as it is placed; set the label again, or delete the workload",
			s.key.Namespace, topology.LabelFederated, s.key.Sentence())}, true)}
	}
	return decideFederated(s, rules)
}

// withdrawn says what the annotation of the user did.
func withdrawn(s *state) string {
	if s.object.GetAnnotations()[topology.AnnotationWithdraw] == topology.WithdrawOrphan {
		return fmt.Sprintf("%s is let go by its annotation %s=%s: what runs in members runs on, without orders; to place it again, remove the annotation, and have adopted what runs",
			s.key.Sentence(), topology.AnnotationWithdraw, topology.WithdrawOrphan)
	}
	return fmt.Sprintf("%s is withdrawn from all members by its annotation %s; remove the annotation to place it again", s.key.Sentence(), topology.AnnotationWithdraw)
}

func decideFederated(s *state, rules kinds.Table) step {
	rule := rules[s.key.GroupKind()]
	workload, refusal := rule.Read(s.object)
	var recorded *topology.PolicyReference
	if s.placement != nil {
		recorded = s.placement.Spec.Policy
	}
	policy := SelectPolicy(&workload, s.policies, recorded)
	switch {
	case rule.Mode == kinds.Copy && s.placement == nil && (policy == nil || !kinds.LetsGo(&policy.Spec, s.key.Kind) ||
		kinds.ClusterMade(s.key.Kind, s.key.Namespace, s.key.Name, s.object.GetAnnotations()) || kinds.OfBuiltIn(s.object)):
		return step{} // an object of the hub alone, as most are
	case policy != nil && !kinds.LetsGo(&policy.Spec, s.key.Kind):
		refusal = &kinds.Rejection{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s %s no longer lets Secrets go to members; %s is frozen as it is placed; set spec.dependencies.secrets: Carry, or set the annotation %s=%s on the Secret to remove it from the members",
			policy.Ref.Kind, policy.Ref.Name, s.key.Sentence(), topology.AnnotationWithdraw, topology.WithdrawRemove)}
	case policy == nil && s.placement != nil:
		refusal = &kinds.Rejection{Reason: PolicyMissing, Message: fmt.Sprintf(
			"no policy selects %s any more (it was placed by %s); it is frozen as it is placed; let a policy select it, or set the annotation %s=%s to remove it from the members",
			s.key.Sentence(), policyName(recorded), topology.AnnotationWithdraw, topology.WithdrawRemove)}
	case policy == nil:
		refusal = &kinds.Rejection{Reason: NoPolicy, Message: fmt.Sprintf(
			"no FederationPolicy of namespace %s and no ClusterFederationPolicy selects %s; create one that does", s.key.Namespace, s.key.Sentence())}
	}
	if refusal == nil {
		refusal = s.against(policy)
	}
	if refusal != nil {
		return step{verdict: s.refused(refusal, true)}
	}
	facts := Facts{
		Kind: rule, Workload: workload, Policy: policy.Ref, Spread: policy.Spec.Spread,
		Members: membersFor(s.members, &policy.Spec.Clusters), Reports: s.reports, MaxReported: s.reported, Written: s.written,
		Dependencies: policy.Spec.Dependencies, Absent: s.absent, Local: s.local,
		Adopt: adopts(s.object), Found: s.found, Failover: policy.Spec.Failover,
		Rollout: policy.Spec.Rollout, Word: s.object.GetAnnotations()[topology.AnnotationWave], Object: s.object, Now: s.now, Heard: s.heard, News: s.news,
		Reschedule: policy.Spec.Reschedule, RolledBack: s.rolledBack, Answers: s.answers, Runs: s.runs,
	}
	for i := range facts.Members {
		facts.Members[i].Promised = s.promised[facts.Members[i].Name]
	}
	again := judge(s, facts.Members, &policy.Spec.Failover)
	if s.placement != nil {
		facts.Last = &s.placement.Spec
	}
	if facts.Overrides, refusal = overridesOf(policy, workload.Key, s.members); refusal != nil {
		return step{verdict: s.refused(refusal, true)}
	}
	if rule.Divider != nil {
		division, remarks, refusal := rule.Divider.Read(&facts.Workload, s.object, s.dividers)
		if refusal != nil {
			return step{verdict: s.refused(refusal, true)}
		}
		facts.Division, facts.Workload.Remarks = division, append(facts.Workload.Remarks, remarks...)
	}
	decision, refusal := Plan(facts)
	if refusal != nil {
		return step{verdict: s.refused(refusal, true), again: again}
	}
	return step{spec: &decision.Spec, verdict: s.decided(&decision), requests: workload.Requests, again: sooner(again, decision.Again), asks: decision.Asks}
}

// against is what stands against a policy that selects the workload, nil where nothing does.
func (s *state) against(policy *Policy) *kinds.Rejection {
	if value := s.object.GetAnnotations()[topology.AnnotationWithdraw]; value != "" && value != "false" { // nor one that withdraws it
		return &kinds.Rejection{Reason: InvalidWithdraw, Message: fmt.Sprintf(
			"the annotation %s of %s has the value %q, which says neither; write %s to remove it from all members, %s to let what runs there run on without orders, or remove the annotation; until then nothing of it changes in members",
			topology.AnnotationWithdraw, s.key.Sentence(), value, topology.WithdrawRemove, topology.WithdrawOrphan)}
	}
	if s.rival != "" {
		return &kinds.Rejection{Reason: Conflict, Message: fmt.Sprintf(
			"%s of Karmada selects %s, which %s holds: both would write it into members; %s is frozen as it is placed; take it out of that policy's resourceSelectors, or out of the policy of Flotilla",
			s.rival, s.key.Sentence(), policyName(&policy.Ref), s.key.Sentence())}
	}
	if wrong := unreadable(&policy.Spec); wrong != "" {
		return &kinds.Rejection{Reason: kinds.InvalidSelector, Message: fmt.Sprintf("%s of %s; %s stays as it is placed; correct the selector", wrong, policyName(&policy.Ref), s.key.Sentence())}
	}
	return nil
}

// sooner returns the shorter of two times to wait, where 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// refused is the verdict where nothing is decided.
func (s *state) refused(r *kinds.Rejection, stalled bool) *Verdict {
	return &Verdict{Generation: s.object.GetGeneration(), Federated: metav1.ConditionFalse, Reason: r.Reason, Message: sentences([]string{r.Message}), Stalled: stalled}
}

// decided is the verdict of a decision, with its notes.
func (s *state) decided(d *Decision) *Verdict {
	v := &Verdict{Generation: s.object.GetGeneration(), Federated: metav1.ConditionTrue, Reason: Placed, Decided: true, Wave: d.Wave}
	if slices.ContainsFunc(d.Spec.Unplaced, func(u topology.Unplaced) bool { return u.Reason.Code != UnplacedMoving }) {
		v.Federated = metav1.ConditionFalse
	}
	var messages []string
	if len(d.Notes) == 0 || d.Notes[0].Reason == Placed {
		clusters := map[string]bool{}
		for i := range d.Spec.Cells {
			clusters[d.Spec.Cells[i].Cluster] = true
		}
		noun := "clusters"
		if len(clusters) == 1 {
			noun = "cluster"
		}
		messages = append(messages, fmt.Sprintf("placed on %d %s by %s", len(clusters), noun, policyName(d.Spec.Policy)))
	} else {
		v.Reason = d.Notes[0].Reason
	}
	for _, n := range d.Notes {
		messages = append(messages, n.Message)
		v.Stalled = v.Stalled || n.Stalled
	}
	v.Message = sentences(messages)
	return v
}

func policyName(p *topology.PolicyReference) string {
	if p == nil {
		return "no policy"
	}
	return p.Kind + " " + p.Name
}

// ownerOf makes the garbage collector delete an object after the workload, without holding the workload up.
func ownerOf(spec *topology.WorkloadPlacementSpec) metav1.OwnerReference {
	w := spec.Workload
	return metav1.OwnerReference{
		APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: w.UID, Controller: new(true), BlockOwnerDeletion: new(false),
	}
}

// blockingOwnerOf is ownerOf for a placement: a workload that is deleted in the foreground waits for it. Copied objects do
// not wait: who writes their owner references would need a right on the finalizers of every kind.
func blockingOwnerOf(spec *topology.WorkloadPlacementSpec, rule kinds.Kind) metav1.OwnerReference {
	owner := ownerOf(spec)
	owner.BlockOwnerDeletion = new(rule.Mode != kinds.Copy)
	return owner
}
