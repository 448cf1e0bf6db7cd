package imagelistpulljob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The reasons of conditions beside those of all kinds.
const (
	reasonPulled     = "Pulled"
	reasonPulling    = "Pulling"
	reasonPullFailed = "PullFailed"
	reasonNodesDone  = "NodesDone"
	// conditionFailedCreateJob says that an ImagePullJob cannot be created or deleted.
	conditionFailedCreateJob = "FailedCreateJob"
)

// errNameTaken is returned where an object of another owner has the name of a child.
var errNameTaken = errors.New("its name is taken by a job that this ImageListPullJob does not control: delete that job")

// Reconciler makes the ImagePullJobs of ImageListPullJobs.
type Reconciler struct {
	*workload.Controller[*v1beta1.ImageListPullJob, memory]
}

// memory is what a job remembers between passes.
type memory struct{}

type pass = workload.Pass[*v1beta1.ImageListPullJob, memory]

// scope is one pass over one job.
type scope struct {
	*pass
	job  *v1beta1.ImageListPullJob
	plan Plan
}

// Add adds the controller of ImageListPullJobs to the manager.
func Add(_ context.Context, env *workload.Env) error {
	r := &Reconciler{}
	b := workload.For(env, workload.Kind[*v1beta1.ImageListPullJob, memory]{
		GVK:     v1beta1.ImageListPullJobKind,
		New:     func() *v1beta1.ImageListPullJob { return &v1beta1.ImageListPullJob{} },
		NewList: func() client.ObjectList { return &v1beta1.ImageListPullJobList{} },
		Workers: 4,
		Phases: func(p *pass) []workload.Phase {
			return workload.Phases(&scope{pass: p, job: p.Object}, r.decide, r.apply, r.report)
		},
	})
	r.Controller = b.Controller
	b.Owns(&v1beta1.ImagePullJob{})
	return b.Complete()
}

// decide reads the children and makes the plan. A job that is being deleted has none.
func (r *Reconciler) decide(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	facts := Facts{Job: s.job, Now: r.Clock.Now()}
	var list v1beta1.ImagePullJobList
	err := r.Client.List(ctx, &list, client.InNamespace(s.job.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("list its ImagePullJobs: %w", err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.job) {
			facts.Children = append(facts.Children, &list.Items[i])
		}
	}
	if s.plan, err = Make(facts); err == nil && !s.plan.Next.IsZero() {
		s.Sooner(max(s.plan.Next.Sub(facts.Now), time.Second))
	}
	return true, err
}

// apply carries out the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	if s.plan.Expired {
		return false, r.remove(ctx, &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.job.Namespace, Name: s.job.Name, UID: s.job.UID}})
	}
	for _, child := range s.plan.Delete {
		s.Fail(conditionFailedCreateJob, r.remove(ctx, &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
			Namespace: child.Namespace, Name: child.Name, UID: child.UID}}))
	}
	created := 0
	for _, child := range s.plan.Create {
		err := r.create(ctx, s, child)
		if r.TurnAway(s.pass, err) {
			return true, nil
		}
		if s.Fail(conditionFailedCreateJob, err); err != nil {
			break // what refuses one job refuses the others too
		}
		created++
	}
	if created > 0 {
		r.Events.Eventf(s.job, nil, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "created %d ImagePullJobs", created)
	}
	return true, nil
}

// create creates the job of an image. One that is there already is that job.
func (r *Reconciler) create(ctx context.Context, s *scope, child *v1beta1.ImagePullJob) error {
	err := r.Client.Create(ctx, child, workload.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		have := &v1beta1.ImagePullJob{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(child), have); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read ImagePullJob %s, which exists: %w", child.Name, err)
		}
		if metav1.IsControlledBy(have, s.job) {
			return nil
		}
		err = errNameTaken
	}
	if err != nil {
		return fmt.Errorf("create ImagePullJob %s: %w", child.Name, err)
	}
	return nil
}

