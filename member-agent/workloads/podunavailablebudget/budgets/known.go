package budgets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

// errUnknown says that this replica does not know the budgets yet.
var errUnknown = errors.New("the PodUnavailableBudgets are not listed yet")

// known are the PodUnavailableBudgets of the cluster.
type known struct {
	cache cache.Cache
	// listed is set when they have been listed, missing while the cluster has no such kind.
	listed, missing atomic.Bool
	// indexer has the budgets once they are listed; nil if the cache has none.
	indexer toolscache.Indexer
	clock   clock.PassiveClock
	begun   time.Time
	// gone is called with each budget that is gone: the controller, which runs on the leader alone, forgets none here.
	gone func(types.NamespacedName)
}

// startTime is how long a new replica may keep itself out of the Service. One that may not list budgets serves the
// rest.
const startTime = 30 * time.Second

// ready is nil when this replica may get its share of the requests. Until then another replica decides.
func (k *known) ready(*http.Request) error {
	if k.listed.Load() || k.missing.Load() || k.clock.Since(k.begun) > startTime {
		return nil
	}
	return errUnknown
}

// NeedLeaderElection is false: every replica decides.
func (*known) NeedLeaderElection() bool { return false }

// Start watches PodUnavailableBudgets, once their CustomResourceDefinition is there.
func (k *known) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		informer, err := k.cache.GetInformer(ctx, &v1beta1.PodUnavailableBudget{}) // waits for the first list
		k.missing.Store(meta.IsNoMatchError(err))
		if err == nil {
			if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
				k.indexer = shared.GetIndexer()
			}
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: k.deleted})
		}
		return err == nil, nil
	})
	if err == nil {
		k.listed.Store(true)
	}
	return nil
}

// deleted calls gone for an object that the informer has seen deleted, or found missing after a new list.
func (k *known) deleted(object any) {
	// The key of a tombstone is its own; another object has metadata.
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	if namespace, name, err := toolscache.SplitMetaNamespaceKey(key); err == nil {
		k.gone(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// in returns the budgets of a namespace. They are the cache's and must not be changed; the list is the caller's. It
// errs with errUnknown until they are listed.
func (k *known) in(ctx context.Context, namespace string) ([]*v1beta1.PodUnavailableBudget, error) {
	if !k.listed.Load() {
		if k.missing.Load() {
			return nil, nil
		}
		return nil, errUnknown
	}
	if k.indexer != nil { // each new pod asks, and the cache's reader copies the head of each budget
		return k.indexed(namespace)
	}
	var list v1beta1.PodUnavailableBudgetList
	if err := k.cache.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	all := make([]*v1beta1.PodUnavailableBudget, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

func (k *known) indexed(namespace string) ([]*v1beta1.PodUnavailableBudget, error) {
	objects, err := k.indexer.ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	all := make([]*v1beta1.PodUnavailableBudget, 0, len(objects))
	for _, object := range objects {
		if pub, ok := object.(*v1beta1.PodUnavailableBudget); ok {
			all = append(all, pub)
		}
	}
	return all, nil
}
