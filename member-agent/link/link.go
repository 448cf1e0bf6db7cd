package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
)

// fieldManager names the agent in everything that it writes on the hub.
const fieldManager = "flotilla-agent"

// Config says how to reach the hub and who is calling.
type Config struct {
	// Hub reaches the hub's API server.
	Hub *rest.Config
	// ClusterName is the name of this member's MemberCluster on the hub.
	ClusterName string
	// AgentVersion is reported in MemberCluster.status.
	AgentVersion string
	// Copies are the member's own copies of its Works, for while the hub is not heard.
	Copies *copies.Store
	// Clock is the time; Log receives what an operator should know.
	Clock clock.WithTicker
	Log   logr.Logger
}

// Link is the connection of one agent to one hub. It is a Runnable of the manager.
type Link struct {
	config  Config
	member  cluster.Cluster
	cache   cache.Cache
	client  client.Client
	contact contact

	// clusterID is the member's own identity, nil until it was read.
	clusterID atomic.Pointer[string]
	// pinned wakes the Lease when the hub has accepted this cluster; surveyed wakes the inventory when nodes or the
	// MemberCluster changed.
	pinned   chan struct{}
	surveyed chan struct{}

	sessions sessions

	// end ends the link, and with it the agent; version is that of the Lease after the last renewal.
	end     context.CancelCauseFunc
	version string

	mu      sync.Mutex
	queues  []requestQueue
	orphans orphans
}

// New returns a link that has not dialled yet: the hub may be away.
func New(config Config, member cluster.Cluster) (*Link, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{topology.AddToScheme, work.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the hub's types: %w", err)
		}
	}
	l := &Link{
		config: config, member: member,
		contact: contact{clock: config.Clock, log: config.Log},
		pinned:  make(chan struct{}, 1), surveyed: make(chan struct{}, 1),
		sessions: sessions{changed: make(chan struct{}, 1), lostSince: config.Clock.Now()},
		orphans:  orphans{vanished: map[types.NamespacedName]orphan{}},
	}
	// A fixed mapper: discovery would ask a hub that may be away, and for more than the agent may see.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(topology.GroupVersion.WithKind("MemberCluster"), meta.RESTScopeRoot)
	mapper.Add(work.GroupVersion.WithKind("Work"), meta.RESTScopeNamespace)
	mapper.Add(
		work.GroupVersion.WithKind("WorkList"),
		meta.RESTScopeNamespace,
	) // a cache of one namespace asks for the scope of lists
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)

	var err error
	l.cache, err = cache.New(config.Hub, cache.Options{
		Scheme:                   scheme,
		Mapper:                   mapper,
		DefaultTransform:         cache.TransformStripManagedFields(),
		DefaultWatchErrorHandler: l.watchFailed,
		ByObject: map[client.Object]cache.ByObject{
			&work.Work{}:              {Namespaces: map[string]cache.Config{l.Namespace(): {}}},
			&topology.MemberCluster{}: {Field: fields.OneTermEqualSelector("metadata.name", config.ClusterName)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of the hub: %w", err)
	}
	l.client, err = client.New(config.Hub, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make the client of the hub: %w", err)
	}
	return l, nil
}

// Namespace is the namespace on the hub that holds this member's Works and its Lease.
func (l *Link) Namespace() string { return work.NamespacePrefix + l.config.ClusterName }

// Client writes to the hub, and reads from it without a cache.
func (l *Link) Client() client.Client { return l.client }

// Work returns the Work as it was seen last, also while the hub is away; nil if there is none. Until this process has
// heard the hub it is the member's own copy. The caller may change it.
func (l *Link) Work(ctx context.Context, name types.NamespacedName) (*work.Work, error) {
	if !l.synced(ctx) {
		return l.config.Copies.Order(name), nil
	}
	w := &work.Work{}
	if err := l.cache.Get(ctx, name, w); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Work %s: %w", name, err)
	} else if err != nil {
		return nil, nil
	}
	return w, nil
}

// Start keeps up the link until ctx ends. It returns earlier only when the hub was put back to an older state, with an
// error that ends the agent: it is to begin anew. Whatever else the hub does, it goes on.
func (l *Link) Start(ctx context.Context) error {
	ctx, l.end = context.WithCancelCause(ctx)
	defer l.end(nil)
	if err := l.watchOwn(ctx); err != nil {
		return fmt.Errorf("watch MemberCluster %s on the hub: %w", l.config.ClusterName, err)
	}
	tasks := []func(context.Context){l.runCache, l.runIdentity, l.runCopies, l.runSession, l.runLease, l.runInventory}
	var group wait.Group
	for _, task := range tasks {
		group.StartWithContext(ctx, task)
	}
	group.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errRestored) {
		return cause
	}
	return nil
}

func (l *Link) runCache(ctx context.Context) {
	if err := l.cache.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		l.config.Log.Error(err, "The cache of the hub ended")
	}
}

// runIdentity reads who this member is. Nothing is written on the hub and nothing executed before that is known.
func (l *Link) runIdentity(ctx context.Context) {
	// A member that does not answer is asked again each second; the agent can do nothing else without it.
	const again = time.Second
	err := wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) {
		namespace := &corev1.Namespace{}
		if err := l.member.GetAPIReader().Get(ctx, types.NamespacedName{Name: "kube-system"}, namespace); err != nil {
			l.config.Log.Info(
				"Cannot read namespace kube-system of the member, whose uid is the identity of this cluster; trying again",
				"err",
				err.Error(),
			)
			return false, nil
		}
		l.clusterID.Store(new(string(namespace.UID)))
		return true, nil
	})
	if err == nil {
		l.config.Log.Info("This cluster knows who it is", "cluster", l.config.ClusterName, "clusterID", *l.clusterID.Load())
		l.judge(ctx)
	}
}

// runCopies reads the member's own copies, and wakes their controllers when the hub's answer may take their place.
func (l *Link) runCopies(ctx context.Context) {
	const again = time.Second // as for the identity: a member that does not answer cannot be repaired either
	err := wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) {
		if err := l.config.Copies.Load(ctx); err != nil {
			l.config.Log.Info("Cannot read the member's own copies of its Works; trying again", "err", err.Error())
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return
	}
	l.judge(ctx)
	// Once the Works of the hub are there, a copy whose Work is not among them is looked at: no event tells.
	const soon = 200 * time.Millisecond // what is ordered waits for it
	_ = wait.PollUntilContextCancel(ctx, soon, true, func(ctx context.Context) (bool, error) { return l.synced(ctx), nil })
	l.judge(ctx)
}

// synced tells whether the Works and the own MemberCluster were listed at least once.
func (l *Link) synced(ctx context.Context) bool {
	for _, object := range []client.Object{&work.Work{}, &topology.MemberCluster{}} {
		informer, err := l.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			return false
		}
	}
	return true
}
