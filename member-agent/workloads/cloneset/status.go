package cloneset

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
)

// statusEvery is how often a status is written at most while only its counters move: 500 pods that become ready make
// 12 writes then, not 500, and a person does not see the difference. Everything else is written at once.
const statusEvery = 250 * time.Millisecond

// observe counts the pods, without a plan.
func observe(f Facts) Plan {
	var plan Plan
	for _, pod := range f.Pods.Active {
		f.observe(&plan, pod)
	}
	plan.ExpectedUpdated = f.Limits.Replicas - f.Limits.Partition
	return plan
}

// report writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	r.tell(s)
	want := r.status(s)
	if equality.Semantic.DeepEqual(s.cs.Status, want) {
		return true, nil
	}
	worked := s.done.created+s.done.deleted+s.done.updated > 0 && len(s.failed) == 0 && s.stalled == nil
	if wait := r.pace.hold(s.key, r.clock.Now(), worked); wait > 0 {
		s.wake = counts.Sooner(s.wake, wait)
		return true, nil
	}
	if wait := r.pace.wait(s.key, r.clock.Now()); wait > 0 && onlyCounters(s.cs.Status, want) {
		s.wake = counts.Sooner(s.wake, wait)
		return true, nil
	}
	changed := s.cs.DeepCopy()
	changed.Status = want
	patch := client.MergeFrom(s.cs)
	if s.cs.Status.ObservedGeneration == 0 {
		// A difference to nothing would leave out the zeros.
		whole, err := json.Marshal(map[string]any{"status": want})
		if err != nil {
			return false, fmt.Errorf("encode its status: %w", err)
		}
		patch = client.RawPatch(types.MergePatchType, whole)
	}
	if err := r.client.Status().Patch(ctx, changed, patch, fieldOwner); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("write its status: %w", err)
	}
	r.self.Changed(s.cs.UID, s.key, changed.ResourceVersion)
	r.pace.wrote(s.key, r.clock.Now())
	return true, nil
}

// fieldOwner is the field manager of everything that workload controllers write.
const fieldOwner = client.FieldOwner("flotilla-workloads")

// status returns the status that this pass observed.
func (r *Reconciler) status(s *scope) v1beta1.CloneSetStatus {
	c := s.plan.Counters
	out := *s.cs.Status.DeepCopy()
	if !s.halted { // else the template has not been looked at
		out.ObservedGeneration = s.cs.Generation
	}
	out.Replicas, out.ReadyReplicas, out.AvailableReplicas = c.Replicas, c.Ready, c.Available
	out.UpdatedReplicas, out.UpdatedReadyReplicas, out.UpdatedAvailableReplicas = c.Updated, c.UpdatedReady, c.UpdatedAvailable
	out.ExpectedUpdatedReplicas = s.facts.Limits.Replicas - s.facts.Limits.Partition
	out.UpdateRevision = s.facts.Update.Name
	out.CurrentRevision = s.facts.Current.Name
	if all := s.facts.Limits.Replicas; c.Updated == all && c.Replicas == all && c.UpdatedReady == all {
		out.CurrentRevision = s.facts.Update.Name
	}
	out.CollisionCount = s.collisions
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
		status.UpdatedAvailableReplicas != s.cs.Status.UpdatedAvailableReplicas || status.AvailableReplicas != s.cs.Status.AvailableReplicas ||
		status.ObservedGeneration != s.cs.Status.ObservedGeneration || s.heardAgain()
	rolling := s.cs.Spec.UpdateStrategy.RollingUpdate
	facts := conditions.Facts{
		Desired: s.facts.Limits.Replicas, ExpectedUpdated: s.plan.ExpectedUpdated,
		Replicas: status.Replicas, Updated: status.UpdatedReplicas,
		Available: status.AvailableReplicas, UpdatedAvailable: status.UpdatedAvailableReplicas,
		Paused:    rolling != nil && rolling.Paused,
		OnDelete:  s.cs.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType,
		HubSilent: s.facts.Over,
		Stalled:   s.stalled,
		Waiting:   s.plan.Waiting.Message(),

		NoDeadline: !conditions.HasDeadline(s.cs.Spec.ProgressDeadlineSeconds),
		Revision:   status.UpdateRevision,
	}
	if status.CurrentRevision != status.UpdateRevision && s.cs.Spec.UpdateStrategy.Type != v1beta1.OnDeleteCloneSetUpdateStrategyType {
		facts.GoingBack = max(0, status.UpdatedReplicas-status.ExpectedUpdatedReplicas)
	}
	want := make([]conditions.Condition, 0, 7)
	for _, condition := range []v1beta1.CloneSetConditionType{v1beta1.CloneSetConditionFailedScale, v1beta1.CloneSetConditionFailedUpdate} {
		if err := s.failed[condition]; err != nil {
			want = append(want, conditions.Condition{Type: string(condition), Status: corev1.ConditionTrue, Reason: conditions.ReasonRetrying, Message: text(err)})
			facts.Failed = &conditions.Cause{Reason: string(condition), Message: text(err)}
			continue
		}
		want = append(want, conditions.Remove(string(condition)))
	}
	want = append(want, s.claimCondition())
	s.deadline(&facts, moved)
	facts.Stalled = cmp.Or(facts.Stalled, waitPastDeadline(facts, s.facts.Pods.Active))
	have := s.cs.Status.Conditions
	if moved {
		have = progressed(have, now)
	}
	summary := conditions.Summarise(facts, conditions.NamesOf("CloneSet"))
	if s.leaving != nil {
		summary = conditions.Deleted(summary, s.left(status.Replicas))
	}
	return conditions.CloneSet(have, now, append(want, summary...)...)
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
	return conditions.Condition{Type: conditionClaimsOutdated, Status: corev1.ConditionTrue, Reason: reasonTemplatesChanged, Message: message}
}

