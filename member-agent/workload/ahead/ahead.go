// Package ahead has nodes pull the images of an update in place before the update gets to their pods, by
// ImagePullJobs.
package ahead

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// fewPods is for how many replicas no image is pulled ahead: the update is over as soon.
	fewPods = 3
	// retryAhead is how soon pulls ahead that were refused are tried again.
	retryAhead = 30 * time.Second
	// The published annotations of kinds without fields for that.
	annotationAheadParallelism = "apps.kruise.io/image-predownload-parallelism"
	annotationAheadTimeout     = "apps.kruise.io/image-predownload-timeout-seconds"
	annotationAheadMinReady    = "apps.kruise.io/image-predownload-min-updated-ready-pods"
)

// Wish is what a workload that updates pods in place says about images that are pulled before its pods get there.
type Wish struct {
	// Parallelism is on how many nodes an image is pulled at a time; nil: the workload asks for no pulls.
	Parallelism *intstr.IntOrString
	// Timeout of a pull in seconds, nil for the default.
	Timeout *int32
	// MinUpdatedReady is how many updated pods must be ready first, a number or a percentage of all pods.
	MinUpdatedReady intstr.IntOrString
	Kind            schema.GroupVersionKind
	Selector        *metav1.LabelSelector
	Revisions       workload.Revisions
	Pods            []*corev1.Pod
	// InPlace: the policy updates pods in place. AtOnce: all pods may be updated at once.
	InPlace, AtOnce bool
}

// Of reads what an object asks for: by the fields of its strategy, or else by the published annotations. Texts that
// are no numbers count as not given. A percentage of updated pods is an annotation even beside the fields, because the
// field takes numbers only.
func Of(object metav1.Object, strategy *v1beta1.InPlaceUpdateStrategy) (a Wish) {
	annotations := object.GetAnnotations()
	if least, ok := numberOrPercent(annotations[annotationAheadMinReady]); ok {
		a.MinUpdatedReady = least
	}
	if strategy != nil && strategy.ImagePreDownloadParallelism != nil {
		a.Parallelism, a.Timeout = strategy.ImagePreDownloadParallelism, strategy.ImagePreDownloadTimeoutSeconds
		if least := strategy.ImagePreDownloadMinUpdatedReadyPods; least != nil {
			a.MinUpdatedReady = intstr.FromInt32(*least)
		}
		return a
	}
	if value, ok := numberOrPercent(annotations[annotationAheadParallelism]); ok {
		a.Parallelism = &value
	}
	if n, err := strconv.ParseInt(annotations[annotationAheadTimeout], 10, 32); err == nil && n > 0 {
		a.Timeout = new(int32(n))
	}
	return a
}

// numberOrPercent reads a number of 0 or more, or a percentage.
func numberOrPercent(text string) (intstr.IntOrString, bool) {
	value := intstr.Parse(text)
	_, err := budget.Scaled(value, 100, budget.Up)
	return value, err == nil
}

// State is what is known of the pulls for an object.
type State struct {
	// made is the revision for which jobs were made; clean: no jobs are left.
	made  string
	clean bool
}

// images returns the images of the update revision that pods of others lack, by container; and whether all pods have
// the update revision.
func (a *Wish) images() (images map[string]string, updated bool, err error) {
	images, updated = map[string]string{}, true
	ready := int32(0)
	moves := workload.Moves{Revisions: a.Revisions}
	for _, pod := range a.Pods {
		if history.ShortName(pod.Labels[podset.LabelRevision]) == a.Revisions.Update.Hash {
			if podstate.Ready(pod) {
				ready++
			}
			continue
		}
		updated = false
		move, err := moves.Of(pod, a.Revisions.Update)
		if err != nil {
			return nil, false, err
		}
		if move.Refusal == "" {
			for container, image := range move.Change.Images {
				images[container] = image
			}
		}
	}
	least, err := budget.Scaled(a.MinUpdatedReady, int32(len(a.Pods)), budget.Up)
	if err != nil {
		return nil, false, fmt.Errorf("read how many updated pods must be ready before images are pulled ahead: %w", err)
	}
	if !a.InPlace || a.AtOnce || len(a.Pods) <= fewPods || ready < least {
		images = nil
	}
	return images, updated, nil
}

// job returns the job that pulls the image of a container onto the nodes of pods without the update revision.
func (a *Wish) job(owner metav1.Object, container, image string) *v1beta1.ImagePullJob {
	update := a.Revisions.Update
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), Name: update.Name + "-" + container,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, a.Kind)},
	}}
	job.Spec.Image, job.Spec.Parallelism = image, a.Parallelism
	job.Spec.PodSelector = a.Selector.DeepCopy()
	job.Spec.PodSelector.MatchExpressions = append(job.Spec.PodSelector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: podset.LabelRevision, Operator: metav1.LabelSelectorOpNotIn, Values: []string{update.Name, update.Hash}})
	if a.Timeout != nil {
		job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: a.Timeout}
	}
	for _, secret := range update.Template.Spec.ImagePullSecrets {
		job.Spec.PullSecrets = append(job.Spec.PullSecrets, secret.Name)
	}
	return job
}

// Pull makes an ImagePullJob for each image that an update in place brings, before the update gets to its pods,
// and deletes the jobs when all pods are updated, or another revision is the update. It fails no pass: an event says
// what is refused, and it is tried again.
func Pull[T client.Object, M any](
	ctx context.Context, c *workload.Controller[T, M], p *workload.Pass[T, M], state *State, a Wish,
) {
	if a.Parallelism == nil || p.Leaving != nil || p.Stalled != nil || a.Revisions.Update.Template == nil {
		return
	}
	images, updated, err := a.images()
	switch {
	case err != nil:
	case updated && state.clean, !updated && len(images) == 0, state.made == a.Revisions.Update.Name && !updated:
		return
	default:
		err = bring(ctx, c, p, a, images)
	}
	if err != nil {
		c.Events.Eventf(p.Object, nil, corev1.EventTypeWarning, "FailedCreateImagePullJob", "PullAhead", "%s",
			workload.Note(err))
		p.Sooner(retryAhead)
		return
	}
	*state = State{made: a.Revisions.Update.Name, clean: updated}
}

// bring brings the jobs of the object to these images.
func bring[T client.Object, M any](
	ctx context.Context, c *workload.Controller[T, M], p *workload.Pass[T, M], a Wish, images map[string]string,
) error {
	var have v1beta1.ImagePullJobList
	err := c.Live.List(ctx, &have, client.InNamespace(p.Key.Namespace))
	if meta.IsNoMatchError(err) && len(images) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the ImagePullJobs of its namespace: %w", err)
	}
	wanted := map[string]*v1beta1.ImagePullJob{}
	for container, image := range images {
		job := a.job(p.Object, container, image)
		wanted[job.Name] = job
	}
	for i := range have.Items {
		job := &have.Items[i]
		if _, keep := wanted[job.Name]; keep || !metav1.IsControlledBy(job, p.Object) {
			delete(wanted, job.Name)
			continue
		}
		err := c.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete ImagePullJob %s: %w", job.Name, err)
		}
	}
	names := make([]string, 0, len(wanted))
	for name, job := range wanted {
		if err := c.Client.Create(ctx, job, workload.FieldOwner); err != nil {
			return fmt.Errorf("create ImagePullJob %s: %w", name, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, "CreatedImagePullJob", "PullAhead",
			"created ImagePullJob %s: nodes pull the image before their pods are updated", name)
	}
	return nil
}
