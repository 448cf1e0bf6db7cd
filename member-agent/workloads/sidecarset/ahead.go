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
	// known: the jobs are those with these names. begun: all of them were created.
	known, begun bool
	names        string
}

// pullAhead makes ImagePullJobs for the images that an update in place brings, in the namespaces of the pods: there the
// pull secrets are. It deletes the jobs of namespaces whose pods are updated, and those of other revisions. It fails no
// pass: an event says what is refused, and it is tried again.
func (r *Reconciler) pullAhead(ctx context.Context, s *scope) (bool, error) {
	wish := ahead.Of(s.set, nil)
	last := &s.Memory.ahead
	if s.Leaving != nil || s.Stalled != nil || s.latest == nil ||
		wish.Parallelism == nil && last.known && last.names == "" {
		return true, nil
	}
	wanted := s.jobsAhead(&wish)
	begin, err := s.beginAhead(&wish)
	names := strings.Join(slices.Sorted(maps.Keys(wanted)), " ")
	if err == nil && last.known && last.names == names && (last.begun || !begin) {
		return true, nil
	}
	if err == nil {
		err = r.bringAhead(ctx, s, wanted, begin)
	}
	if err != nil {
		r.Events.Eventf(s.set, nil, corev1.EventTypeWarning, "FailedCreateImagePullJob", "PullAhead", "%s",
			workload.Note(err))
		s.Sooner(retryAhead)
		return true, nil
	}
	*last = aheadState{known: true, names: names, begun: begin || names == ""}
	return true, nil
}

// jobsAhead returns the jobs that there may be, by namespace/name.
func (s *scope) jobsAhead(wish *ahead.Wish) map[string]*v1beta1.ImagePullJob {
	if wish.Parallelism == nil {
		return nil
	}
	jobs := map[string]*v1beta1.ImagePullJob{}
	for namespace, images := range s.plan.Ahead {
		for container, image := range images {
			job := s.jobAhead(wish, namespace, container, image)
			jobs[namespace+"/"+job.Name] = job
		}
	}
	return jobs
}

// beginAhead reports whether jobs are created. Those that exist stay where it reports false: pods that become not ready
// and ready again change nothing of them.
func (s *scope) beginAhead(wish *ahead.Wish) (bool, error) {
	counts := &s.plan.Counts
	least, err := budget.Scaled(wish.MinUpdatedReady, counts.Matched, budget.Up)
	if err != nil {
		return false, fmt.Errorf("read how many updated pods must be ready before images are pulled ahead: %w", err)
	}
	return counts.Matched > fewPods && counts.UpdatedReady >= least && !s.atOnce(), nil
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
		Namespace: namespace, Name: s.latest.Name + "-" + container,
		Labels:          map[string]string{labelPullsFor: string(s.set.UID)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.set, v1beta1.SidecarSetKind)},
	}}
	job.Spec.Image, job.Spec.Parallelism = image, wish.Parallelism
	job.Spec.PodSelector = both(s.set.Spec.Selector, s.set.Spec.UpdateStrategy.Selector)
	if wish.Timeout != nil {
		job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: wish.Timeout}
	}
	for _, secret := range s.set.Spec.ImagePullSecrets {
		job.Spec.PullSecrets = append(job.Spec.PullSecrets, secret.Name)
	}
	return job
}

// both returns a selector of what two selectors select; nil is one that selects all.
func both(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	if b == nil {
		return a.DeepCopy()
	}
	out := &metav1.LabelSelector{}
	for _, selector := range []*metav1.LabelSelector{a, b} {
		if selector == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
			out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{selector.MatchLabels[key]}})
		}
		out.MatchExpressions = append(out.MatchExpressions, selector.DeepCopy().MatchExpressions...)
	}
	return out
}

// bringAhead deletes the jobs of the SidecarSet that are not wanted, and if they begin, creates those that are missing.
func (r *Reconciler) bringAhead(
	ctx context.Context, s *scope, wanted map[string]*v1beta1.ImagePullJob, begin bool,
) error {
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
	if !begin {
		return nil
	}
	return r.createAhead(ctx, s, wanted, there)
}

// createAhead creates the jobs that are not there.
func (r *Reconciler) createAhead(
	ctx context.Context, s *scope, wanted map[string]*v1beta1.ImagePullJob, there map[string]bool,
) error {
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
