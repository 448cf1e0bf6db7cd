package placement

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// Step is what a reconcile does: at most one of spec and remove; verdict nil where the workload is not the hub's.
type Step struct {
	Spec    *topology.WorkloadPlacementSpec
	Remove  bool
	Outcome *Outcome
	// requests of one pod, where something was decided.
	requests corev1.ResourceList
	// again is when the decision can change by time alone, 0 for never.
	again time.Duration
	// asks are what checks of a wave want asked.
	asks []waves.Ask
}

// Decide is the plan of a reconcile: whether this workload is the hub's, under which policy, and what goes where.
func Decide(s *State, rules kinds.Table) Step {
	placed := s.Placement != nil && s.Placement.DeletionTimestamp == nil
	switch {
	case s.Object == nil:
		return Step{Remove: placed}
	case s.Object.GetDeletionTimestamp() != nil:
		return decideDeleted(s, rules[s.key.GroupKind()], placed)
	case s.terminating && (s.federated || s.Placement != nil):
		if s.Placement == nil && rules[s.key.GroupKind()].Mode == kinds.Copy {
			return Step{}
		}
		return stepTerminating(s)
	case !s.federated && s.Placement == nil:
		return stepLocal(s, rules[s.key.GroupKind()])
	case s.Placement != nil && s.Placement.Spec.Workload.UID != s.Object.GetUID():
		return Step{Remove: placed, Outcome: s.refused(&kinds.Rejection{Reason: decision.Removing, Message: fmt.Sprintf(
			"an earlier %s is still being removed; this one is placed after that", s.key.Sentence())}, false)}
	case wire.Withdrawn(s.Object):
		return Step{
			Remove:  placed,
			Outcome: s.refused(&kinds.Rejection{Reason: decision.Withdrawn, Message: withdrawn(s)}, false),
		}
	case s.Placement != nil && !placed:
		return Step{Outcome: s.refused(&kinds.Rejection{Reason: decision.Removing, Message: fmt.Sprintf(
			"what was placed of %s is being removed; it is placed again after that", s.key.Sentence())}, false)}
	case !s.federated && s.key.ClusterScoped():
		return Step{Outcome: s.refused(&kinds.Rejection{Reason: decision.NotLabelled, Message: fmt.Sprintf(
			"%s lost the label %s=true; it is frozen as it is placed; set the label again, or delete the object",
			s.key.Sentence(), topology.LabelFederated)}, true)}
	case !s.federated:
		return Step{Outcome: s.refused(&kinds.Rejection{Reason: decision.NamespaceNotFederated, Message: fmt.Sprintf(
			"namespace %s lost the label %s=true; %s is frozen as it is placed; set the label again, or delete the workload",
			s.key.Namespace, topology.LabelFederated, s.key.Sentence())}, true)}
	}
	return decideFederated(s, rules)
}

// localPatience is how long an object that is not the hub's waits for a controller of the hub's own cluster.
const localPatience = 10 * time.Second

// stepLocal is the plan for a workload that is not the hub's. A cluster-scoped object without the label belongs to the
// controllers of the hub's own cluster. If no status shows that there are any, the user is told what to do.
func stepLocal(s *State, kind kinds.Kind) Step {
	if !s.key.ClusterScoped() || kind.Observe == nil || kind.Observe(s.Object).Generation > 0 {
		return Step{}
	}
	if wait := s.Object.GetCreationTimestamp().Add(localPatience).Sub(s.now); wait > 0 {
		return Step{again: wait}
	}
	return Step{Outcome: s.refused(&kinds.Rejection{Reason: decision.NotLabelled, Message: fmt.Sprintf(
		"%s has no label %s=true, so it is not placed on members, and no controller of the hub's own cluster runs it; set "+
			"the label",
		s.key.Sentence(),
		topology.LabelFederated,
	)}, true)}
}

// withdrawn says what the annotation of the user did.
func withdrawn(s *State) string {
	if s.Object.GetAnnotations()[topology.AnnotationWithdraw] == topology.WithdrawOrphan {
		return fmt.Sprintf(
			"%s is orphaned by annotation %s=%s: its pods keep running without orders. To place it again, "+
				"remove the annotation and set %s=true.",
			s.key.Sentence(),
			topology.AnnotationWithdraw,
			topology.WithdrawOrphan,
			topology.AnnotationAdopt,
		)
	}
	return fmt.Sprintf(
		"%s is withdrawn from all members by its annotation %s; remove the annotation to place it again",
		s.key.Sentence(),
		topology.AnnotationWithdraw,
	)
}

