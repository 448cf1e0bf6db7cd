package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	polling "k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Caches are the objects that a mutator reads, on every replica. A kind whose definition comes later than the agent is
// watched then.
type Caches struct {
	cache   cache.Cache
	objects []client.Object
	synced  chan struct{}
	// missing is set while a definition is missing.
	missing atomic.Bool
	// changes has one event at most: more of them ask for the same.
	changes chan event.GenericEvent
}

var _ manager.LeaderElectionRunnable = &Caches{}

// NewCaches has the manager watch the objects. A definition that is missing makes Wait fail, and nothing else.
func NewCaches(mgr ctrl.Manager, objects ...client.Object) (*Caches, error) {
	c := &Caches{cache: mgr.GetCache(), objects: objects, synced: make(chan struct{}),
		changes: make(chan event.GenericEvent, 1)}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("add the caches of a mutator: %w", err)
	}
	return c, nil
}

// NeedLeaderElection is false: every replica answers.
func (c *Caches) NeedLeaderElection() bool { return false }

// Start watches the objects. The manager calls it.
func (c *Caches) Start(ctx context.Context) error {
	next := 0
	err := polling.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		for ; next < len(c.objects); next++ {
			informer, err := c.cache.GetInformer(ctx, c.objects[next]) // waits for the first list
			c.missing.Store(meta.IsNoMatchError(err))
			if err == nil {
				_, err = informer.AddEventHandler(c.handler())
			}
			if err != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err == nil {
		close(c.synced)
		c.changed()
	}
	return nil
}

// Changes has an event when objects come, go or change their specs, and when all have been listed.
func (c *Caches) Changes() <-chan event.GenericEvent { return c.changes }

// Synced reports whether everything has been listed. It does not wait.
func (c *Caches) Synced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

func (c *Caches) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.changed() }, DeleteFunc: func(any) { c.changed() },
		UpdateFunc: func(old, updated any) {
			a, isA := old.(client.Object)
			b, isB := updated.(client.Object)
			if !isA || !isB || a.GetGeneration() != b.GetGeneration() ||
				(a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) {
				c.changed()
			}
		},
	}
}

func (c *Caches) changed() {
	select {
	case c.changes <- event.GenericEvent{Object: c.objects[0]}:
	default:
	}
}

// Wait returns nil when everything has been listed. It waits for that until ctx ends, and then returns an error. It
// does not wait for a definition that is missing.
func (c *Caches) Wait(ctx context.Context) error {
	if !c.Synced() && c.missing.Load() {
		return errors.New("a definition is missing")
	}
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("this replica has not listed everything yet: %w", ctx.Err())
	}
}

// Owner is a workload that a pod belongs to.
type Owner struct {
	schema.GroupKind
	Name string
	UID  types.UID
}

// mostOwners bounds a chain of owners. The longest of our kinds has three.
const mostOwners = 8

// ControlledBy returns the controller of a new pod, then the controller of that, and so on. It reads owners of these
// kinds from the cache; one of another kind, or that the cache does not have, is the last.
func ControlledBy(
	ctx context.Context, reader client.Reader, pod *corev1.Pod, kinds map[schema.GroupKind]func() client.Object,
) ([]Owner, error) {
	var owners []Owner
	for object := client.Object(pod); len(owners) < mostOwners; {
		ref := metav1.GetControllerOfNoCopy(object)
		if ref == nil {
			break
		}
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		owners = append(owners, Owner{kind, ref.Name, ref.UID})
		empty := kinds[kind]
		if empty == nil {
			break
		}
		object = empty()
		err := reader.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) || err == nil && object.GetUID() != ref.UID {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, pod.Namespace, ref.Name, err)
		}
	}
	return owners, nil
}
