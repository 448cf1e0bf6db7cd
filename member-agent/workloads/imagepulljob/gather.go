package imagepulljob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
)

// gather reads the nodes, and how far the pull on each of them is. A job that has ended needs none of that.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	s.facts = Facts{Job: s.job, Nodes: map[string]Node{}, Granted: s.granted(), Now: r.Clock.Now()}
	if amounts := s.Budget.Amounts; amounts != nil {
		s.facts.Touch = new(max(amounts.Updated, 0))
	}
	s.image, s.tag = nodeimages.SplitImage(s.job.Spec.Image)
	s.messages = map[string]string{}
	if s.Leaving != nil {
		return true, nil
	}
	labels, err := r.gatherNodes(ctx, s)
	if err != nil || s.job.Status.CompletionTime != nil {
		return err == nil, err
	}
	var pods []*corev1.Pod
	if s.job.Spec.PodSelector != nil {
		if pods, err = r.podsIn(ctx, s.job.Namespace); err != nil {
			return false, err
		}
	}
	if s.facts.Selected, err = Select(&s.job.Spec, labels, pods); err != nil {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidSelector, Message: err.Error()}
	}
	return true, nil
}

// gatherNodes reads what is known of the pulls, and returns the labels of the nodes that can pull. What daemons were
// asked for a job that has ended is of no interest: the controller of NodeImages takes it away.
func (r *Reconciler) gatherNodes(ctx context.Context, s *scope) (map[string]map[string]string, error) {
	by := askedBy(s.job)
	if s.job.Status.CompletionTime != nil && by != v1beta1.PullByPod {
		return nil, nil
	}
	var images []*v1beta1.NodeImage
	if by != v1beta1.PullByPod {
		var err error
		if images, err = r.images.All(ctx); err != nil {
			return nil, err
		}
	}
	if by == v1beta1.PullByAuto {
		by = v1beta1.PullByPod
		if slices.ContainsFunc(images, nodeimages.Reported) {
			by = v1beta1.PullByDaemon
		}
	}
	if s.facts.Pods = by == v1beta1.PullByPod; s.facts.Pods {
		return r.gatherPods(s)
	}
	r.gatherSecrets(s)
	labels := map[string]map[string]string{}
	s.gatherImages(images, labels)
	return labels, nil
}

// gatherSecrets finds the copies of the Secrets that the job names. While one is not ready no node begins to pull.
func (r *Reconciler) gatherSecrets(s *scope) {
	if len(s.job.Spec.PullSecrets) == 0 {
		return
	}
	if r.secrets == nil {
		s.held = &conditions.Cause{Reason: reasonSecretsNotEnabled, Message: "the job has pullSecrets, and this agent may " +
			"not read the Secrets of all namespaces: set pullSecrets.enabled of its chart, or --pull-secrets; or set " +
			"spec.flotilla.pullBy of a new job to Pod"}
		s.facts.Granted = new(int32(0))
		return
	}
	copies, missing, ok, err := r.secrets.secretsOf(s.job)
	s.secrets = copies
	if ok {
		return
	}
	s.facts.Granted = new(int32(0))
	s.Sooner(askForSecrets)
	s.Fail(reasonFailedPullSecret, err)
	if len(missing) > 0 {
		s.held = &conditions.Cause{Reason: reasonSecretMissing, Message: fmt.Sprintf("pullSecrets names Secret %s, which "+
			"does not exist in namespace %s: create it", strings.Join(missing, ", "), s.job.Namespace)}
	}
}

// granted returns on how many nodes a hub lets the job pull at the same time, nil without a hub. A job whose grant has
// expired begins no pulls.
func (s *scope) granted() *int32 {
	amounts := s.Budget.Amounts
	switch {
	case s.Budget.Granted && s.Budget.Expired, amounts != nil && (amounts.Paused || s.Budget.Expired):
		return new(int32(0))
	case amounts != nil:
		return new(max(amounts.Unavailable, 0))
	}
	return nil
}

// askedBy returns who pulls: what a job that has begun remembers, else what its spec says.
func askedBy(job *v1beta1.ImagePullJob) v1beta1.ImagePuller {
	if progress := job.Status.Flotilla; progress != nil && progress.PullBy != "" {
		return progress.PullBy
	}
	by := ptr.Deref(job.Spec.Flotilla, v1beta1.ImagePullJobFlotilla{}).PullBy
	if by == "" {
		return v1beta1.PullByAuto
	}
	return by
}

// gatherImages reads what the NodeImages have of the image. A node whose NodeImage is being deleted is gone.
func (s *scope) gatherImages(images []*v1beta1.NodeImage, labels map[string]map[string]string) {
	for _, image := range images {
		if image.DeletionTimestamp != nil {
			continue
		}
		labels[image.Name] = image.Labels
		s.facts.Nodes[image.Name] = s.nodeOf(image)
		if status := nodeimages.StatusOf(image, s.image, s.tag); status != nil && status.Message != "" {
			s.messages[image.Name] = status.Message
		}
	}
}

// nodeOf returns what a NodeImage has of the image.
func (s *scope) nodeOf(image *v1beta1.NodeImage) Node {
	return Node{Name: image.Name, Tag: nodeimages.TagOf(image, s.image, s.tag),
		Status: nodeimages.StatusOf(image, s.image, s.tag), Progress: progressOf(image)}
}

// progressOf returns the newest start or end of a pull.
func progressOf(image *v1beta1.NodeImage) (newest time.Time) {
	for _, status := range image.Status.ImageStatuses {
		for i := range status.Tags {
			if at := status.Tags[i].StartTime; at != nil && at.After(newest) {
				newest = at.Time
			}
			if at := status.Tags[i].CompletionTime; at != nil && at.After(newest) {
				newest = at.Time
			}
		}
	}
	return newest
}

// podsIn returns the pods of a namespace. They are the cache's and must not be changed.
func (r *Reconciler) podsIn(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods of its namespace: %w", err)
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}