func decideFederated(s *State, rules kinds.Table) Step {
	rule := rules[s.key.GroupKind()]
	workload, rejection := rule.Read(s.Object)
	var recorded *topology.PolicyReference
	if s.Placement != nil {
		recorded = s.Placement.Spec.Policy
	}
	chosen := policy.Select(&workload, s.Policies, recorded)
	if rule.Mode == kinds.Copy && s.Placement == nil && s.staysOnHub(chosen) {
		return Step{}
	}
	if missing := s.unselected(chosen, recorded); missing != nil {
		rejection = missing
	}
	if rejection == nil {
		rejection = s.against(chosen)
	}
	if rejection != nil {
		return Step{Outcome: s.refused(rejection, true)}
	}
	remark := decision.PlaceOne(rule, &workload, chosen.Ref, chosen.Spec.Placement)
	failover, differs := decision.FailoverOf(&workload, chosen.Spec.Failover)
	for _, text := range []string{remark, differs} {
		if text != "" {
			workload.Remarks = append(workload.Remarks, text)
		}
	}
	facts := decision.Facts{
		Kind: rule, Workload: workload, Policy: chosen.Ref, Spread: chosen.Spec.Spread,
		Members: decision.MembersFor(s.Members, &chosen.Spec.Clusters), Reports: s.reports, MaxReported: s.reported,
		UnknownMembers: decision.UnknownMembers(&chosen.Spec.Clusters, s.Members),
		Written:        s.written,
		Dependencies:   chosen.Spec.Dependencies, Absent: s.absent, Local: s.local,
		Adopt: adopts(s.Object), Found: s.found, Failover: failover,
		Rollout: rolloutOf(&chosen.Spec.Rollout, &workload), Word: s.Object.GetAnnotations()[topology.AnnotationWave],
		Object: s.Object, Now: s.now, Heard: s.heard, News: s.news,
		Reschedule: chosen.Spec.Reschedule, RolledBack: s.rolledBack, Answers: s.answers, Runs: s.runs,
	}
	for i := range facts.Members {
		facts.Members[i].Reserved = s.reserved[facts.Members[i].Name]
	}
	again := JudgeMembers(s, facts.Members, &failover)
	facts.StatusValues = s.statusValues(facts.Members, failover.HandOver)
	facts.Ticks = s.ticks(rule)
	if s.Placement != nil {
		facts.Last = &s.Placement.Spec
	}
	if facts.Overrides, rejection = decision.OverridesOf(chosen.Ref, chosen.Spec.Overrides, workload.Key,
		s.Members); rejection != nil {
		return Step{Outcome: s.refused(rejection, true)}
	}
	if rejection = s.readDivider(&facts); rejection != nil {
		return Step{Outcome: s.refused(rejection, true)}
	}
	result, rejection := decision.Plan(facts)
	if rejection != nil {
		return Step{Outcome: s.refused(rejection, true), again: again}
	}
	return Step{
		Spec:     &result.Spec,
		Outcome:  s.decided(&result),
		requests: workload.Requests,
		again:    decision.Sooner(again, result.Again),
		asks:     result.Asks,
	}
}

// ticks returns what is known of the schedule in each member, and by the user's object; nil for a kind without one.
func (s *State) ticks(rule kinds.Kind) map[string]kinds.Ticks {
	if rule.Ticks == nil {
		return nil
	}
	out := map[string]kinds.Ticks{"": rule.Ticks(s.Object, nil)}
	for member, status := range s.statuses {
		if status != nil {
			out[member] = rule.Ticks(s.Object, status.Raw)
		}
	}
	return out
}

// staysOnHub reports whether an object to copy is one of the hub alone, as most are.
func (s *State) staysOnHub(chosen *policy.Policy) bool {
	key := s.key
	return chosen == nil || !kinds.LetsGo(&chosen.Spec, key.Kind) ||
		kinds.ClusterMade(key.Kind, key.Namespace, key.Name, s.Object.GetAnnotations()) || kinds.OfBuiltIn(s.Object)
}

// unselected returns why the object is not placed by any policy, nil if the chosen one places it. recorded is the
// policy of its placement, nil for none.
func (s *State) unselected(chosen *policy.Policy, recorded *topology.PolicyReference) *kinds.Rejection {
	switch {
	case chosen != nil && !kinds.LetsGo(&chosen.Spec, s.key.Kind):
		return &kinds.Rejection{Reason: topology.PolicySecretsNotCarried, Message: fmt.Sprintf(
			"%s %s no longer lets Secrets go to members; %s is frozen as it is placed; "+
				"set spec.dependencies.secrets: Carry, or set the annotation %s=%s on the Secret to remove it from the members",
			chosen.Ref.Kind, chosen.Ref.Name, s.key.Sentence(), topology.AnnotationWithdraw, topology.WithdrawRemove,
		)}
	case chosen != nil:
		return nil
	case s.Placement != nil:
		return &kinds.Rejection{Reason: decision.PolicyMissing, Message: fmt.Sprintf(
			"no policy selects %s any more (it was placed by %s); it is frozen as it is placed; "+
				"let a policy select it, or set the annotation %s=%s to remove it from the members",
			s.key.Sentence(), decision.PolicyName(recorded), topology.AnnotationWithdraw, topology.WithdrawRemove,
		)}
	case s.key.ClusterScoped():
		return &kinds.Rejection{Reason: decision.NoPolicy, Message: fmt.Sprintf(
			"no ClusterFederationPolicy selects %s; create one that does", s.key.Sentence())}
	}
	return &kinds.Rejection{Reason: decision.NoPolicy, Message: fmt.Sprintf(
		"no FederationPolicy of namespace %s and no ClusterFederationPolicy selects %s; create one that does",
		s.key.Namespace, s.key.Sentence(),
	)}
}

