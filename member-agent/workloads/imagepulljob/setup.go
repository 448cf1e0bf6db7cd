package imagepulljob

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// gatherEvents is how long events of nodes and pods are gathered before a job is reconciled. A pass looks at all
	// nodes.
	gatherEvents = 100 * time.Millisecond
	// soonest is how soon a pass follows another one by the clock alone.
	soonest = 100 * time.Millisecond
	// askForSecrets is how soon a job looks again whether its Secrets are copied, which costs no request.
	askForSecrets = 500 * time.Millisecond
)

// Add adds the controller of ImagePullJobs to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{images: env.Images()}
	if env.PullSecrets {
		r.secrets = &keeper{client: env.Manager.GetClient(), live: env.Manager.GetAPIReader(),
			namespace: cmp.Or(env.Namespace, workload.DefaultNamespace)}
		if err := r.secrets.add(env.Manager); err != nil {
			return err
		}
	}
	b := workload.For(env, r.kind()).OwnsPods(ctx).OnNodes(ctx)
	r.Controller = b.Controller
	b.Watches(&v1beta1.NodeImage{}, r.ofImages()).
		Watches(&corev1.Pod{}, r.ofSelectedPods(), builder.WithPredicates(placed()))
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.ImagePullJob, memory] {
	return workload.Kind[*v1beta1.ImagePullJob, memory]{
		GVK:           v1beta1.ImagePullJobKind,
		New:           func() *v1beta1.ImagePullJob { return &v1beta1.ImagePullJob{} },
		NewList:       func() client.ObjectList { return &v1beta1.ImagePullJobList{} },
		Workers:       8,
		Phases:        r.phases,
		Selector:      selectorOf,
		PodDelay:      gatherEvents,
		ScaleFailure:  reasonFailedCreatePod,
		UpdateFailure: reasonFailedDeletePod,
	}
}

// selectorOf selects the pods that pull for a job, by a label that no other job has.
func selectorOf(job *v1beta1.ImagePullJob) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{v1beta1.LabelImagePullJobUID: string(job.UID)}}
}

// ofImages enqueues the jobs of a NodeImage: all that run where it comes, goes or gets other labels, and else those
// that own an entry whose pull went on.
func (r *Reconciler) ofImages() handler.EventHandler {
	all := func(ctx context.Context, q workload.Queue) {
		r.each(ctx, "", q, func(*v1beta1.ImagePullJob) bool { return true })
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q workload.Queue) { all(ctx, q) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q workload.Queue) { all(ctx, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workload.Queue) {
			before, _ := e.ObjectOld.(*v1beta1.NodeImage)
			after, _ := e.ObjectNew.(*v1beta1.NodeImage)
			switch {
			case before == nil || after == nil:
			case before.UID != after.UID, !maps.Equal(before.Labels, after.Labels),
				(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil):
				all(ctx, q)
			default:
				for key := range concerned(before, after) {
					q.AddAfter(reconcile.Request{NamespacedName: key}, gatherEvents)
				}
			}
		},
	}
}

// concerned returns the jobs that own entries of images whose spec or status changed.
func concerned(before, after *v1beta1.NodeImage) map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for _, image := range []*v1beta1.NodeImage{before, after} {
		for name, spec := range image.Spec.Images {
			if equality.Semantic.DeepEqual(before.Status.ImageStatuses[name], after.Status.ImageStatuses[name]) &&
				equality.Semantic.DeepEqual(before.Spec.Images[name], after.Spec.Images[name]) {
				continue
			}
			for i := range spec.Tags {
				for _, owner := range spec.Tags[i].OwnerReferences {
					if owner.Kind == v1beta1.ImagePullJobKind.Kind {
						out[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}] = true
					}
				}
			}
		}
	}
	return out
}

// ofSelectedPods enqueues the jobs that pull on the nodes of pods like this one.
func (r *Reconciler) ofSelectedPods() handler.EventHandler {
	enqueue := func(ctx context.Context, object client.Object, q workload.Queue) {
		r.each(ctx, object.GetNamespace(), q, func(job *v1beta1.ImagePullJob) bool { return job.Spec.PodSelector != nil })
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workload.Queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workload.Queue) { enqueue(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workload.Queue) { enqueue(ctx, e.Object, q) },
	}
}

// placed passes the events of pods that get a node, end, are relabelled or go.
func placed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := e.ObjectOld.(*corev1.Pod)
		after, _ := e.ObjectNew.(*corev1.Pod)
		return before != nil && after != nil && (podset.NodeOf(before) != podset.NodeOf(after) ||
			before.Status.Phase != after.Status.Phase || !maps.Equal(before.Labels, after.Labels) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil))
	}}
}

// each enqueues the jobs of a namespace, or of all for "", that have not ended.
func (r *Reconciler) each(ctx context.Context, namespace string, q workload.Queue,
	which func(*v1beta1.ImagePullJob) bool) {
	var list v1beta1.ImagePullJobList
	// An error is not retried: each job has a pass when the cache has its kind.
	_ = r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	running := slices.DeleteFunc(list.Items, func(job v1beta1.ImagePullJob) bool {
		return job.Status.CompletionTime != nil || !which(&job)
	})
	for i := range running {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&running[i])}, gatherEvents)
	}
}
