package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationScheduledAt is on a job of an AdvancedCronJob: the tick that it was created for (RFC 3339).
const AnnotationScheduledAt = "apps.kruise.io/scheduled-at"

// AdvancedCronJobSpec is the spec of an AdvancedCronJob.
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || !self.schedule.matches('^(CRON_)?TZ=')",fieldPath=".timeZone",message="timeZone is set and schedule begins with a time zone too: remove one of them",messageExpression="'timeZone is %s and schedule %s begins with a time zone too: remove one of them'.format([self.timeZone, self.schedule])"
// +kubebuilder:validation:XValidation:rule="!has(self.template.imageListPullJobTemplate) || !has(self.concurrencyPolicy) || self.concurrencyPolicy != 'Allow'",fieldPath=".concurrencyPolicy",message="concurrencyPolicy Allow does not go with imageListPullJobTemplate, whose jobs would pull the same images: use Replace or Forbid"
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
	// Replace (the previous job is deleted). Default Allow, and Replace with imageListPullJobTemplate, which refuses
	// Allow.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
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
	// template of the jobs: one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate.
	Template CronJobTemplate `json:"template"`
}

// ConcurrencyPolicy says what a tick does while the previous job runs.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

// The concurrency policies.
const (
	AllowConcurrent   ConcurrencyPolicy = "Allow"
	ForbidConcurrent  ConcurrencyPolicy = "Forbid"
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// CronJobTemplate is the template of the jobs.
// +kubebuilder:validation:XValidation:rule="[has(self.jobTemplate), has(self.broadcastJobTemplate), has(self.imageListPullJobTemplate)].filter(given, given).size() == 1",message="template has one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate: give one of them",messageExpression="'template has %d of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate: give one of them'.format([[has(self.jobTemplate), has(self.broadcastJobTemplate), has(self.imageListPullJobTemplate)].filter(given, given).size()])"
// +kubebuilder:validation:XValidation:rule="has(self.jobTemplate) == has(oldSelf.jobTemplate) && (!has(self.jobTemplate) || self.jobTemplate == oldSelf.jobTemplate)",fieldPath=".jobTemplate",message="jobTemplate cannot change: set it back, or create an AdvancedCronJob of another name"
// +kubebuilder:validation:XValidation:rule="has(self.broadcastJobTemplate) == has(oldSelf.broadcastJobTemplate) && (!has(self.broadcastJobTemplate) || self.broadcastJobTemplate == oldSelf.broadcastJobTemplate)",fieldPath=".broadcastJobTemplate",message="broadcastJobTemplate cannot change: set it back, or create an AdvancedCronJob of another name"
type CronJobTemplate struct {
	// jobTemplate is the template of Jobs of batch/v1 (a batch/v1 JobTemplateSpec). It cannot change.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *JobTemplate `json:"jobTemplate,omitempty"`
	// broadcastJobTemplate is the template of BroadcastJobs. It cannot change.
	// +optional
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
	// imageListPullJobTemplate is the template of ImageListPullJobs, which pull images onto nodes.
	// +optional
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec is the template of BroadcastJobs.
type BroadcastJobTemplateSpec struct {
	// metadata is put on the jobs: labels and annotations.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the jobs.
	Spec BroadcastJobSpec `json:"spec"`
}

// ImageListPullJobTemplateSpec is the template of ImageListPullJobs.
type ImageListPullJobTemplateSpec struct {
	// metadata is put on the jobs: labels and annotations.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the jobs.
	// +kubebuilder:validation:XValidation:rule="!has(self.completionPolicy) || !has(self.completionPolicy.type) || self.completionPolicy.type != 'Never'",fieldPath=".completionPolicy.type",message="completionPolicy.type Never does not go with a schedule, whose jobs must end: use Always"
	// +kubebuilder:validation:XValidation:rule="!has(self.completionPolicy) || !has(self.completionPolicy.ttlSecondsAfterFinished)",fieldPath=".completionPolicy.ttlSecondsAfterFinished",message="ttlSecondsAfterFinished cannot be set in a schedule, which keeps jobs by successfulJobsHistoryLimit and failedJobsHistoryLimit: remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.completionPolicy) || !has(self.completionPolicy.activeDeadlineSeconds) || self.completionPolicy.activeDeadlineSeconds > (has(self.pullPolicy) && has(self.pullPolicy.timeoutSeconds) ? self.pullPolicy.timeoutSeconds : 600)",fieldPath=".completionPolicy.activeDeadlineSeconds",message="activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds, which is 600 by default, or no pull could use its time: raise it, or lower timeoutSeconds",messageExpression="'activeDeadlineSeconds is %d: it must be greater than pullPolicy.timeoutSeconds, which is %d, or no pull could use its time; raise it, or lower timeoutSeconds'.format([self.completionPolicy.activeDeadlineSeconds, has(self.pullPolicy) && has(self.pullPolicy.timeoutSeconds) ? self.pullPolicy.timeoutSeconds : 600])"
	Spec ImageListPullJobSpec `json:"spec"`
}

// CronJobTemplateType is the kind of the jobs.
type CronJobTemplateType string

// The kinds of jobs.
const (
	JobTemplateType              CronJobTemplateType = "Job"
	BroadcastJobTemplateType     CronJobTemplateType = "BroadcastJob"
	ImageListPullJobTemplateType CronJobTemplateType = "ImageListPullJob"
)

// JobReference names a job.
type JobReference struct {
	// kind of the job.
	// +optional
	Kind string `json:"kind,omitempty"`
	// namespace of the job.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the job.
	// +optional
	Name string `json:"name,omitempty"`
	// uid of the job.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// apiVersion of the job.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// resourceVersion of the job. Not set here.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// fieldPath is a part of the job. Not set here.
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`
}

// ObservedSchedule is a schedule and since when it is followed.
type ObservedSchedule struct {
	// schedule is spec.schedule.
	Schedule string `json:"schedule"`
	// timeZone is spec.timeZone.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// since is when the controller saw the schedule first.
	Since metav1.Time `json:"since"`
}

// AdvancedCronJobStatus is the observed state of an AdvancedCronJob.
type AdvancedCronJobStatus struct {
	// observedGeneration is the generation of the AdvancedCronJob that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// type is the kind of the jobs: Job, BroadcastJob or ImageListPullJob.
	// +optional
	Type CronJobTemplateType `json:"type,omitempty"`
	// active are the jobs that run.
	// +optional
	// +listType=atomic
	Active []JobReference `json:"active,omitempty"`
	// lastScheduleTime is the newest tick that a job was created for. It never moves back: no tick is started twice.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// lastMissedTime is the newest tick that was reported as missed. It never moves back: no tick is reported twice.
	// +optional
	LastMissedTime *metav1.Time `json:"lastMissedTime,omitempty"`
	// observedSchedule is the schedule that the controller follows. A change has no ticks before it was seen.
	// +optional
	ObservedSchedule *ObservedSchedule `json:"observedSchedule,omitempty"`
	// conditions are the observed aspects, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []JobCondition `json:"conditions,omitempty"`
}

// AdvancedCronJob starts Jobs, BroadcastJobs or ImageListPullJobs by a schedule.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=acj
// +kubebuilder:storageversion
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
	Status AdvancedCronJobStatus `json:"status,omitempty"`
}

// AdvancedCronJobList is a list of AdvancedCronJobs.
// +kubebuilder:object:root=true
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdvancedCronJob `json:"items"`
}
