// Package mutator gives new pods the sidecars of SidecarSets, as part of the admission of pods. It reads caches and
// memory only.
//
//	setup.go    the caches of this replica
//	scope.go    which pods the API server asks about
//	mutator.go  one pod
//	sets.go     what is worked out of each SidecarSet once
package mutator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
)

// Options of the mutator.
type Options struct {
	// Clock is the time; nil is the real one.
	Clock clock.PassiveClock
	// Namespaces are where revisions and the ConfigMap of allowed annotations are.
	Namespaces []string
	// Federated reports whether a hub owns the SidecarSet: this cluster is the hub then, and injects nothing. Nil: none.
	Federated func(ctx context.Context, set client.Object) (bool, error)
}

// New returns the mutator, and has the manager fill the caches that it reads, on every replica.
func New(ctx context.Context, mgr ctrl.Manager, options Options) (admission.Mutator, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	m := &mutator{
		reader: mgr.GetClient(), clock: options.Clock, namespaces: options.Namespaces, federated: options.Federated,
		log: mgr.GetLogger().WithName("sidecar-admission"), memo: memo{sets: map[string]*prepared{}},
	}
	m.allowed = &allow.Source{Live: mgr.GetAPIReader(), Namespaces: options.Namespaces, Needed: m.overwrites}
	known := &caches{cache: mgr.GetCache(), clock: options.Clock, begun: options.Clock.Now(),
		changes: make(chan event.GenericEvent, 1)}
	m.caches = known
	for _, object := range []client.Object{namespaceMetadata(), &appsv1.ControllerRevision{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return admission.Mutator{}, fmt.Errorf("watch %T: %w", object, err)
		}
		known.waits = append(known.waits, informer.HasSynced)
	}
	for _, runnable := range []manager.Runnable{known, m.allowed} {
		if err := mgr.Add(runnable); err != nil {
			return admission.Mutator{}, fmt.Errorf("set up SidecarSets at admission: %w", err)
		}
	}
	if err := mgr.AddReadyzCheck("sidecar-admission", known.ready); err != nil {
		return admission.Mutator{}, fmt.Errorf("set up SidecarSets at admission: %w", err)
	}
	return admission.Mutator{
		Name:    v1beta1.SidecarSetKind.Kind,
		Scope:   m.scope,
		Changes: known.changes,
		Mutate:  m.mutate,
	}, nil
}

// caches are the watches that the mutator reads from.
type caches struct {
	cache cache.Cache
	waits []toolscache.InformerSynced
	// listed is set when SidecarSets have been listed, unknown while the cluster has no such kind.
	listed, unknown atomic.Bool
	// store has the SidecarSets once they are listed; nil if the cache has none.
	store toolscache.Store
	clock clock.PassiveClock
	begun time.Time
	// changes has one event at most: more of them ask for the same.
	changes chan event.GenericEvent
}

// startTime is how long a new replica may keep itself out of the Service.
const startTime = 30 * time.Second

var _ manager.LeaderElectionRunnable = &caches{}

// NeedLeaderElection is false: every replica serves.
func (c *caches) NeedLeaderElection() bool { return false }

// Start watches SidecarSets, once their CustomResourceDefinition is there, which may come later than the agent.
func (c *caches) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		informer, err := c.cache.GetInformer(ctx, &v1beta1.SidecarSet{}) // waits for the first list
		if c.unknown.Store(meta.IsNoMatchError(err)); err != nil {
			return false, nil
		}
		if shared, ok := informer.(toolscache.SharedInformer); ok {
			c.store = shared.GetStore()
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.changed() }, DeleteFunc: func(any) { c.changed() },
			UpdateFunc: func(old, updated any) {
				if scopeChanged(old, updated) {
					c.changed()
				}
			},
		})
		return err == nil, nil
	})
	if err == nil {
		c.listed.Store(true)
		c.changed()
	}
	return nil
}

// changed has the scope asked for again.
func (c *caches) changed() {
	select {
	case c.changes <- event.GenericEvent{Object: &v1beta1.SidecarSet{}}:
	default:
	}
}

// scopeChanged reports whether a SidecarSet may select other pods.
func scopeChanged(old, updated any) bool {
	a, isA := old.(*v1beta1.SidecarSet)
	b, isB := updated.(*v1beta1.SidecarSet)
	return !isA || !isB || a.Generation != b.Generation || !maps.Equal(a.Labels, b.Labels) ||
		(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
}

// synced reports whether everything has been listed. It does not wait.
func (c *caches) synced() bool {
	if !c.listed.Load() {
		return false
	}
	for _, ready := range c.waits {
		if !ready() {
			return false
		}
	}
	return true
}

// ready is nil when this replica may get its share of the requests.
func (c *caches) ready(*http.Request) error {
	if c.synced() || c.unknown.Load() || c.clock.Since(c.begun) > startTime {
		return nil
	}
	return errors.New("the caches for the sidecars of pods are not filled yet")
}

// namespaceMetadata is the object by which namespaces are watched.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// logger is that of one pod.
func (m *mutator) logger(request *admission.Request) logr.Logger {
	return m.log.WithValues("namespace", request.Namespace, "pod", request.Name, "request", request.UID)
}
