package aggregate

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// memberCauses are what keeps one member from carrying out its order. A cause without a reason is none.
type memberCauses struct {
	// stalled: only a person moves it on. failed: tried again, whatever it was.
	stalled, failed conditions.Cause
	// failures are the causes under the published conditions of the kind, by type.
	failures map[string]conditions.Cause
	// deadline: nothing has moved there for longer than the user's deadline.
	deadline conditions.Cause
	// waiting: pods wait there for somebody who serves a lifecycle hook.
	waiting conditions.Cause
	// held: what the kind says holds the whole workload.
	held conditions.Cause
}

// objectConditions is what is read of the status of a member object of whatever kind.
type objectConditions struct {
	Conditions []struct {
		Type    string
		Status  corev1.ConditionStatus
		Reason  string
		Message string
	}
}

// causesOf reads what a Work says of its member object. First of all that is whether the object could be applied: the
// conditions of an object that is not as the Work says are of before.
func causesOf(table kinds.Table, kind kinds.Kind, w *work.Work) memberCauses {
	var t memberCauses
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	switch {
	case applied == nil:
	case applied.Status == metav1.ConditionTrue:
		if applied.ObservedGeneration >= w.Generation || answeredByKarmada(table, w) {
			t.read(kind, w)
		}
	case applied.Reason == work.ReasonConflict || applied.Reason == work.ReasonNotAllowed:
		t.stalled = conditions.Cause{Reason: applied.Reason, Message: applied.Message}
	default:
		t.failed = conditions.Cause{Reason: applied.Reason, Message: applied.Message}
	}
	return t
}

// answeredByKarmada tells whether what an agent of Karmada reflects is of the newest order: its condition names no
// generation.
func answeredByKarmada(table kinds.Table, w *work.Work) bool {
	report, _ := table.ReportOf(w)
	return w.Status.Report == nil && report != nil && report.Sequence > 0 && report.Sequence >= wire.SequenceOf(w)
}

// read takes the conditions of the member object. What cannot be read says nothing.
func (t *memberCauses) read(kind kinds.Kind, w *work.Work) {
	if len(w.Status.ManifestStatuses) == 0 || w.Status.ManifestStatuses[0].Status == nil {
		return
	}
	var object objectConditions
	if json.Unmarshal(w.Status.ManifestStatuses[0].Status.Raw, &object) != nil {
		return
	}
	for _, c := range object.Conditions {
		cause := conditions.Cause{Reason: c.Reason, Message: c.Message}
		switch {
		case c.Type == apps.ConditionStalled && c.Status == corev1.ConditionTrue:
			t.stalled = cause
		case c.Type == apps.ConditionProgressing && c.Status == corev1.ConditionFalse &&
			c.Reason == conditions.NamesOf("").DeadlineExceeded: // the same for all kinds
			t.deadline = cause
		case c.Type == apps.ConditionReady && c.Status == corev1.ConditionFalse &&
			c.Reason == conditions.ReasonWaitingForHook:
			t.waiting = cause
		case c.Type == apps.ConditionReady && c.Status == corev1.ConditionFalse && slices.Contains(kind.Held, c.Reason):
			t.held = cause
		case c.Status == corev1.ConditionTrue:
			t.readFailure(kind, c.Type, cause)
		}
	}
}

// readFailure takes a published condition by which the kind tells of what its controller retries.
func (t *memberCauses) readFailure(kind kinds.Kind, published string, cause conditions.Cause) {
	at := slices.IndexFunc(kind.Failures, func(f kinds.Failure) bool { return f.Type == published })
	if at < 0 {
		return
	}
	if t.failures == nil {
		t.failures = map[string]conditions.Cause{}
	}
	t.failures[published] = cause
	if kind.Failures[at].Past {
		return
	}
	t.failed = cause
	if !kind.Failures[at].OwnReason {
		t.failed.Reason = published
	}
}

// notApplied returns what keeps the first of these Works' objects from standing in a member as it should.
func notApplied(table kinds.Table, works []*work.Work) memberCauses {
	var all memberCauses
	for _, w := range works {
		if meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied) {
			continue
		}
		t := causesOf(table, kinds.Kind{}, w) // conditions of copies are not read
		all.stalled, all.failed = causeOr(all.stalled, t.stalled), causeOr(all.failed, t.failed)
	}
	return all
}

// causeOr returns a, or b if a has no reason.
func causeOr(a, b conditions.Cause) conditions.Cause {
	if a.Reason != "" {
		return a
	}
	return b
}

// causes gathers one cause from several members: the first one's, and how many others have one.
type causes struct {
	first conditions.Cause
	more  int
}

// add takes the cause of the next member, by name.
func (c *causes) add(cluster string, cause conditions.Cause) {
	switch {
	case cause.Reason == "":
	case c.first.Reason == "":
		c.first = conditions.Cause{Reason: cause.Reason, Message: cluster + ": " + bounded(cause.Message)}
	default:
		c.more++
	}
}

// cause returns the cause with the name of the first member, nil where there is none.
func (c *causes) cause() *conditions.Cause {
	if c.first.Reason == "" {
		return nil
	}
	whole := c.first
	if c.more > 0 {
		whole.Message = fmt.Sprintf("%s; and %d more", whole.Message, c.more)
	}
	return &whole
}

// maxMessage is how many characters of a member's message are kept: the sentence and its remedy fit, an API server's
// whole answer does not. The rest stands in the Work.
const maxMessage = 1000

func bounded(message string) string {
	if len(message) <= maxMessage { // bytes are at least characters
		return message
	}
	runes := []rune(message)
	if len(runes) <= maxMessage {
		return message
	}
	return string(runes[:maxMessage]) + " …"
}
