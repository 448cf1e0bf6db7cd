package sidecarset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
)

const (
	// labelPullsFor is on jobs that pull images ahead of an update. Its value is the UID of the SidecarSet.
	labelPullsFor = "apps.flotilla.dev/sidecarset-uid"
	// fewPods is for how many pods no image is pulled ahead: the update is over as soon.
	fewPods = 3
	// retryAhead is how soon jobs that were refused are tried again.
	retryAhead = 30 * time.Second
)

// aheadState is what is known of the jobs of a SidecarSet.
type aheadState struct {
	// known: the jobs are those with these names.
	known bool
	names string
}

// pullAhead makes ImagePullJobs for the images that an update in place brings, in the namespaces of the pods: there the
// pull secrets are. It deletes the jobs of namespaces whose pods are updated, and those of other revisions. It fails no
// pass: an event says what is refused, and it is tried again.
func (r *Reconciler) pullAhead(ctx context.Context, s *scope) (bool, error) {
	wish := ahead.Of(s.set, nil)
	last := &s.Memory.ahead
	if s.Leaving != nil || s.Stalled != nil || s.latest == nil || wish.Parallelism == nil && last.names == "" {
		return true, nil
	}
	wanted, err := s.jobsAhead(&wish)
	names := strings.Join(slices.Sorted(maps.Keys(wanted)), " ")
	if err == nil && last.known && last.names == names {
		return true, nil
	}
	if err == nil {
		err = r.bringAhead(ctx, s, wanted)
	}
	if err != nil {
		r.Events.Eventf(s.set, nil, corev1.EventTypeWarning, "FailedCreateImagePullJob", "PullAhead", "%s",
			workload.Note(err))
		s.Sooner(retryAhead)
		return true, nil
	}
	*last = aheadState{known: true, names: names}
	return true, nil
}

// jobsAhead returns the jobs that there are to be, by namespace/name.
func (s *scope) jobsAhead(wish *ahead.Wish) (map[string]*v1beta1.ImagePullJob, error) {
	counts := &s.plan.Counts
	least, err := budget.Scaled(wish.MinUpdatedReady, counts.Matched, budget.Up)
	if err != nil {
		return nil, fmt.Errorf("read how many updated pods must be ready before images are pulled ahead: %w", err)
	}
	if wish.Parallelism == nil || counts.Matched <= fewPods || counts.UpdatedReady < least || s.atOnce() {
		return nil, nil
	}
	jobs := map[string]*v1beta1.ImagePullJob{}
	for namespace, images := range s.plan.Ahead {
		for container, image := range images {
			job := s.jobAhead(wish, namespace, container, image)
			jobs[namespace+"/"+job.Name] = job
		}
	}
	return jobs, nil
}

// atOnce reports whether all pods may be updated at once: their images are pulled as soon.
func (s *scope) atOnce() bool {
	matched := s.plan.Counts.Matched
	if grant := s.grant(); grant != nil {
		return grant.Updated >= matched && grant.Unavailable >= matched
	}
	strategy := &s.set.Spec.UpdateStrategy
	limit := func(value *intstr.IntOrString, absent int32) int32 {
		if value == nil {
			return absent
		}
		n, err := budget.Scaled(*value, matched, budget.Up)
		if err != nil {
			return absent // the plan says what is wrong
		}
		return n
	}
	return limit(strategy.Partition, 0) == 0 && limit(strategy.MaxUnavailable, 1) >= matched
}

// jobAhead returns the job that pulls the image of a sidecar onto the nodes of the pods of a namespace.
func (s *scope) jobAhead(wish *ahead.Wish, namespace, container, image string) *v1beta1.ImagePullJob {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: s.latest.Name + "-" + container, Labels: map[string]string{labelPullsFor: string(s.set.UID)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.set, v1beta1.SidecarSetKind)},
	}}
	job.Spec.Image, job.Spec.Parallelism = image, wish.Parallelism
	job.Spec.PodSelector = s.set.Spec.Selector.DeepCopy()
	if wish.Timeout != nil {
		job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: wish.Timeout}
	}
	for _, secret := range s.set.Spec.ImagePullSecrets {
		job.Spec.PullSecrets = append(job.Spec.PullSecrets, secret.Name)
	}
	return job
}

// bringAhead creates the jobs that are missing, and deletes the others of the SidecarSet.
func (r *Reconciler) bringAhead(ctx context.Context, s *scope, wanted map[string]*v1beta1.ImagePullJob) error {
	var have v1beta1.ImagePullJobList
	err := r.Live.List(ctx, &have, client.MatchingLabels{labelPullsFor: string(s.set.UID)})
	if meta.IsNoMatchError(err) && len(wanted) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the ImagePullJobs of SidecarSet %s: %w", s.set.Name, err)
	}
	there := map[string]bool{}
	for i := range have.Items {
		job := &have.Items[i]
		key := job.Namespace + "/" + job.Name
		if there[key] = wanted[key] != nil; there[key] || !metav1.IsControlledBy(job, s.set) {
			continue
		}
		err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete ImagePullJob %s: %w", key, err)
		}
	}
	created := 0
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if there[key] {
			continue
		}
		err := r.Client.Create(ctx, wanted[key], workload.FieldOwner)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ImagePullJob %s: %w", key, err)
		}
		created++
	}
	if created > 0 {
		r.Events.Eventf(s.set, nil, corev1.EventTypeNormal, "CreatedImagePullJob", "PullAhead",
			"created %d ImagePullJobs of revision %s: nodes pull images before their pods are updated", created, s.latest.Name)
	}
	return nil
}
