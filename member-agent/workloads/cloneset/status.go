package cloneset

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// observe counts the pods, without a plan.
func observe(f Facts) Plan {
	var plan Plan
	for _, pod := range f.Pods.Active {
		f.observe(&plan, pod)
	}
	plan.ExpectedUpdated = f.Limits.Replicas - f.Limits.Partition
	return plan
}

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	r.Record(s.pass, s.done, s.plan.Actions)
	want := r.status(s)
	return true, r.Report(ctx, s.pass, workload.Status{
		Have: &s.cs.Status, Want: &want, CountersOnly: onlyCounters(s.cs.Status, want),
		Worked: s.done.Any() && len(s.Failed()) == 0 && s.Stalled == nil,
	})
}

// status returns the status that this pass observed.
func (r *Reconciler) status(s *scope) v1beta1.CloneSetStatus {
	c := s.plan.Counters
	out := *s.cs.Status.DeepCopy()
	if !s.Halted { // else the template has not been looked at
		out.ObservedGeneration = s.cs.Generation
	}
	out.Replicas, out.ReadyReplicas, out.AvailableReplicas = c.Replicas, c.Ready, c.Available
	out.UpdatedReplicas, out.UpdatedReadyReplicas, out.UpdatedAvailableReplicas = c.Updated, c.UpdatedReady,
		c.UpdatedAvailable
	out.ExpectedUpdatedReplicas = s.facts.Limits.Replicas - s.facts.Limits.Partition
	out.UpdateRevision = s.facts.Update.Name
	out.CurrentRevision = s.facts.Current.Name
	if all := s.facts.Limits.Replicas; c.Updated == all && c.Replicas == all && c.UpdatedReady == all {
		out.CurrentRevision = s.facts.Update.Name
	}
	out.CollisionCount = s.facts.Collisions
	if selector, err := metav1.LabelSelectorAsSelector(s.cs.Spec.Selector); err == nil {
		out.LabelSelector = selector.String()
	}
	out.ObservedSpread = topology.SpreadSeen(s.cs.Annotations)
	out.Conditions = s.conditions(out)
	return out
}

// conditions returns the conditions that go with the counters of status.
func (s *scope) conditions(status v1beta1.CloneSetStatus) []v1beta1.CloneSetCondition {
	now := s.facts.Now
	moved := status.Replicas != s.cs.Status.Replicas || status.UpdatedReplicas != s.cs.Status.UpdatedReplicas ||
		status.UpdatedAvailableReplicas != s.cs.Status.UpdatedAvailableReplicas ||
		status.AvailableReplicas != s.cs.Status.AvailableReplicas ||
		status.ObservedGeneration != s.cs.Status.ObservedGeneration || s.heardAgain()
	rolling := s.cs.Spec.UpdateStrategy.RollingUpdate
	facts := conditions.Facts{
		Desired: s.facts.Limits.Replicas, ExpectedUpdated: s.plan.ExpectedUpdated,
		Replicas: status.Replicas, Updated: status.UpdatedReplicas,
		Available: status.AvailableReplicas, UpdatedAvailable: status.UpdatedAvailableReplicas,
		Paused:    rolling != nil && rolling.Paused,
		OnDelete:  s.cs.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType,
		HubSilent: s.facts.Budget.Expired,
		Stalled:   s.Stalled,
		Waiting:   s.plan.Waiting.Message(),

		NoDeadline: !conditions.HasDeadline(s.cs.Spec.ProgressDeadlineSeconds),
		Revision:   status.UpdateRevision,
	}
	if status.CurrentRevision != status.UpdateRevision &&
		s.cs.Spec.UpdateStrategy.Type != v1beta1.OnDeleteCloneSetUpdateStrategyType {
		facts.GoingBack = max(0, status.UpdatedReplicas-status.ExpectedUpdatedReplicas)
	}
	var want []conditions.Condition
	want, facts.Failed = s.Failures(string(v1beta1.CloneSetConditionFailedScale),
		string(v1beta1.CloneSetConditionFailedUpdate))
	want = append(want, s.claimCondition())
	s.deadline(&facts, moved)
	facts.Stalled = cmp.Or(facts.Stalled, waitPastDeadline(facts, s.facts.Pods.Active))
	have := s.cs.Status.Conditions
	if moved {
		have = progressed(have, now)
	}
	summary := conditions.Summarise(facts, conditions.NamesOf("CloneSet"))
	if s.Leaving != nil {
		summary = conditions.Deleted(summary, s.Left(status.Replicas))
	}
	return conditions.Merge(have, now, append(want, summary...)...)
}

// claimCondition says where the claims of running pods are not what the templates ask for, or where one cannot be made.
func (s *scope) claimCondition() conditions.Condition {
	if len(s.facts.Claims) == 0 && len(s.cs.Spec.VolumeClaimTemplates) == 0 {
		return conditions.Remove(conditionClaimsOutdated)
	}
	set := claimSet(s.cs)
	change := set.Changed(s.facts.Pods.Active, s.facts.Claims)
	text := []string{change.Message(s.cs.Spec.ScaleStrategy.EnablePVCReuse)}
	if s.facts.Current.Template != nil {
		text = append(text, set.For(s.facts.Current.Template, s.facts.Current.Claims, s.facts.Claims).Message())
	}
	for _, conflict := range s.plan.Claims.Conflicts {
		text = append(text, conflict.Error())
	}
	message := strings.Join(slices.DeleteFunc(text, func(t string) bool { return t == "" }), "; ")
	if message == "" {
		return conditions.Remove(conditionClaimsOutdated)
	}
	return conditions.Condition{Type: conditionClaimsOutdated, Status: corev1.ConditionTrue,
		Reason: reasonTemplatesChanged, Message: message}
}

