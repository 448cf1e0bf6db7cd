package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// inFlight is how many NodeImages a pass writes at a time.
const inFlight = 8

// request has the nodes of the plan pull.
func (r *Reconciler) request(ctx context.Context, s *scope) (bool, error) {
	if len(s.plan.Request) == 0 {
		return true, nil
	}
	if s.facts.Pods {
		now := r.Clock.Now()
		steps := write.Steps{N: len(s.plan.Request), Start: s.Width(now), Limit: write.InFlight}
		done, err := write.SlowStart(ctx, steps, func(i int) error {
			return r.createPod(ctx, s, s.plan.Request[i].Node)
		})
		r.CreateFailed(s.pass, err, "the job")
		s.Reached(done, r.Clock.Now())
		r.TurnAway(s.pass, nil)
		return true, nil
	}
	var mu sync.Mutex
	var failed []error
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, request := range s.plan.Request {
		group.Go(func() error {
			if err := r.ask(ctx, s, request.Node); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // one node that cannot be written keeps no other one from its pull
	s.Fail(reasonFailedNodeImage, errors.Join(failed...))
	return true, nil
}

// finalize takes the finalizer off that an OpenKruise manager put on a job: copies of Secrets go without one.
func (r *Reconciler) finalize(ctx context.Context, s *scope) (bool, error) {
	taken, err := workload.TakeFinalizer(ctx, r.Client, s.job, v1beta1.FinalizerImagePullJob)
	return !taken, err
}

// ask writes the entry of the job to the NodeImage of a node. One that is gone meanwhile is no error.
func (r *Reconciler) ask(ctx context.Context, s *scope, node string) error {
	err := r.images.Change(ctx, node, func(image *v1beta1.NodeImage) {
		tag := s.facts.Entry(&s.plan.Status, s.nodeOf(image))
		spec := image.Spec.Images[s.image]
		spec.SandboxConfig = s.job.Spec.SandboxConfig
		for _, secret := range s.secrets {
			if !slices.Contains(spec.PullSecrets, secret) {
				spec.PullSecrets = append(slices.Clone(spec.PullSecrets), secret)
			}
		}
		spec.Tags = slices.DeleteFunc(slices.Clone(spec.Tags), func(t v1beta1.ImageTagSpec) bool { return t.Tag == s.tag })
		spec.Tags = append(spec.Tags, tag)
		slices.SortFunc(spec.Tags, func(a, b v1beta1.ImageTagSpec) int { return strings.Compare(a.Tag, b.Tag) })
		if image.Spec.Images == nil {
			image.Spec.Images = map[string]v1beta1.ImageSpec{}
		}
		image.Spec.Images[s.image] = spec
	})
	return ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// release takes away what the status remembers, or does not need: pods that have ended, and entries of nodes that the
// job selects no longer. All other entries go with the controller of NodeImages. It deletes a job whose time to live is
// over.
func (r *Reconciler) release(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil || s.Stalled != nil {
		return true, nil
	}
	if s.plan.Delete {
		return false, r.expire(ctx, s)
	}
	if s.facts.Pods {
		for _, pod := range s.replaced {
			if pod.DeletionTimestamp == nil {
				s.Fail(reasonFailedDeletePod, r.Writer.DeletePod(ctx, s.job.UID, pod))
			}
		}
		for _, node := range s.plan.Release {
			if pull := s.pods[node]; pull != nil && !pull.terminating {
				s.Fail(reasonFailedDeletePod, r.Writer.DeletePod(ctx, s.job.UID, pull.pod))
			}
		}
		return true, nil
	}
	if s.plan.Status.CompletionTime != nil {
		return true, nil
	}
	for _, node := range s.plan.Release {
		if _, failed := slices.BinarySearch(s.plan.Status.FailedNodes, node); failed {
			continue
		}
		s.Fail(reasonFailedNodeImage, ignoreGone(r.images.Change(ctx, node, s.leave)))
	}
	return true, nil
}

// leave takes the job from its entry of a NodeImage.
func (s *scope) leave(image *v1beta1.NodeImage) {
	spec, ok := image.Spec.Images[s.image]
	if !ok {
		return
	}
	var tags []v1beta1.ImageTagSpec
	for _, tag := range spec.Tags {
		if tag.Tag == s.tag && owns(s.job, &tag) {
			tag.OwnerReferences = slices.DeleteFunc(slices.Clone(tag.OwnerReferences),
				func(r v1beta1.JobReference) bool { return r.UID == s.job.UID })
			if len(tag.OwnerReferences) == 0 {
				continue
			}
		}
		tags = append(tags, tag)
	}
	if len(tags) == 0 {
		delete(image.Spec.Images, s.image)
		return
	}
	spec.Tags = tags
	image.Spec.Images[s.image] = spec
}

// expire deletes the job after its time to live.
func (r *Reconciler) expire(ctx context.Context, s *scope) error {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	err := r.Client.Delete(ctx, job, client.Preconditions{UID: &s.job.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete it after ttlSecondsAfterFinished: %w", err)
	}
	return nil
}
