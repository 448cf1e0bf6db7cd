package conditions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Remove returns a condition that Merge takes away if it is there.
func Remove(conditionType string) Condition { return Condition{Type: conditionType} }

// Merge returns have with each of want set in it. A transition time becomes now only where the status changes; other
// conditions stay as they are. have is not changed. read and write convert from and to the kind's own type.
func Merge[C any](have []C, now time.Time, read func(C) (Condition, metav1.Time), write func(Condition, metav1.Time) C, want ...Condition) []C {
	out := slices.Clone(have)
	for _, w := range want {
		i := slices.IndexFunc(out, func(c C) bool { old, _ := read(c); return old.Type == w.Type })
		switch {
		case w.Status == "":
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
		case i < 0:
			out = append(out, write(w, metav1.NewTime(now)))
		default:
			old, since := read(out[i])
			if old == w {
				continue
			}
			if old.Status != w.Status {
				since = metav1.NewTime(now)
			}
			out[i] = write(w, since)
		}
	}
	return out
}

// CloneSet merges want into the conditions of a CloneSet. As published, lastUpdateTime moves with the status and the
// reason; the caller may move that of Progressing on, where it records progress.
func CloneSet(have []v1beta1.CloneSetCondition, now time.Time, want ...Condition) []v1beta1.CloneSetCondition {
	updated := map[string]v1beta1.CloneSetCondition{}
	for _, c := range have {
		updated[string(c.Type)] = c
	}
	read := func(c v1beta1.CloneSetCondition) (Condition, metav1.Time) {
		return Condition{Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message}, c.LastTransitionTime
	}
	write := func(c Condition, since metav1.Time) v1beta1.CloneSetCondition {
		at := metav1.NewTime(now)
		if old := updated[c.Type]; old.Status == c.Status && old.Reason == c.Reason {
			at = old.LastUpdateTime
		}
		return v1beta1.CloneSetCondition{Type: v1beta1.CloneSetConditionType(c.Type), Status: c.Status, Reason: c.Reason,
			Message: c.Message, LastTransitionTime: since, LastUpdateTime: at}
	}
	out := Merge(have, now, read, write, want...)
	for i := range out {
		// No update is older than the last transition; a time that is not set would be written as null, which the schema
		// refuses.
		if out[i].LastUpdateTime.Before(&out[i].LastTransitionTime) {
			out[i].LastUpdateTime = out[i].LastTransitionTime
		}
	}
	return out
}

// UnitedDeployment merges want into the conditions of a UnitedDeployment.
func UnitedDeployment(have []v1beta1.UnitedDeploymentCondition, now time.Time, want ...Condition) []v1beta1.UnitedDeploymentCondition {
	read := func(c v1beta1.UnitedDeploymentCondition) (Condition, metav1.Time) {
		return Condition{Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message}, c.LastTransitionTime
	}
	write := func(c Condition, since metav1.Time) v1beta1.UnitedDeploymentCondition {
		return v1beta1.UnitedDeploymentCondition{Type: v1beta1.UnitedDeploymentConditionType(c.Type), Status: c.Status,
			Reason: c.Reason, Message: c.Message, LastTransitionTime: since}
	}
	return Merge(have, now, read, write, want...)
}

// Status returns the status of the condition with that type among conditions in the neutral form, or "".
func Status(list []Condition, conditionType string) corev1.ConditionStatus {
	for _, c := range list {
		if c.Type == conditionType {
			return c.Status
		}
	}
	return ""
}
