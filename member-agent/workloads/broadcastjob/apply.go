package broadcastjob

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// stopAfter is the activeDeadlineSeconds of a pod that is to end.
const stopAfter = 1

// apply carries out the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	if s.plan.Decided.Expired {
		return false, r.expire(ctx, s)
	}
	s.done = r.Act(ctx, s.pass, workload.Work{Actions: s.plan.Actions}, func(pace workload.Pace) int {
		_, err := write.SlowStart(ctx, pace(len(s.plan.Stop), 1), func(i int) error {
			pod := s.plan.Stop[i]
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"activeDeadlineSeconds":%d}}`, pod.UID, stopAfter)
			return r.Writer.PatchPod(ctx, s.job.UID, pod, patch)
		})
		s.Fail(failedUpdate, err)
		return r.create(ctx, s, pace)
	})
	r.TurnAway(s.pass, nil)
	return true, nil
}

// expire deletes the job after its time to live, with its pods.
func (r *Reconciler) expire(ctx context.Context, s *scope) error {
	job := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	err := r.Client.Delete(ctx, job, client.Preconditions{UID: &s.job.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete it after ttlSecondsAfterFinished: %w", err)
	}
	return nil
}

// create creates the pods of the plan.
func (r *Reconciler) create(ctx context.Context, s *scope, pace workload.Pace) int {
	jobs, checks := s.plan.Decided.Create, s.plan.Checks
	created, err := write.SlowStart(ctx, pace(len(jobs), 1), func(i int) error {
		pod := newPod(s.job, &s.job.Spec.Template, jobs[i].Node, jobs[i].Batch)
		if batches := batchesOf(s.job); batches != nil && batches.MaxRestarts != nil {
			others, err := r.others(s.job, jobs[i].Node)
			if err != nil {
				return err
			}
			pod.Annotations[v1beta1.AnnotationRestarts] = restartsBefore(others)
		}
		return r.createPod(ctx, s, pod)
	})
	r.CreateFailed(s.pass, err, "the template")
	if err != nil || len(checks) == 0 {
		return created
	}
	more, err := write.SlowStart(ctx, pace(len(checks), 1), func(i int) error {
		check := checks[i].Check
		pod := newPod(s.job, &check.Pod.Template, checks[i].Node, s.facts.Progress.Batch)
		pod.Labels[v1beta1.LabelBatchCheck] = check.Name
		return r.createPod(ctx, s, pod)
	})
	r.CreateFailed(s.pass, err, "the template of a check")
	return created + more
}

func (r *Reconciler) createPod(ctx context.Context, s *scope, pod *corev1.Pod) error {
	return r.CreateNamed(ctx, s.pass, func(name string) *corev1.Pod {
		pod.Name = name
		return pod
	}, nil)
}

// newPod returns a pod of the job for one node, without a name.
func newPod(job *v1beta1.BroadcastJob, from *v1beta1.PodTemplate, node string, batch int) *corev1.Pod {
	template := from.PodTemplateSpec.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Labels: map[string]string{}, Annotations: map[string]string{},
			Finalizers: template.Finalizers, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(job, v1beta1.BroadcastJobKind)},
		},
		Spec: template.Spec,
	}
	maps.Copy(pod.Labels, template.Labels)
	maps.Copy(pod.Annotations, template.Annotations)
	delete(pod.Labels, v1beta1.LabelBatch)
	delete(pod.Labels, v1beta1.LabelBatchCheck)
	pod.Labels[v1beta1.LabelBroadcastJobName] = job.Name
	pod.Labels[v1beta1.LabelBroadcastJobUID] = string(job.UID)
	if batch > 0 {
		pod.Labels[v1beta1.LabelBatch] = strconv.Itoa(batch)
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	pernode.Pin(&pod.Spec, node)
	return pod
}
