package console

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Notify sends to changed, without waiting, when an object of one of the kinds changed.
func Notify(ctx context.Context, hub cache.Cache, objects []client.Object, changed chan<- struct{}) error {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
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