// rolloutOf returns the rollout of the policy. If that has neither steps nor waves, those of the workload hold.
func rolloutOf(policy *topology.Rollout, w *kinds.Workload) topology.Rollout {
	out := *policy
	if out.Strategy != topology.RolloutWaves && len(out.Steps) == 0 {
		out.Steps = w.Steps
	}
	return out
}

// readDivider adds to facts what an object of another kind says about how the workload is divided.
func (s *State) readDivider(facts *decision.Facts) *kinds.Rejection {
	if facts.Kind.Divider == nil {
		return nil
	}
	division, remarks, rejection := facts.Kind.Divider.Read(&facts.Workload, s.Object, s.dividers)
	if rejection != nil {
		return rejection
	}
	facts.Division, facts.Workload.Remarks = division, append(facts.Workload.Remarks, remarks...)
	return nil
}

// against is what stands against a policy that selects the workload, nil where nothing does.
func (s *State) against(chosen *policy.Policy) *kinds.Rejection {
	if value := s.Object.GetAnnotations()[topology.AnnotationWithdraw]; value != "" &&
		value != "false" { // nor one that withdraws it
		return &kinds.Rejection{Reason: decision.InvalidWithdraw, Message: fmt.Sprintf(
			"annotation %s of %s has value %q; use %s to remove it from all members, %s to keep its pods there without "+
				"orders, or remove the annotation",
			topology.AnnotationWithdraw,
			s.key.Sentence(),
			value,
			topology.WithdrawRemove,
			topology.WithdrawOrphan,
		)}
	}
	if s.rival != "" {
		return &kinds.Rejection{Reason: decision.Conflict, Message: fmt.Sprintf(
			"%s of Karmada selects %s, which %s holds: both would write it into members; %s is frozen as it is placed; take "+
				"it out of that policy's resourceSelectors, or out of the policy of Flotilla",
			s.rival,
			s.key.Sentence(),
			decision.PolicyName(&chosen.Ref),
			s.key.Sentence(),
		)}
	}
	if wrong := policy.Unreadable(&chosen.Spec); wrong != "" {
		return &kinds.Rejection{
			Reason: kinds.InvalidSelector,
			Message: fmt.Sprintf(
				"%s of %s; %s stays as it is placed; correct the selector",
				wrong,
				decision.PolicyName(&chosen.Ref),
				s.key.Sentence(),
			),
		}
	}
	return nil
}

// refused is the verdict where nothing is decided.
func (s *State) refused(r *kinds.Rejection, stalled bool) *Outcome {
	return &Outcome{
		Generation: s.Object.GetGeneration(),
		Federated:  metav1.ConditionFalse,
		Reason:     r.Reason,
		Message:    sentences([]string{r.Message}),
		Stalled:    stalled,
	}
}

// decided is the verdict of a decision, with its notes.
func (s *State) decided(d *decision.Decision) *Outcome {
	v := &Outcome{
		Generation: s.Object.GetGeneration(),
		Federated:  metav1.ConditionTrue,
		Reason:     decision.Placed,
		Decided:    true,
		Wave:       d.Wave,
	}
	if slices.ContainsFunc(
		d.Spec.Unplaced,
		func(u topology.Unplaced) bool { return u.Reason.Code != decision.UnplacedMoving },
	) {
		v.Federated = metav1.ConditionFalse
	}
	var messages []string
	if len(d.Notes) == 0 || d.Notes[0].Reason == decision.Placed {
		clusters := map[string]bool{}
		for i := range d.Spec.Cells {
			clusters[d.Spec.Cells[i].Cluster] = true
		}
		noun := "clusters"
		if len(clusters) == 1 {
			noun = "cluster"
		}
		messages = append(
			messages,
			fmt.Sprintf("placed on %d %s by %s", len(clusters), noun, decision.PolicyName(d.Spec.Policy)),
		)
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

// ownerOf makes the garbage collector delete an object after the workload, without holding the workload up.
func ownerOf(spec *topology.WorkloadPlacementSpec) metav1.OwnerReference {
	w := spec.Workload
	return metav1.OwnerReference{
		APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: w.UID, Controller: new(true),
		BlockOwnerDeletion: new(false),
	}
}

// blockingOwnerOf is ownerOf for a placement: a workload that is deleted in the foreground waits for it. Copied
// objects do not wait: who writes their owner references would need a right on the finalizers of every kind.
func blockingOwnerOf(spec *topology.WorkloadPlacementSpec, rule kinds.Kind) metav1.OwnerReference {
	owner := ownerOf(spec)
	owner.BlockOwnerDeletion = new(rule.Mode != kinds.Copy)
	return owner
}
