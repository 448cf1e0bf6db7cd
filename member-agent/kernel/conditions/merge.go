package conditions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Remove returns a condition that Merge takes away if it is there.
func Remove(conditionType string) Condition { return Condition{Type: conditionType} }

// Own is a kind's own type of conditions. Common returns the form that all kinds share and when the condition was last
// updated, zero for a type without that time; From is the way back.
type Own[C any] interface {
	Common() (common metav1.Condition, updated metav1.Time)
	From(common metav1.Condition, updated metav1.Time) C
}

// Merge returns have with each of want set in it. A transition time becomes now only where the status changes, and an
// update time where the status or the reason does; other conditions stay as they are. have is not changed. The caller
// may put the update time of Progressing forward, where it records progress.
func Merge[C Own[C]](have []C, now time.Time, want ...Condition) []C {
	out := slices.Clone(have)
	at := metav1.NewTime(now)
	for _, w := range want {
		i := slices.IndexFunc(out, func(c C) bool { return typeOf(c) == w.Type })
		if w.Status == "" {
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
			continue
		}
		common, updated := metav1.Condition{LastTransitionTime: at}, at
		if i >= 0 {
			common, updated = out[i].Common()
		}
		if string(w.Status) != string(common.Status) || w.Reason != common.Reason {
			updated = at
		}
		if string(w.Status) != string(common.Status) {
			common.LastTransitionTime = at
		}
		common.Type, common.Status, common.Reason, common.Message = w.Type, metav1.ConditionStatus(w.Status), w.Reason,
			w.Message
		var none C
		if i < 0 {
			out = append(out, none.From(common, updated))
			continue
		}
		out[i] = none.From(common, updated)
	}
	for i := range out {
		// No update is older than the last transition; a time that is not set would be written as null, which the schema
		// refuses.
		if common, updated := out[i].Common(); updated.Before(&common.LastTransitionTime) {
			out[i] = out[i].From(common, common.LastTransitionTime)
		}
	}
	return out
}

// SameStatus reports whether both lists have the same conditions in one order, with the same statuses.
func SameStatus[C Own[C]](have, want []C) bool {
	return slices.EqualFunc(have, want, func(a, b C) bool {
		x, _ := a.Common()
		y, _ := b.Common()
		return x.Type == y.Type && x.Status == y.Status
	})
}

func typeOf[C Own[C]](c C) string {
	common, _ := c.Common()
	return common.Type
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
