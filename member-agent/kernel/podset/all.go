package podset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// All returns every pod of the cache. They are the cache's and must not be changed. A List copies the head of each pod,
// 1.2 KB, which is too much where a cluster has tens of thousands.
func All(ctx context.Context, c cache.Cache) ([]*corev1.Pod, error) {
	informer, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	if shared, ok := informer.(toolscache.SharedInformer); ok && shared.HasSynced() {
		objects := shared.GetStore().List()
		all := make([]*corev1.Pod, 0, len(objects))
		for _, object := range objects {
			if pod, isPod := object.(*corev1.Pod); isPod {
				all = append(all, pod)
			}
		}
		return all, nil
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	all := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}
