package statefulset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	r.Record(s.pass, s.done, s.plan.Actions)
	have, want := s.set.Status, r.status(s)
	return true, r.Report(ctx, s.pass, workload.Status{
		Have: &have, Want: &want,
		CountersOnly: have.ObservedGeneration == want.ObservedGeneration &&
			have.ObservedSequence == want.ObservedSequence && have.UpdateRevision == want.UpdateRevision &&
			have.CurrentRevision == want.CurrentRevision && conditions.SameStatus(have.Conditions, want.Conditions),
		Worked: s.done.Any() && len(s.Failed()) == 0 && s.Stalled == nil,
	})
}

// status returns the status that this pass observed.
func (r *Reconciler) status(s *scope) v1beta1.StatefulSetStatus {
	c, all := s.plan.Counters, s.facts.Limits.Replicas
	out := *s.set.Status.DeepCopy()
	if !s.Halted { // else the template has not been looked at
		out.ObservedGeneration, out.ObservedSequence = s.set.Generation, workload.Sequence(s.set)
	}
	out.Replicas, out.ReadyReplicas, out.AvailableReplicas = c.Replicas, c.Ready, c.Available
	out.CurrentReplicas, out.UpdatedReplicas = s.plan.Current, c.Updated
	out.UpdatedReadyReplicas, out.UpdatedAvailableReplicas = c.UpdatedReady, c.UpdatedAvailable
	out.UpdateRevision, out.CurrentRevision = s.facts.Update.Name, s.facts.Current.Name
	if !s.facts.onDelete() && c.Updated == all && c.Replicas == all && c.UpdatedReady == all {
		out.CurrentRevision, out.CurrentReplicas = out.UpdateRevision, c.Updated
	}
	out.CollisionCount = s.facts.Collisions
	if selector, err := metav1.LabelSelectorAsSelector(s.set.Spec.Selector); err == nil {
		out.LabelSelector = selector.String()
	}
	out.UpdateProgress = s.plan.Progress
	out.VolumeClaims = s.claims()
	out.Conditions = s.conditions(out)
	return out
}

// claims counts the claims of active pods in range that follow their templates.
func (s *scope) claims() []v1beta1.VolumeClaimStatus {
	var out []v1beta1.VolumeClaimStatus
	set := claimSet(s.set)
	for i := range set.Templates {
		template := &set.Templates[i]
		row := v1beta1.VolumeClaimStatus{VolumeClaimName: template.Name}
		for _, pod := range s.facts.Pods.Active {
			claim := s.facts.Claim(volumes.Name(template.Name, s.set.Name, set.ID(pod)))
			switch {
			case claim == nil || !s.facts.inRange(pod):
			case !volumes.Compatible(template, claim):
				s.outdated++
			case volumes.Provisioned(claim):
				row.CompatibleReadyReplicas++
				fallthrough
			default:
				row.CompatibleReplicas++
			}
		}
		out = append(out, row)
	}
	return out
}

// claimCondition says that claims are not what their templates ask for.
func (s *scope) claimCondition() conditions.Condition {
	if s.outdated == 0 {
		return conditions.Remove(conditionClaimsOutdated)
	}
	remedy := "set volumeClaimUpdateStrategy.type OnPodRollingUpdate to resize them, or delete a claim with its pod"
	if s.facts.resizes() {
		remedy = "more storage comes with the update of the pod; for the rest delete a claim with its pod"
	}
	return conditions.Condition{Type: conditionClaimsOutdated, Status: corev1.ConditionTrue,
		Reason: reasonTemplatesChanged,
		Message: fmt.Sprintf("%d claims have less storage, another storage class or other access modes than their "+
			"templates: %s", s.outdated, remedy)}
}

// conditionClaimsOutdated is there while claims of running pods differ from volumeClaimTemplates.
const (
	conditionClaimsOutdated = "VolumeClaimsOutdated"
	reasonTemplatesChanged  = "ClaimTemplatesChanged"
)

