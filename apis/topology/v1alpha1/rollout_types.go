package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutStrategy is the order in which members get a new template.
// +kubebuilder:validation:Enum=Proportional;Waves
type RolloutStrategy string

// The orders in which members get a new template.
const (
	// RolloutProportional updates all members alongside each other.
	RolloutProportional RolloutStrategy = "Proportional"
	// RolloutWaves updates a part after the other.
	RolloutWaves RolloutStrategy = "Waves"
)

// RolloutFailure is what follows a wave that failed.
type RolloutFailure string

// What follows a wave that failed.
const (
	// RolloutPause stops the update in all members until a person goes on.
	RolloutPause RolloutFailure = "Pause"
	// RolloutRollback gives all members the template that the update leaves.
	RolloutRollback RolloutFailure = "Rollback"
)

// WaveApproval says whether a person has to let the rollout go on.
// +kubebuilder:validation:Enum=Automatic;Required
type WaveApproval string

// Who lets the rollout go on after a wave.
const (
	// ApprovalAutomatic: nobody has to.
	ApprovalAutomatic WaveApproval = "Automatic"
	// ApprovalRequired: a person has to (flotilla rollout approve).
	ApprovalRequired WaveApproval = "Required"
)

// Rollout says in which order members get a new template. How many pods are disrupted at a time is the workload's own
// to say.
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'Waves' || (has(self.waves) && size(self.waves) > 0)",fieldPath=".waves",message="strategy is Waves and there are no waves: list them in waves, or use strategy Proportional"
// +kubebuilder:validation:XValidation:rule="!has(self.waves) || size(self.waves) == 0 || (has(self.strategy) && self.strategy == 'Waves')",fieldPath=".waves",message="waves are listed and strategy is not Waves: set strategy: Waves, or remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.steps) || size(self.steps) == 0 || !has(self.strategy) || self.strategy == 'Proportional'",fieldPath=".steps",message="steps are listed and strategy is not Proportional: waves have sizes of their own; remove steps, or use strategy Proportional"
type Rollout struct {
	// strategy: Proportional updates all members alongside each other. Waves updates a part after the other, as waves
	// lists them. It holds for updates that begin after it was set. Default Proportional.
	// +optional
	// +kubebuilder:default=Proportional
	Strategy RolloutStrategy `json:"strategy,omitempty"`
	// waves in their order. What no wave selects is updated after the last one.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Waves []Wave `json:"waves,omitempty"`
	// steps at which an update of all members together stops by itself, until it is promoted (flotilla rollout promote) or
	// the checks of the step hold. They begin with a new template, and not with a change back to the one that the update
	// replaces. They hold for updates that begin after they were set, with strategy Proportional. The partition of the
	// workload holds too: the larger one counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Steps []RolloutStep `json:"steps,omitempty"`
	// onFailure is what follows a wave that failed: Pause stops the update in all members until a person goes on. Rollback
	// gives all members the template that the update leaves, until the workload gets another one; it holds for updates
	// that begin after it was set, and pauses those of a UnitedDeployment that change the patches of its subsets too.
	// Default Pause.
	// +optional
	// +kubebuilder:default=Pause
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == 'Pause' || self == 'Rollback'",message="onFailure is not known: use Pause or Rollback",messageExpression="'onFailure %s is not known: use Pause or Rollback'.format([self])"
	OnFailure RolloutFailure `json:"onFailure,omitempty"`
}

// RolloutStep is a step at which an update stops by itself. It is over when it is promoted. With a soak or checks, and
// without approval Required, it is over too when it has soaked and its checks hold.
// +kubebuilder:validation:XValidation:rule="@itemNumberOrPercent{self.partition}",fieldPath=".partition",message="partition must be a number of pods, or a percentage from 0% to 100%: correct it",messageExpression="'partition is %s: it must be a number of pods, or a percentage from 0%% to 100%%: correct it'.format([self.partition])"
type RolloutStep struct {
	// partition is how many pods over all members keep the previous template at this step: a number, or a percentage of
	// the replicas, rounded up. At least one pod is updated below 100%.
	// +kubebuilder:validation:XIntOrString
	Partition intstr.IntOrString `json:"partition"`
	// soak is how long all pods of the step have to be updated and available before the update goes on, such as 10m. Up to
	// 720h. Default 0s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h')",message="soak is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'soak %s is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Soak string `json:"soak,omitempty"`
	// timeout is how long it may take until all pods of the step are updated and available; then the step has failed. Up
	// to 720h. Default: no limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h') && duration(self) > duration('0s')",message="timeout is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'timeout %s is no duration above 0s and up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Timeout string `json:"timeout,omitempty"`
	// checks have to hold before the update goes on, as of a wave.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Checks []WaveCheck `json:"checks,omitempty"`
	// approval: Required waits, after soak and checks, until the step is promoted. Default Required without a soak and
	// checks, else Automatic.
	// +optional
	Approval WaveApproval `json:"approval,omitempty"`
}

