package tree

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// notify sends to changed, without waiting, when an object changed that a tree is made from.
func notify(ctx context.Context, hub cache.Cache, changed chan<- struct{}) error {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	objects := []client.Object{&topology.WorkloadPlacement{}, &work.Work{}, &topology.MemberCluster{}}
	for _, rule := range kinds.Workloads() {
		objects = append(objects, rule.New())
	}
	for _, kind := range objects {
		informer, err := hub.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T on the hub: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
		})
		if err != nil {
			return fmt.Errorf("watch %T on the hub: %w", kind, err)
		}
	}
	return nil
}
