package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// dividersOf returns the objects that divide a workload into subsets, oldest first. Those that are being deleted are left out.
func (r *gatherer) dividersOf(ctx context.Context, divider *kinds.Divider, key wire.Key) ([]kinds.Object, error) {
	if divider == nil {
		return nil, nil
	}
	list := divider.NewList()
	if err := r.reader.List(ctx, list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %ss of %s: %w", divider.GVK.Kind, key.Namespace, err)
	}
	var found []kinds.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(kinds.Object)
		if target, ok := divider.Target(object); ok && target == key && object.GetDeletionTimestamp() == nil {
			found = append(found, object)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the list of %ss of %s: %w", divider.GVK.Kind, key.Namespace, err)
	}
	slices.SortFunc(found, func(a, b kinds.Object) int {
		created := a.GetCreationTimestamp()
		return cmp.Or(created.Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}
