package aggregate

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// told is what one member says stands in the way there. A cause without a reason is none.
type told struct {
	// stalled: only a person moves it on. failed: tried again, whatever it was.
	stalled, failed conditions.Cause
	// failedScale and failedUpdate are the published conditions of a CloneSet.
	failedScale, failedUpdate conditions.Cause
	// deadline: nothing has moved there for longer than the user's deadline.
	deadline conditions.Cause
	// waiting: pods wait there for somebody who serves a lifecycle hook.
	waiting conditions.Cause
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

// toldBy reads what a Work says of its member object. First of all that is whether the object could be applied: the
// conditions of an object that is not as the Work says are of before.
func toldBy(w *work.Work) told {
	var t told
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	switch {
	case applied == nil:
	case applied.Status == metav1.ConditionTrue:
		if applied.ObservedGeneration >= w.Generation || answeredByKarmada(w) {
			t.read(w)
		}
	case applied.Reason == work.ReasonConflict || applied.Reason == work.ReasonNotAllowed:
		t.stalled = conditions.Cause{Reason: applied.Reason, Message: applied.Message}
	default:
		t.failed = conditions.Cause{Reason: applied.Reason, Message: applied.Message}
	}
	return t
}

// answeredByKarmada tells whether what an agent of Karmada reflects is of the newest order: its condition names no generation.
func answeredByKarmada(w *work.Work) bool {
	report, _ := wire.ReportOf(w)
	return w.Status.Report == nil && report != nil && report.Sequence > 0 && report.Sequence >= wire.SequenceOf(w)
}

// read takes the conditions of the member object. What cannot be read says nothing.
func (t *told) read(w *work.Work) {
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
		case c.Type == string(apps.CloneSetConditionFailedScale) && c.Status == corev1.ConditionTrue:
			t.failedScale = cause
			t.failed = conditions.Cause{Reason: c.Type, Message: c.Message}
		case c.Type == string(apps.CloneSetConditionFailedUpdate) && c.Status == corev1.ConditionTrue:
			t.failedUpdate = cause
			t.failed = conditions.Cause{Reason: c.Type, Message: c.Message}
		case c.Type == string(apps.SubsetFailure) && c.Status == corev1.ConditionTrue:
			t.failed = cause
		case c.Type == apps.ConditionProgressing && c.Status == corev1.ConditionFalse && c.Reason == conditions.NamesOf("").DeadlineExceeded: // one word for all kinds
			t.deadline = cause
		case c.Type == apps.ConditionReady && c.Status == corev1.ConditionFalse && c.Reason == conditions.ReasonWaitingForHook:
			t.waiting = cause
		}
	}
}

// notApplied returns what keeps the first of these Works' objects from standing in a member as it should.
func notApplied(works []*work.Work) told {
	var all told
	for _, w := range works {
		if meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied) {
			continue
		}
		t := toldBy(w)
		all.stalled, all.failed = firstTold(all.stalled, t.stalled), firstTold(all.failed, t.failed)
	}
	return all
}

func firstTold(a, b conditions.Cause) conditions.Cause {
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

// maxMessage is how many characters of a member's message are told: the sentence and its remedy fit, an API server's whole
// answer does not. The rest stands in the Work.
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
