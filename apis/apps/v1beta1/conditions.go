package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Common returns the condition in the form that all kinds share, and when it was last updated.
func (c CloneSetCondition) Common() (common metav1.Condition, updated metav1.Time) {
	return metav1.Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}, c.LastUpdateTime
}

// From returns the condition of a CloneSet that is common and was last updated then.
func (CloneSetCondition) From(common metav1.Condition, updated metav1.Time) CloneSetCondition {
	return CloneSetCondition{
		Type: CloneSetConditionType(common.Type), Status: corev1.ConditionStatus(common.Status),
		Reason: common.Reason, Message: common.Message,
		LastTransitionTime: common.LastTransitionTime, LastUpdateTime: updated,
	}
}

// Common returns the condition in the form that all kinds share. It does not say when it was last updated.
func (c UnitedDeploymentCondition) Common() (common metav1.Condition, updated metav1.Time) {
	return metav1.Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}, metav1.Time{}
}

// From returns the condition of a UnitedDeployment that is common.
func (UnitedDeploymentCondition) From(common metav1.Condition, _ metav1.Time) UnitedDeploymentCondition {
	return UnitedDeploymentCondition{
		Type: UnitedDeploymentConditionType(common.Type), Status: corev1.ConditionStatus(common.Status),
		Reason: common.Reason, Message: common.Message, LastTransitionTime: common.LastTransitionTime,
	}
}

// Common returns the condition in the form that all kinds share. It does not say when it was last updated.
func (c StatefulSetCondition) Common() (common metav1.Condition, updated metav1.Time) {
	return metav1.Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}, metav1.Time{}
}

// From returns the condition of a StatefulSet that is common.
func (StatefulSetCondition) From(common metav1.Condition, _ metav1.Time) StatefulSetCondition {
	return StatefulSetCondition{
		Type: StatefulSetConditionType(common.Type), Status: corev1.ConditionStatus(common.Status),
		Reason: common.Reason, Message: common.Message, LastTransitionTime: common.LastTransitionTime,
	}
}

// Common returns the condition in the form that all kinds share. It does not say when it was last updated.
func (c DaemonSetCondition) Common() (common metav1.Condition, updated metav1.Time) {
	return metav1.Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}, metav1.Time{}
}

// From returns the condition of a DaemonSet that is common.
func (DaemonSetCondition) From(common metav1.Condition, _ metav1.Time) DaemonSetCondition {
	return DaemonSetCondition{
		Type: DaemonSetConditionType(common.Type), Status: corev1.ConditionStatus(common.Status),
		Reason: common.Reason, Message: common.Message, LastTransitionTime: common.LastTransitionTime,
	}
}

// Common returns the condition in the form that all kinds share, and when it was last updated.
func (c JobCondition) Common() (common metav1.Condition, updated metav1.Time) {
	return metav1.Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}, c.LastProbeTime
}

// From returns the condition of a job that is common and was last updated then.
func (JobCondition) From(common metav1.Condition, updated metav1.Time) JobCondition {
	return JobCondition{
		Type: JobConditionType(common.Type), Status: corev1.ConditionStatus(common.Status),
		Reason: common.Reason, Message: common.Message,
		LastTransitionTime: common.LastTransitionTime, LastProbeTime: updated,
	}
}
