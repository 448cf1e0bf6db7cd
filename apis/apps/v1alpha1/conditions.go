package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Common returns the condition in the form that all kinds share, and when it was last updated.
func (c EphemeralJobCondition) Common() (common metav1.Condition, updated metav1.Time) {
	return metav1.Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}, c.LastProbeTime
}

// From returns the condition of an EphemeralJob that is common and was last updated then.
func (EphemeralJobCondition) From(common metav1.Condition, updated metav1.Time) EphemeralJobCondition {
	return EphemeralJobCondition{
		Type: EphemeralJobConditionType(common.Type), Status: corev1.ConditionStatus(common.Status),
		Reason: common.Reason, Message: common.Message,
		LastTransitionTime: common.LastTransitionTime, LastProbeTime: updated,
	}
}