// conditionClaimsOutdated is there while claims of running pods differ from volumeClaimTemplates.
const (
	conditionClaimsOutdated = "VolumeClaimsOutdated"
	reasonTemplatesChanged  = "ClaimTemplatesChanged"
)

// heardAgain reports whether the hub grants again after it was silent. The time until then does not count for the
// deadline.
func (s *scope) heardAgain() bool {
	return !s.facts.Budget.Expired && slices.ContainsFunc(s.cs.Status.Conditions, func(c v1beta1.CloneSetCondition) bool {
		return c.Type == v1beta1.ConditionReady && c.Reason == conditions.ReasonHubSilent
	})
}

// progressed notes on Progressing that something moved now.
func progressed(have []v1beta1.CloneSetCondition, now time.Time) []v1beta1.CloneSetCondition {
	out := append([]v1beta1.CloneSetCondition(nil), have...)
	for i := range out {
		if out[i].Type == v1beta1.CloneSetConditionProgressing {
			out[i].LastUpdateTime = metav1.NewTime(now)
		}
	}
	return out
}

// deadline settles whether nothing has moved for longer than the user's deadline, and when to look again.
func (s *scope) deadline(facts *conditions.Facts, moved bool) {
	if facts.NoDeadline || moved || facts.Paused || facts.HubSilent || facts.Complete() {
		return
	}
	for _, c := range s.cs.Status.Conditions {
		if c.Type != v1beta1.CloneSetConditionProgressing || c.LastUpdateTime.IsZero() {
			continue
		}
		if c.Status == corev1.ConditionFalse && c.Reason == conditions.NamesOf("CloneSet").DeadlineExceeded {
			facts.DeadlineExceeded = true // until something moves
			return
		}
		left := c.LastUpdateTime.Add(time.Duration(*s.cs.Spec.ProgressDeadlineSeconds) * time.Second).Sub(s.facts.Now)
		if left <= 0 {
			facts.DeadlineExceeded = true
			return
		}
		s.Sooner(left)
	}
}

// onlyCounters reports whether nothing but counters and messages differ while the workload is on its way: such a status
// may wait a moment.
func onlyCounters(have, want v1beta1.CloneSetStatus) bool {
	return have.ObservedGeneration == want.ObservedGeneration && have.UpdateRevision == want.UpdateRevision &&
		have.CurrentRevision == want.CurrentRevision && have.ObservedSpread == want.ObservedSpread &&
		conditions.SameStatus(have.Conditions, want.Conditions)
}

// waitPastDeadline returns what a CloneSet past its deadline waits for that neither its controller nor Kubernetes ends:
// a request that is refused, a hook that nobody serves, or the first pod that waits, by its name. Nil if there is no
// such wait: pods that only start slowly may still get ready.
func waitPastDeadline(facts conditions.Facts, pods []*corev1.Pod) *conditions.Cause {
	if !facts.DeadlineExceeded {
		return nil
	}
	cause := &conditions.Cause{Reason: conditions.NamesOf("").DeadlineExceeded}
	switch {
	case facts.Failed != nil:
		cause.Message = facts.Failed.Reason + ": " + facts.Failed.Message
		return cause
	case facts.Waiting != "":
		cause.Message = conditions.ReasonWaitingForHook + ": " + facts.Waiting +
			"; look at the controller that serves the hook, or remove the hook from spec.lifecycle"
		return cause
	}
	var first *corev1.Pod
	for _, pod := range pods {
		if waits.Of(pod) != nil && (first == nil || cmp.Less(pod.Name, first.Name)) {
			first = pod
		}
	}
	if first == nil {
		return nil
	}
	wait := waits.Of(first)
	cause.Message = wait.Reason + ": " + wait.Message
	return cause
}

// Reporting is what the report to the hub asks about CloneSets.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			cs, err := workload.Decode(live, &v1beta1.CloneSet{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.CloneSetUse(ptr.Deref(cs.Spec.Replicas, 1), &cs.Status)}, nil
		},
		Observed: observed,
		New:      func() client.Object { return &v1beta1.CloneSet{} },
		Maker:    makerOf,
		Restarts: true,
	}
}

// observed reports whether the controller has seen the newest generation, and the zones of the hub: they are an
// annotation, which does not raise the generation, and status.observedSpread says which of them the controller acts on.
func observed(live *unstructured.Unstructured) bool {
	seen, _, err := unstructured.NestedString(live.Object, "status", "observedSpread")
	return err == nil && workload.Observed(live) && seen == topology.SpreadSeen(live.GetAnnotations())
}

// makerOf says how the CloneSet makes pods.
func makerOf(object client.Object) workload.Maker {
	cs, ok := object.(*v1beta1.CloneSet)
	if !ok {
		return workload.Maker{}
	}
	m := workload.Maker{Update: cs.Status.UpdateRevision}
	if limit := cs.Spec.ScaleStrategy.MaxUnavailable; limit != nil {
		limits, err := budget.Resolve(budget.Strategy{ScaleMaxUnavailable: limit}, ptr.Deref(cs.Spec.Replicas, 1))
		if err == nil {
			m.AtOnce = limits.ScaleMaxUnavailable
		}
	}
	if text := cs.Annotations[topology.AnnotationZones]; text != "" && json.Unmarshal([]byte(text), &m.Zones) != nil {
		m.Zones = nil
	}
	if ws, err := spread.OfHub(cs, v1beta1.CloneSetKind); err == nil && ws != nil { // else the controller ignores it
		m.Spread, m.Subsets = ws, map[string]int32{}
		for i := range ws.Spec.Subsets {
			if limit := ws.Spec.Subsets[i].MaxReplicas; limit != nil { // the hub gives a number to each
				m.Subsets[ws.Spec.Subsets[i].Name] = limit.IntVal
			}
		}
	}
	return m
}
