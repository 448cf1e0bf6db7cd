package ephemeraljob

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconciler brings EphemeralJobs to what their specs ask for.
type Reconciler struct {
	*workload.Controller[*v1alpha1.EphemeralJob, memory]
}

// memory is what a job remembers between passes.
type memory struct {
	// refused are the pods that did not take the containers.
	refused map[types.UID]bool
}

type pass = workload.Pass[*v1alpha1.EphemeralJob, memory]

// scope is one pass over one job.
type scope struct {
	*pass
	job   *v1alpha1.EphemeralJob
	facts Facts
	plan  Plan
	added int
}

// Add adds the controller of EphemeralJobs to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{}
	b := workload.For(env, workload.Kind[*v1alpha1.EphemeralJob, memory]{
		GVK:     v1alpha1.EphemeralJobKind,
		New:     func() *v1alpha1.EphemeralJob { return &v1alpha1.EphemeralJob{} },
		NewList: func() client.ObjectList { return &v1alpha1.EphemeralJobList{} },
		Workers: 4, // people start them, a few at a time
		Phases:  r.phases,
	}).ReadsPods(ctx)
	r.Controller = b.Controller
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod))
	return b.Complete()
}

// ofPod returns the jobs that have not ended and select the pod.
func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) (out []reconcile.Request) {
	var list v1alpha1.EphemeralJobList
	// An error is not retried: each job has a pass when the cache has its kind.
	_ = r.Client.List(ctx, &list, client.InNamespace(pod.GetNamespace()), client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		job := &list.Items[i]
		if job.Status.CompletionTime != nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.GetLabels())) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)})
		}
	}
	return out
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, job: p.Object}, r.gather, r.decide, r.apply, r.report)
}

// gather reads the pods that the job selects.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	s.facts = Facts{Job: s.job, Refused: s.Memory.refused, Now: r.Clock.Now()}
	if s.Leaving != nil || s.job.Status.CompletionTime != nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.job.Spec.Selector)
	if err != nil || selector.Empty() {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidSelector, Message: fmt.Sprintf(
			"spec.selector selects nothing that can be read, so no pod gets the containers; correct it: %v", err)}
		return true, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(s.job.Namespace),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the pods that it selects: %w", err)
	}
	for i := range pods.Items {
		s.facts.Pods = append(s.facts.Pods, &pods.Items[i])
	}
	return true, nil
}

// decide makes the plan. A job that is being deleted, or cannot be used, has none.
func (r *Reconciler) decide(_ context.Context, s *scope) (bool, error) {
	if s.Leaving == nil && s.Stalled == nil {
		s.plan = Compute(s.facts)
		s.Sooner(s.plan.Wake)
	}
	return true, nil
}
