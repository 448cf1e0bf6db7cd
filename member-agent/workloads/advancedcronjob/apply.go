package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// conditionFailedCreateJob is True while the job of a tick cannot be created.
const conditionFailedCreateJob = "FailedCreateJob"

// failedDeleteJob is the reason of the event about a job that has ended and cannot be deleted.
const failedDeleteJob = "FailedDeleteJob"

// errNameTaken is returned where an object of another owner has the name of a job.
var errNameTaken = errors.New("its name is taken by a job that this AdvancedCronJob does not control: delete that job")

// apply carries out the plan: jobs are deleted before one is created.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	waits := s.plan.Start.IsZero()
	for _, d := range s.plan.Delete {
		err := r.remove(ctx, s, d)
		if !d.Replaced {
			s.Fail(failedDeleteJob, err) // that an old job is kept is no reason to start no new one
			continue
		}
		s.Fail(conditionFailedCreateJob, err)
		waits = waits || err != nil
	}
	if waits {
		return true, nil
	}
	err := r.start(ctx, s, s.plan.Start)
	switch {
	case err == nil:
		s.Memory.started = s.plan.Start
	case r.TurnAway(s.pass, err): // the namespace is being deleted
	case apierrors.IsInvalid(err):
		s.Stalled = &conditions.Cause{Reason: workload.ReasonInvalidTemplate, Message: fmt.Sprintf(
			"%v; the template cannot change: delete the AdvancedCronJob, and apply it again with one that can be used", err)}
	default:
		s.Fail(conditionFailedCreateJob, err)
	}
	return true, nil
}

// remove deletes a job. Its pods follow in the background.
func (r *Reconciler) remove(ctx context.Context, s *scope, d Deletion) error {
	uid := d.Object.GetUID()
	err := r.Client.Delete(ctx, d.Object, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s %s: %w", d.Kind.Kind, d.Object.GetName(), err)
	case d.Replaced:
		r.Events.Eventf(s.cron, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Delete",
			"deleted %s %s, because concurrencyPolicy is Replace and the next tick has come", d.Kind.Kind, d.Object.GetName())
	}
	return nil
}

// start creates the job of a tick. One that is there already is that job.
func (r *Reconciler) start(ctx context.Context, s *scope, tick time.Time) error {
	job := jobOf(s.cron, tick)
	kind := kindOf(&s.cron.Spec.Template)
	err := r.Client.Create(ctx, job, workload.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		return r.taken(ctx, s, job)
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", kind.Kind, job.GetName(), err)
	}
	r.Events.Eventf(s.cron, nil, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "created %s %s for the tick of %s",
		kind.Kind, job.GetName(), tick.UTC().Format(time.RFC3339))
	return nil
}

// taken returns an error if the job's name belongs to something else.
func (r *Reconciler) taken(ctx context.Context, s *scope, job client.Object) error {
	kind := kindOf(&s.cron.Spec.Template).Kind
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
		return fmt.Errorf("read %s %s, which exists: %w", kind, job.GetName(), err)
	}
	if ref := metav1.GetControllerOf(job); ref == nil || ref.UID != s.cron.UID {
		return fmt.Errorf("create %s %s: %w", kind, job.GetName(), errNameTaken)
	}
	return nil
}

// jobOf returns the job of a tick, ready to be created. Its name follows from the tick.
func jobOf(cron *v1beta1.AdvancedCronJob, tick time.Time) client.Object {
	meta := func(template metav1.ObjectMeta) metav1.ObjectMeta {
		annotations := maps.Clone(template.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1beta1.AnnotationScheduledAt] = tick.UTC().Format(time.RFC3339)
		return metav1.ObjectMeta{
			Namespace: cron.Namespace, Name: fmt.Sprintf("%s-%d", cron.Name, tick.Unix()),
			Labels: maps.Clone(template.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, v1beta1.AdvancedCronJobKind)},
		}
	}
	if t := cron.Spec.Template.BroadcastJobTemplate; t != nil {
		return &v1beta1.BroadcastJob{ObjectMeta: meta(t.ObjectMeta), Spec: *t.Spec.DeepCopy()}
	}
	if t := cron.Spec.Template.ImageListPullJobTemplate; t != nil {
		return &v1beta1.ImageListPullJob{ObjectMeta: meta(t.ObjectMeta), Spec: *t.Spec.DeepCopy()}
	}
	t := cron.Spec.Template.JobTemplate
	return &batchv1.Job{ObjectMeta: meta(t.ObjectMeta), Spec: *t.Spec.DeepCopy()}
}

// reference returns the job as status.active names it.
func reference(job Job) v1beta1.JobReference {
	version, kind := job.Kind.ToAPIVersionAndKind()
	return v1beta1.JobReference{APIVersion: version, Kind: kind, Namespace: job.Object.GetNamespace(),
		Name: job.Object.GetName(), UID: job.Object.GetUID()}
}

func paused(cron *v1beta1.AdvancedCronJob) bool { return ptr.Deref(cron.Spec.Paused, false) }
