package podprobemarker

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// ofNode returns the markers whose probes a NodePodProbe has.
func ofNode(_ context.Context, object client.Object) (out []reconcile.Request) {
	probes, ok := object.(*v1alpha1.NodePodProbe)
	if !ok {
		return nil
	}
	known := map[types.NamespacedName]bool{}
	for i := range probes.Spec.PodProbes {
		pod := &probes.Spec.PodProbes[i]
		for j := range pod.Probes {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: markerOf(pod.Probes[j].Name)}
			if !known[key] {
				known[key] = true
				out = append(out, reconcile.Request{NamespacedName: key})
			}
		}
	}
	return out
}

// besides returns the other markers of the namespace of one that set labels: its selector can make a loop with them.
func besides(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) (out []reconcile.Request) {
		var list v1alpha1.PodProbeMarkerList
		// An error is not retried: the cache always lists.
		_ = reader.List(ctx, &list, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy)
		for i := range list.Items {
			marker := &list.Items[i]
			if marker.Name != object.GetName() && len(markedKeys(&marker.Spec)) > 0 {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(marker)})
			}
		}
		return out
	}
}

// ofPods enqueues the markers that select a pod, a little later, when it begins or ends to be probed or its labels
// change: a NodePodProbe shows no pods whose probes are left out.
func ofPods(reader client.Reader) handler.Funcs {
	add := func(ctx context.Context, q workload.Queue, pods ...client.Object) {
		var list v1alpha1.PodProbeMarkerList
		// An error is not retried: the cache always lists.
		_ = reader.List(ctx, &list, client.InNamespace(pods[0].GetNamespace()), client.UnsafeDisableDeepCopy)
		for i := range list.Items {
			marker := &list.Items[i]
			if slices.ContainsFunc(pods, func(pod client.Object) bool { return selects(marker, pod.GetLabels()) }) {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(marker)}, gatherEvents)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workload.Queue) {
			if pod, ok := e.Object.(*corev1.Pod); ok && probed(pod) {
				add(ctx, q, pod)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workload.Queue) {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, same := e.ObjectNew.(*corev1.Pod)
			if ok && same && (probed(before) != probed(after) || !maps.Equal(before.Labels, after.Labels)) {
				add(ctx, q, before, after)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workload.Queue) { add(ctx, q, e.Object) },
	}
}