// conditions returns the conditions that go with the counters of status.
func (s *scope) conditions(status v1beta1.StatefulSetStatus) []v1beta1.StatefulSetCondition {
	facts := conditions.Facts{
		Desired: s.facts.Limits.Replicas, ExpectedUpdated: s.plan.ExpectedUpdated,
		Replicas: status.Replicas, Updated: status.UpdatedReplicas,
		Available: status.AvailableReplicas, UpdatedAvailable: status.UpdatedAvailableReplicas,
		Paused:    s.facts.Budget.Paused(s.facts.rolling().Paused),
		OnDelete:  s.facts.onDelete(),
		HubSilent: s.facts.Budget.Expired,
		Stalled:   s.Stalled,
		Waiting:   s.plan.Waiting.Message(),
		Revision:  status.UpdateRevision,
	}
	if s.plan.Held {
		facts.Held = &conditions.Cause{Reason: reasonOrdinalsUnconfirmed, Message: fmt.Sprintf(
			"%d pods exist, %d are wanted; no pod is created before the agent is in contact with the hub, which may have "+
				"given their ordinals to another member: check the network path from the agent to the hub",
			status.Replicas, facts.Desired)}
	}
	want, failed := s.Failures(string(v1beta1.StatefulSetConditionFailedCreatePod),
		string(v1beta1.StatefulSetConditionFailedUpdatePod))
	facts.Failed = failed
	for i := range want {
		isKept := func(c v1beta1.StatefulSetCondition) bool { return string(c.Type) == want[i].Type }
		if want[i].Status == "" && slices.ContainsFunc(s.set.Status.Conditions, isKept) {
			// It stays, so that a reader sees that there was a failure, and that it is over.
			want[i].Status, want[i].Reason = corev1.ConditionFalse, reasonSucceeded
		}
	}
	summary := conditions.Summarise(facts, conditions.NamesOf("StatefulSet"))
	if s.plan.StepWaits != "" && s.Stalled == nil {
		conditions.Tell(summary, s.plan.StepWaits)
	}
	if s.Leaving != nil {
		summary = conditions.Deleted(summary, s.Left(status.Replicas))
	}
	return conditions.Merge(s.set.Status.Conditions, s.facts.Now, append(append(want, s.claimCondition()), summary...)...)
}

const (
	// reasonSucceeded says that a failure is over.
	reasonSucceeded = "Succeeded"
	// reasonOrdinalsUnconfirmed says that pods are not created because another member may run their ordinals.
	reasonOrdinalsUnconfirmed = "OrdinalsUnconfirmed"
)

// Reporting is what reports to a hub ask about StatefulSets. An order is observed by its sequence, because a budget
// alone does not change the generation.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			set, err := workload.Decode(live, &v1beta1.StatefulSet{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.StatefulSetUse(ptr.Deref(set.Spec.Replicas, 1), &set.Status)}, nil
		},
		Observed: func(live *unstructured.Unstructured) bool {
			return workload.Observed(live) && workload.ObservedSequence(live)
		},
		New:      func() client.Object { return &v1beta1.StatefulSet{} },
		Maker:    makerOf,
		Ordinals: ordinalsIn,
		Restarts: true,
	}
}

// ordinalsIn returns what tells the ordinals that a StatefulSet is to have from others.
func ordinalsIn(live *unstructured.Unstructured) (func(ordinal int32) bool, error) {
	set, err := workload.Decode(live, &v1beta1.StatefulSet{})
	if err != nil {
		return nil, err
	}
	// The condition Stalled says which reservation cannot be read; the others hold.
	own, _ := ordinals.NewSet(ptr.Deref(set.Spec.Ordinals, v1beta1.StatefulSetOrdinals{}).Start,
		ptr.Deref(set.Spec.Replicas, 1), set.Spec.ReserveOrdinals)
	return own.Has, nil
}

// makerOf says how the StatefulSet makes pods: one that finds no node keeps OrderedReady from creating the next.
func makerOf(object client.Object) workload.Maker {
	set, ok := object.(*v1beta1.StatefulSet)
	if !ok {
		return workload.Maker{}
	}
	maker := workload.Maker{Update: set.Status.UpdateRevision}
	if oneByOne(set) {
		maker.AtOnce = 1
	} else if limits, err := budget.Resolve(strategy(set), ptr.Deref(set.Spec.Replicas, 1)); err == nil &&
		limits.ScaleMaxUnavailable != budget.Unlimited {
		maker.AtOnce = limits.ScaleMaxUnavailable
	}
	return maker
}