// Wave is a part of the workload that is updated before the next one begins. It selects the pods that all of clusters,
// zones and subsets select.
// +kubebuilder:validation:XValidation:rule="!has(self.size) || self.size != 0 && self.size != '0%' && @itemNumberOrPercent{self.size}",fieldPath=".size",message="size must be a number of pods from 1, or a percentage from 1% to 100%: correct it",messageExpression="'size is %s: it must be a number of pods from 1, or a percentage from 1%% to 100%%: correct it'.format([self.size])"
type Wave struct {
	// name of the wave, a DNS label.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name is no DNS label (a-z, 0-9 and -): correct it",messageExpression="'name %s is no DNS label (a-z, 0-9 and -): correct it'.format([self])"
	Name string `json:"name"`
	// clusters of the wave. Default: all.
	// +optional
	Clusters WaveClusters `json:"clusters,omitempty"`
	// zones of the wave: what lies wholly in them is selected. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Zones []string `json:"zones,omitempty"`
	// subsets of the wave, of a UnitedDeployment. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Subsets []string `json:"subsets,omitempty"`
	// size is how many of the selected pods are updated when the wave is over: a number, or a percentage of them, rounded
	// up. Pods of earlier waves count. Default 100%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Size *intstr.IntOrString `json:"size,omitempty"`
	// soak is how long all pods of the wave have to be updated and available before the next wave begins, such as 10m. Up
	// to 720h. Default 0s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h')",message="soak is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'soak %s is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Soak string `json:"soak,omitempty"`
	// timeout is how long it may take until all pods of the wave are updated and available; then the wave has failed. Up
	// to 720h. Default: no limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h') && duration(self) > duration('0s')",message="timeout is no duration of up to 720h: write hours, minutes and seconds, such as 10m or 1h30m",messageExpression="'timeout %s is no duration above 0s and up to 720h: write hours, minutes and seconds, such as 10m or 1h30m'.format([self])"
	Timeout string `json:"timeout,omitempty"`
	// checks have to hold before the next wave begins. They are looked at from the moment when all pods of the wave are
	// updated and available, about every 10 s.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Checks []WaveCheck `json:"checks,omitempty"`
	// approval: Required waits, after soak and checks, until a person lets the rollout go on (flotilla rollout approve).
	// Default Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Approval WaveApproval `json:"approval,omitempty"`
}

