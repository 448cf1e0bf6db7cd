package imagelistpulljob

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// errNameTaken is returned where an object of another owner has the name of a child.
var errNameTaken = errors.New("its name is taken by a job that this ImageListPullJob does not control: delete that job")

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
		s.Fail(reasonFailedCreateJob, r.remove(ctx, &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
			Namespace: child.Namespace, Name: child.Name, UID: child.UID}}))
	}
	created := 0
	for _, child := range s.plan.Create {
		err := r.create(ctx, s, child)
		if r.TurnAway(s.pass, err) {
			return true, nil
		}
		if s.Fail(reasonFailedCreateJob, err); err != nil {
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
