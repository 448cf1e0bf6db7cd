package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// AdvancedCronJobSpec is the spec of an AdvancedCronJob.
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || !self.schedule.matches('^(CRON_)?TZ=')",fieldPath=".timeZone",message="timeZone is set and schedule begins with a time zone too: remove one of them",messageExpression="'timeZone is %s and schedule %s begins with a time zone too: remove one of them'.format([self.timeZone, self.schedule])"
type AdvancedCronJobSpec struct {
	// schedule in the format of cron: minute, hour, day of month, month, day of week; or @yearly, @monthly, @weekly,
	// @daily, @hourly, @every 90m. Without timeZone it may begin with a time zone, such as TZ=Asia/Tokyo.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="@cronSchedule{self}",message="schedule is no schedule of cron: write minute, hour, day of month, month and day of week, such as 30 2 * * 1-5",messageExpression="'schedule %s is no schedule of cron: write minute (0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-6), such as 30 2 * * 1-5, or for example \\x40hourly'.format([self])"
	Schedule string `json:"schedule"`
	// timeZone is the time zone of schedule by its IANA name, such as Europe/Berlin. Default: that of the controller,
	// which is UTC. A name that does not exist starts nothing: condition Stalled says so.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$') && self.lowerAscii() != 'local'",message="timeZone is no IANA name of a time zone: write for example Europe/Berlin or Etc/UTC, or remove timeZone",messageExpression="'timeZone %s is no IANA name of a time zone: write for example Europe/Berlin or Etc/UTC, or remove timeZone'.format([self == '' ? '\"\"' : self])"
	TimeZone *string `json:"timeZone,omitempty"`
	// startingDeadlineSeconds is how long after its time, in seconds, a missed tick is still started. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// concurrencyPolicy is Allow (jobs run beside each other), Forbid (a tick is skipped while the previous job runs) or
	// Replace (the previous job is deleted). Default Allow.
	// +optional
	ConcurrencyPolicy v1beta1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// paused starts no more jobs. Running jobs go on. Default false. Afterwards the newest missed tick is started if
	// startingDeadlineSeconds allows it.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// successfulJobsHistoryLimit is the number of successful jobs to keep. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// failedJobsHistoryLimit is the number of failed jobs to keep. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// template of the jobs: jobTemplate or broadcastJobTemplate.
	Template CronJobTemplate `json:"template"`
}

// CronJobTemplate is the template of the jobs.
// +kubebuilder:validation:XValidation:rule="has(self.jobTemplate) != has(self.broadcastJobTemplate)",message="template has either jobTemplate or broadcastJobTemplate: give one of them"
// +kubebuilder:validation:XValidation:rule="has(self.jobTemplate) == has(oldSelf.jobTemplate) && (!has(self.jobTemplate) || self.jobTemplate == oldSelf.jobTemplate)",fieldPath=".jobTemplate",message="jobTemplate cannot change: set it back, or create an AdvancedCronJob of another name"
// +kubebuilder:validation:XValidation:rule="has(self.broadcastJobTemplate) == has(oldSelf.broadcastJobTemplate) && (!has(self.broadcastJobTemplate) || self.broadcastJobTemplate == oldSelf.broadcastJobTemplate)",fieldPath=".broadcastJobTemplate",message="broadcastJobTemplate cannot change: set it back, or create an AdvancedCronJob of another name"
type CronJobTemplate struct {
	// jobTemplate is the template of Jobs of batch/v1 (a batch/v1 JobTemplateSpec). It cannot change.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *v1beta1.JobTemplate `json:"jobTemplate,omitempty"`
	// broadcastJobTemplate is the template of BroadcastJobs. It cannot change.
	// +optional
	BroadcastJobTemplate *v1beta1.BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
}

// AdvancedCronJob starts Jobs or BroadcastJobs by a schedule.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=acj
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`,description="schedule in the format of cron"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`,description="kind of the jobs"
// +kubebuilder:printcolumn:name="LastScheduleTime",type=date,JSONPath=`.status.lastScheduleTime`,description="newest tick that a job was created for"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`,description="time since the AdvancedCronJob was created"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="the name of an AdvancedCronJob may have at most 52 characters, because \"<name>-<time>\" is the name of its jobs: choose a shorter name",messageExpression="'the name %s has %d characters; an AdvancedCronJob may have at most 52, because \"<name>-<time>\" is the name of its jobs: choose a shorter name'.format([dyn(self.metadata.name), dyn(self.metadata.name.size())])"
type AdvancedCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec AdvancedCronJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status v1beta1.AdvancedCronJobStatus `json:"status,omitempty"`
}

// AdvancedCronJobList is a list of AdvancedCronJobs.
// +kubebuilder:object:root=true
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdvancedCronJob `json:"items"`
}