// WaveClusters selects members: by names, by labels, or all; both given must both hold.
type WaveClusters struct {
	// names of members. Default: all members.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=250
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=52
	Names []string `json:"names,omitempty"`
	// selector of members, by the labels of the MemberCluster objects. Default: all members.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// WaveCheck is what has to hold before the next wave begins: an expression over the workload on the hub, an answer by
// HTTP, or a Job in the members of the wave.
// +kubebuilder:validation:XValidation:rule="[has(self.expression), has(self.http), has(self.job)].filter(given, given).size() == 1",message="a check has one of expression, http and job: give one of them",messageExpression="'check %s has %d of expression, http and job: give one of them'.format([self.name, [has(self.expression), has(self.http), has(self.job)].filter(given, given).size()])"
type WaveCheck struct {
	// name of the check, for messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// expression in CEL that is true where the check holds. The variable object is the workload on the hub with its
	// status, such as: object.status.readyReplicas >= 9
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
	// http is an address that the hub asks.
	// +optional
	HTTP *WaveHTTP `json:"http,omitempty"`
	// job is a Job that has to succeed in each member of the wave.
	// +optional
	Job *WaveJob `json:"job,omitempty"`
	// patience is for how long at a time an expression may not hold, or a member may not take the Job, before the wave has
	// failed. Up to 720h. Default 1m.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) <= duration('720h')",message="patience is no duration of up to 720h: write hours, minutes and seconds, such as 90s",messageExpression="'patience %s is no duration of up to 720h: write hours, minutes and seconds, such as 90s'.format([self])"
	Patience string `json:"patience,omitempty"`
}

// WaveHTTP is an address that the hub asks with GET, without credentials. Redirects are not followed, and more than 64
// KiB is no answer. Addresses of the hub's own machine and of its link are refused unless the hub's flag
// --checks-reach-local lets them.
type WaveHTTP struct {
	// url to ask, of the scheme http or https.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#\\\\x40\\\\s]+([/?#][^\\\\s]*)?$') && isURL(self)",message="url is no address that can be asked: write http:// or https://, a host, and a path, without a user's name",messageExpression="'url %s is no address that can be asked: write http:// or https://, a host, and a path, without a user\\'s name'.format([self])"
	URL string `json:"url"`
	// expression in CEL that is true where the check holds. Its variables are status (the number of the answer), text
	// (what was answered) and json (the same read as JSON, null where it is none). Default: status == 200
	// +optional
	// +kubebuilder:default="status == 200"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
	// interval between an answer and the next question, from 5s to 24h. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="interval is no duration from 5s to 24h: write hours, minutes and seconds, such as 30s",messageExpression="'interval %s is no duration from 5s to 24h: write hours, minutes and seconds, such as 30s'.format([self])"
	Interval string `json:"interval,omitempty"`
	// timeout is how long an answer may take, from 1s to 1m. Default 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,3}$') && duration(self) >= duration('1s') && duration(self) <= duration('1m')",message="timeout is no duration from 1s to 1m: write seconds, such as 10s",messageExpression="'timeout %s is no duration from 1s to 1m: write seconds, such as 10s'.format([self])"
	Timeout string `json:"timeout,omitempty"`
	// failureLimit is how many times in a row the check may not hold, or nothing may be answered; once more, and the wave
	// has failed. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	FailureLimit *int32 `json:"failureLimit,omitempty"`
	// caBundle are the authorities, as PEM in base64, that the server's certificate may be of. Default: those that the
	// hub's system trusts.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`
}

// WaveJob is a Job that has to succeed in each member of the wave.
type WaveJob struct {
	// template of the Job, as in a CronJob: metadata with labels and annotations, and the spec of a Job. It is made in the
	// workload's namespace of each member of the wave, once all pods of the wave are updated and available, and removed
	// when the wave is over.
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
}

// WaveProgress is how far the waves of an update are. It changes only with what it says, never with time alone.
type WaveProgress struct {
	// number of the wave under way, from 1; one more than of when all waves are over.
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number"`
	// of is how many waves there are.
	// +kubebuilder:validation:Minimum=1
	Of int32 `json:"of"`
	// name of the wave under way, empty when all are over.
	// +optional
	Name string `json:"name,omitempty"`
	// since is when the wave began, or went on after it was held.
	Since metav1.Time `json:"since"`
	// steps is true if these are the steps of the policy, and no waves. The name is the partition then.
	// +optional
	Steps bool `json:"steps,omitempty"`
	// limit is the most nodes that a job may touch up to the end of the batch under way; absent where these are no batches
	// of a job. Steps is true then, and the name is how many nodes were left for later batches when the batch began.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Limit int32 `json:"limit,omitempty"`
	// from is the revision that the update leaves: that of the last template whose update was over. A change back to it
	// goes in no waves.
	// +optional
	From string `json:"from,omitempty"`
	// settled is since when all pods of the wave are updated and available; absent while they are not. It is put off by
	// the time in which nobody watched.
	// +optional
	Settled *metav1.Time `json:"settled,omitempty"`
	// watched is until when the hub is known to have watched the wave since it was settled. It is written now and then
	// only.
	// +optional
	Watched *metav1.Time `json:"watched,omitempty"`
	// unheard is true while a member of the wave is not heard of: the time from watched on does not count for the soak.
	// +optional
	Unheard bool `json:"unheard,omitempty"`
	// unmet is since when a check does not hold; absent while all hold.
	// +optional
	Unmet *metav1.Time `json:"unmet,omitempty"`
	// checks are what was found of the checks of the wave under way.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Checks []WaveChecked `json:"checks,omitempty"`
	// jobs are those that the checks of the wave under way have in its members.
	// +optional
	// +listType=map
	// +listMapKey=check
	// +kubebuilder:validation:MaxItems=16
	Jobs []WaveRun `json:"jobs,omitempty"`
	// held is true while the workload is paused, or its partition lets no more pods be updated.
	// +optional
	Held bool `json:"held,omitempty"`
	// failed says when and why the wave failed; absent while it has not.
	// +optional
	Failed *WaveFailed `json:"failed,omitempty"`
	// template that a rollback gives to members: that of the revision from. Absent where none is to be made.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *runtime.RawExtension `json:"template,omitempty"`
	// rolledBack is the revision of the template that failed and that members are not to run; absent while there is none.
	// +optional
	RolledBack string `json:"rolledBack,omitempty"`
}

// WaveChecked is what was found of a check.
type WaveChecked struct {
	// name of the check.
	Name string `json:"name"`
	// holds tells whether it holds.
	Holds bool `json:"holds"`
	// since is since when it does, or does not.
	Since metav1.Time `json:"since"`
	// says what was found. Of a check by HTTP it is what was answered at the time at; answers that say no more than it
	// held before are not told.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Says string `json:"says,omitempty"`
	// at is when the answer came, of a check by HTTP.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// failures is how many times in a row a check by HTTP did not hold.
	// +optional
	Failures int32 `json:"failures,omitempty"`
}

// WaveRun is the Job of a check.
type WaveRun struct {
	// check that the Job is of.
	Check string `json:"check"`
	// name of the Job.
	Name string `json:"name"`
	// clusters that have it.
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	Clusters []string `json:"clusters"`
	// template of the Job.
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
}

// WaveFailed says when and why a wave failed.
type WaveFailed struct {
	// at is when it failed.
	At metav1.Time `json:"at"`
	// message says why.
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
}