// conditionClaimsOutdated is there while claims of running pods differ from volumeClaimTemplates.
const (
	conditionClaimsOutdated = "VolumeClaimsOutdated"
	reasonTemplatesChanged  = "ClaimTemplatesChanged"
)

// heardAgain reports whether the hub lends again after it was silent. The time until then does not count for the deadline.
func (s *scope) heardAgain() bool {
	return !s.facts.Over && slices.ContainsFunc(s.cs.Status.Conditions, func(c v1beta1.CloneSetCondition) bool {
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
		s.wake = counts.Sooner(s.wake, left)
	}
}

// onlyCounters tells whether nothing but counters and messages differ while the workload is on its way: such a status may
// wait a moment.
func onlyCounters(have, want v1beta1.CloneSetStatus) bool {
	if have.ObservedGeneration != want.ObservedGeneration || have.UpdateRevision != want.UpdateRevision ||
		have.CurrentRevision != want.CurrentRevision || have.ObservedSpread != want.ObservedSpread || len(have.Conditions) != len(want.Conditions) {
		return false
	}
	for i := range have.Conditions {
		if have.Conditions[i].Type != want.Conditions[i].Type || have.Conditions[i].Status != want.Conditions[i].Status {
			return false
		}
	}
	return true
}

// tell records one event for each kind of thing that the pass did.
func (r *Reconciler) tell(s *scope) {
	if n := s.done.created; n > 0 {
		r.events.Eventf(s.cs, nil, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "created %s", pods(n))
	}
	if n := s.done.deleted; n > 0 {
		r.events.Eventf(s.cs, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "deleted %s (%s)", pods(n), reasons(s.plan.Delete))
	}
	if n := s.done.updated; n > 0 {
		r.events.Eventf(s.cs, nil, corev1.EventTypeNormal, "SuccessfulUpdatePodInPlace", "Update", "updated %s in place to %s", pods(n), s.plan.Update[0].To.Name) // of one pass all go one way
	}
	for condition, err := range s.failed {
		r.events.Eventf(s.cs, nil, corev1.EventTypeWarning, string(condition), "Retry", "%s", short(err))
	}
}

// pods tells a number of pods in words.
func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// longestNote is the API's limit of an event's text.
const longestNote = 1000

func short(err error) string {
	out := text(err)
	if len(out) <= longestNote {
		return out
	}
	return strings.ToValidUTF8(out[:longestNote], "") + " …"
}

// toldErrors is how many errors of one pass are told. Up to write.InFlight requests side by side are refused, mostly with the same words.
const toldErrors = 3

// text says what went wrong in a pass: each error once, and the first few of them.
func text(err error) string {
	var told []string
	more := 0
	for line := range strings.SplitSeq(err.Error(), "\n") {
		switch {
		case slices.Contains(told, line):
		case len(told) == toldErrors:
			more++
		default:
			told = append(told, line)
		}
	}
	if more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(told, "\n")
}

func reasons(list []Removal) string {
	var out string
	seen := map[string]bool{}
	for _, removal := range list {
		if !seen[removal.Reason] {
			if out != "" {
				out += ", "
			}
			seen[removal.Reason] = true
			out += removal.Reason
		}
	}
	return out
}

// pace remembers, for each CloneSet, its uid, when its status was written, and how fast it may write.
type pace struct {
	mu  sync.Mutex
	own map[types.NamespacedName]paced
}

type paced struct {
	uid   types.UID
	wrote time.Time
	// held is since when a status waits for pods that were written to be seen; zero when none waits.
	held time.Time
	// most is how many writes of one kind the last pass made without an error, at last.
	most int
	last time.Time
	// refused are instance ids with claims whose pod was refused.
	refused []string
	// stranger is why a pod that was made is not the CloneSet's, and when that was.
	stranger   error
	strangerAt time.Time
}

// trustFor is how long a slow start that went well is not begun again from one: a rollout's passes follow one another
// within seconds, and what made requests fail is seldom younger.
const trustFor = 10 * time.Second

// reached notes how many writes of one kind a pass made. A pass that wrote nothing says nothing.
func (p *pace) reached(key types.NamespacedName, most int, failed bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.own[key]
	switch {
	case failed:
		entry.most = 0
	case most > 0:
		entry.most, entry.last = most, now
	}
	p.own[key] = entry
}

// spare keeps an id whose pod was refused.
func (p *pace) spare(key types.NamespacedName, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.own[key]
	entry.refused = append(entry.refused, id)
	p.own[key] = entry
}

// spares returns up to n ids that spare has kept, and keeps them no longer.
func (p *pace) spares(key types.NamespacedName, n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.own[key]
	n = min(n, len(entry.refused))
	out := slices.Clone(entry.refused[:n])
	entry.refused = slices.Delete(entry.refused, 0, n)
	p.own[key] = entry
	return out
}

// estrange notes that a pod was made that is not the CloneSet's.
func (p *pace) estrange(key types.NamespacedName, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.own[key]
	entry.stranger, entry.strangerAt = err, now
	p.own[key] = entry
}

// estranged returns why no pods are to be made now, or nil. It is tried again as often as other failures at last: the events of the pod
// that came and went bring passes at once.
func (p *pace) estranged(key types.NamespacedName, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry := p.own[key]; now.Sub(entry.strangerAt) < lastBackoff {
		return entry.stranger
	}
	return nil
}

// width is how many writes the next pass may begin with.
func (p *pace) width(key types.NamespacedName, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry := p.own[key]; now.Sub(entry.last) < trustFor {
		return max(1, entry.most)
	}
	return 1
}

func newPace() *pace { return &pace{own: map[types.NamespacedName]paced{}} }

func (p *pace) remember(key types.NamespacedName, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own[key].uid != uid {
		p.own[key] = paced{uid: uid}
	}
}

func (p *pace) forget(key types.NamespacedName) (types.UID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry, ok := p.own[key]
	delete(p.own, key)
	return entry.uid, ok
}

func (p *pace) wrote(key types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.own[key]
	entry.wrote, entry.held = now, time.Time{}
	p.own[key] = entry
}

// hold is how long the status of a pass has to wait. One that wrote pods has counted them as they were before: what the next
// pass sees, mostly some tens of milliseconds later, says it all in one write. While every pass writes pods, a status waits no
// longer than statusEvery.
func (p *pace) hold(key types.NamespacedName, now time.Time, worked bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.own[key]
	switch {
	case !worked:
		entry.held = time.Time{}
	case entry.held.IsZero():
		entry.held = now
	}
	p.own[key] = entry
	if !worked {
		return 0
	}
	return max(0, entry.held.Add(statusEvery).Sub(now))
}

// wait is how long the next write of counters has to wait.
func (p *pace) wait(key types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.own[key].wrote.Add(statusEvery).Sub(now))
}
