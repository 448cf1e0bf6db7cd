package broadcastjob

import (
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// batchesOf returns the batches of a job, nil for none.
func batchesOf(job *v1beta1.BroadcastJob) *v1beta1.BroadcastJobBatches {
	if job.Spec.Flotilla == nil {
		return nil
	}
	return job.Spec.Flotilla.Batches
}

// templateMistake says which template of the job cannot be decoded, nil if all can.
func templateMistake(job *v1beta1.BroadcastJob) *conditions.Cause {
	spec := field.NewPath("spec")
	err := job.Spec.Template.Err(spec.Child("template"))
	if batches := batchesOf(job); batches != nil {
		for i := range batches.Checks {
			if pod := batches.Checks[i].Pod; pod != nil && err == nil {
				path := spec.Child("flotilla", "batches", "checks").Key(batches.Checks[i].Name)
				err = pod.Template.Err(path.Child("pod", "template"))
			}
		}
	}
	if err == nil {
		return nil
	}
	return &conditions.Cause{Reason: workload.ReasonInvalidTemplate, Message: err.Error()}
}

// policy translates the spec for so many nodes. The cause says what is wrong with a field that the schema let through;
// such a field permits nothing.
func policy(job *v1beta1.BroadcastJob, desired int) (completions.Policy, *conditions.Cause) {
	spec := &job.Spec
	p := completions.Policy{
		RestartLimit: int(spec.FailurePolicy.RestartLimit), Paused: spec.Paused,
		Endless:  spec.CompletionPolicy.Type == v1beta1.NeverCompletionPolicyType,
		Deadline: seconds(spec.CompletionPolicy.ActiveDeadlineSeconds),
	}
	if ttl := spec.CompletionPolicy.TTLSecondsAfterFinished; ttl != nil {
		p.TimeToLive = new(time.Duration(*ttl) * time.Second)
	}
	switch spec.FailurePolicy.Type {
	case v1beta1.ContinueFailurePolicyType:
		p.Failure = completions.Continue
	case v1beta1.PauseFailurePolicyType:
		p.Failure = completions.Pause
	}
	var cause *conditions.Cause
	scaled := func(name string, value intstr.IntOrString) int {
		amount, err := budget.Scaled(value, int32(desired), budget.Up)
		if err != nil && cause == nil {
			cause = &conditions.Cause{Reason: "InvalidStrategy", Message: name + " " + err.Error()}
		}
		return int(amount)
	}
	p.Parallelism = scaled("parallelism", ptr.Deref(spec.Parallelism, intstr.FromInt32(math.MaxInt32)))
	if batches := batchesOf(job); batches != nil {
		p.Batches = &completions.Batches{Size: scaled("flotilla.batches.size", batches.Size),
			Soak: durationOf(batches.Soak, 0)}
	}
	return p, cause
}

// obey makes the order of a hub hold in place of the user's parallelism, which is one over all clusters. Pods of checks
// keep to the user's parallelism here.
func (f *Facts) obey() {
	amounts := f.Budget.Amounts
	if f.CheckPodsAtOnce = f.Policy.Parallelism; amounts == nil {
		return
	}
	f.Policy.Parallelism = int(max(amounts.Unavailable, 0))
	f.Policy.TimeToLive = nil // the hub deletes the job
	f.Policy.Order = &completions.Order{Touch: int(max(amounts.Updated, 0)), Nodes: int(max(amounts.Nodes, 0)),
		Batch: int(max(amounts.Batch, 0)), Waiting: amounts.Paused || f.Budget.Expired, Ended: amounts.Ended}
}

func seconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	return new(time.Duration(min(*n, int64(math.MaxInt64/time.Second))) * time.Second)
}

// durationOf reads a duration that the schema has checked.
func durationOf(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return otherwise
}

// resumed returns the time that the annotation names, zero for none. The mistake says why it cannot be read.
func resumed(job *v1beta1.BroadcastJob) (at time.Time, mistake string) {
	text, ok := job.Annotations[v1beta1.AnnotationResume]
	if !ok {
		return time.Time{}, ""
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Sprintf("annotation %s is %s, which is no time: write status.flotilla.halted.time",
			v1beta1.AnnotationResume, workload.Quote(text))
	}
	return at, ""
}

// promoted returns the batch that the annotation names, 0 for none.
func promoted(job *v1beta1.BroadcastJob) int {
	number, err := strconv.Atoi(job.Annotations[v1beta1.AnnotationPromote])
	if err != nil {
		return 0 // another text promotes nothing
	}
	return number
}

// progressOf reads the progress from the status.
func progressOf(status *v1beta1.BroadcastJobStatus) completions.Progress {
	p := completions.Progress{Started: timeOf(status.StartTime), Ended: timeOf(status.CompletionTime)}
	f := status.Flotilla
	if f == nil {
		return p
	}
	p.Batch, p.BatchStarted, p.Settled = int(f.Batch), timeOf(f.BatchTime), timeOf(f.SoakTime)
	p.Left, p.Excused, p.ChecksExcused = int(f.Left), int(f.ExcusedFailures), f.ExcusedChecks
	if f.Halted != nil {
		p.Halted = &completions.Halt{Time: f.Halted.Time.Time, Cause: completions.Cause(f.Halted.Reason),
			Message: f.Halted.Message}
	}
	return p
}

// setProgress writes the progress to the status.
func setProgress(status *v1beta1.BroadcastJobStatus, p completions.Progress) {
	status.StartTime, status.CompletionTime = stamp(p.Started), stamp(p.Ended)
	f := &v1beta1.BroadcastJobProgress{Batch: int32(p.Batch), BatchTime: stamp(p.BatchStarted), SoakTime: stamp(p.Settled),
		Left: int32(p.Left), ExcusedFailures: int32(p.Excused), ExcusedChecks: p.ChecksExcused}
	if p.Halted != nil {
		f.Halted = &v1beta1.BroadcastJobHalt{Time: metav1.NewTime(p.Halted.Time), Reason: string(p.Halted.Cause),
			Message: p.Halted.Message}
	}
	if status.Flotilla = f; *f == (v1beta1.BroadcastJobProgress{}) {
		status.Flotilla = nil
	}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}

// restartsOf counts the restarts of a pod's containers.
func restartsOf(pod *corev1.Pod) (n int) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			n += int(list[i].RestartCount)
		}
	}
	return n
}