// remove deletes an object. What it owns follows in the background.
func (r *Reconciler) remove(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", object.GetName(), err)
	}
	return nil
}

// report records the events of the pass and writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, s *scope) (bool, error) {
	for condition, err := range s.Failed() {
		r.Events.Eventf(s.job, nil, corev1.EventTypeWarning, condition, "Retry", "%s", workload.Note(err))
	}
	have, now := &s.job.Status, metav1.NewTime(r.Clock.Now())
	want := have.DeepCopy()
	if s.Leaving == nil {
		want = s.plan.Status.DeepCopy()
	}
	want.ObservedGeneration = s.job.Generation
	if have.CompletionTime == nil || s.Leaving != nil {
		for _, c := range s.conditions(want) {
			c.ObservedGeneration, c.LastTransitionTime = s.job.Generation, now
			meta.SetStatusCondition(&want.Conditions, c)
		}
	}
	counters := slices.EqualFunc(have.Conditions, want.Conditions, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
	}) && have.ObservedGeneration == want.ObservedGeneration && have.CompletionTime.Equal(want.CompletionTime)
	err := r.Report(ctx, s.pass, workload.Status{Have: have, Want: want, CountersOnly: counters})
	if err == nil && have.CompletionTime == nil && want.CompletionTime != nil && s.Leaving == nil {
		kind := corev1.EventTypeNormal
		if want.Succeeded < want.Desired {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(s.job, nil, kind, "JobComplete", "Complete", "%d of %d images are on all nodes", want.Succeeded,
			want.Desired)
	}
	return err == nil, err
}

// conditions returns Ready, Reconciling and Stalled.
func (s *scope) conditions(status *v1beta1.ImageListPullJobStatus) []metav1.Condition {
	ready := metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse}
	reconciling := metav1.Condition{Type: v1beta1.ConditionReconciling, Status: metav1.ConditionFalse,
		Message: "nothing is in progress"}
	stalled := metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionFalse,
		Reason: conditions.ReasonNotStalled, Message: "no one has to act"}
	cause := conditions.Cause{Reason: reasonPulling, Message: fmt.Sprintf(
		"%d of %d images are on all nodes, the pulls of %d have not ended", status.Succeeded, status.Desired,
		status.Desired-status.Completed)}
	never := s.job.Spec.CompletionPolicy.Type == v1beta1.NeverCompletionPolicyType
	switch {
	case s.Leaving != nil:
		cause = conditions.Cause{Reason: s.Leaving.Reason, Message: s.Leaving.Message}
		reconciling.Status = metav1.ConditionTrue
	case s.Failed()[conditionFailedCreateJob] != nil:
		cause = conditions.Cause{Reason: conditionFailedCreateJob,
			Message: workload.Text(s.Failed()[conditionFailedCreateJob])}
		reconciling.Status = metav1.ConditionTrue
	case status.Completed < status.Desired:
		reconciling.Status = metav1.ConditionTrue
	case status.Succeeded < status.Desired:
		first := status.FailedImageStatuses[0]
		cause = conditions.Cause{Reason: reasonPullFailed, Message: fmt.Sprintf("%d of %d images are on all nodes; %s is not: "+
			"see ImagePullJob %s", status.Succeeded, status.Desired, first.Name, first.ImagePullJob)}
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, cause.Reason, cause.Message
	case never:
		cause = conditions.Cause{Reason: reasonNodesDone, Message: "all images are on all nodes; completionPolicy.type is " +
			"Never, so the job waits for more nodes"}
		ready.Status = metav1.ConditionTrue
	default:
		cause = conditions.Cause{Reason: reasonPulled, Message: fmt.Sprintf("all %d images are on all nodes", status.Desired)}
		ready.Status = metav1.ConditionTrue
	}
	ready.Reason, ready.Message, reconciling.Reason = cause.Reason, cause.Message, cause.Reason
	if reconciling.Status == metav1.ConditionTrue {
		reconciling.Message = cause.Message
	}
	return []metav1.Condition{ready, reconciling, stalled}
}
