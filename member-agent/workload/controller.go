package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// Controller is the frame of one kind, and what its phases read and write with.
type Controller[T client.Object, M any] struct {
	Client client.Client // reads from the cache
	Live   client.Reader // reads from the API server
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Gate   Gate
	// Disruptions is nil where nothing limits which pods become unavailable.
	Disruptions Disruptions
	// Pods and Claims are nil for a kind that did not ask for them.
	Pods   *podset.Source
	Claims *volumes.Source
	// Nodes returns the nodes of the cache, which must not be changed; nil for a kind that did not ask for them.
	Nodes   func() []*corev1.Node
	History history.Store
	Writer  *write.Writer

	kind       Kind[T, M]
	fresh      *freshness.Tracker
	namespaces *namespaces.Terminating

	mu      sync.Mutex
	objects map[types.NamespacedName]*known[M]
}

// known is what is kept of an object between passes.
type known[M any] struct {
	uid    types.UID
	rate   statusRate
	memory M

	relabelled relabelled
	// oneByOne is Kind.OneByOne of the object as its last pass saw it.
	oneByOne bool
}

// Parts are what a Controller is made of.
type Parts struct {
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Gate says what a hub decides; nil is an agent without a hub.
	Gate Gate
	// Disruptions decides which pods may become unavailable; nil allows all.
	Disruptions Disruptions
	// Pods and Claims are nil for a kind that does not read them.
	Pods   *podset.Source
	Claims *volumes.Source
	Nodes  func() []*corev1.Node
	// Namespaces reads the metadata of namespaces; nil reads with Client.
	Namespaces client.Reader
}

// New returns the controller of a kind.
func New[T client.Object, M any](parts Parts, kind Kind[T, M]) *Controller[T, M] {
	if parts.Gate == nil {
		parts.Gate = alone{}
	}
	if parts.Namespaces == nil {
		parts.Namespaces = parts.Client
	}
	c := &Controller[T, M]{
		Client: parts.Client, Live: parts.Live, Events: parts.Events, Clock: parts.Clock, Gate: parts.Gate,
		Disruptions: parts.Disruptions, Nodes: parts.Nodes, kind: kind, namespaces: namespaces.New(parts.Namespaces),
		objects: map[types.NamespacedName]*known[M]{},
		fresh:   freshness.NewTracker(parts.Clock, parts.Live, func() client.Object { return kind.New() }),
	}
	c.History = history.Store{Client: c.Client, Live: c.Live,
		Fresh: c.fresh.TrackIn(func() client.Object { return &appsv1.ControllerRevision{} }, c.Client)}
	c.Writer = &write.Writer{Client: c.Client}
	c.usePods(parts.Pods)
	c.useClaims(parts.Claims)
	return c
}

func (c *Controller[T, M]) usePods(pods *podset.Source) {
	if c.Pods = pods; pods != nil {
		c.Writer.Fresh = c.fresh.Track(func() client.Object { return &corev1.Pod{} }, pods.Get)
	}
}

func (c *Controller[T, M]) useClaims(claims *volumes.Source) {
	if c.Claims = claims; claims != nil {
		c.Writer.Claims = c.fresh.Track(func() client.Object { return &corev1.PersistentVolumeClaim{} }, claims.Get)
	}
}

// Reconcile makes one pass: what the frame asks first, then the kind's phases.
func (c *Controller[T, M]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	p, err := c.begin(ctx, request.NamespacedName)
	if err == nil && p.Memory != nil {
		err = c.run(ctx, p)
		if c.fresh.Unseen(p.Object.GetUID()) {
			p.Sooner(freshness.RereadAfter)
		}
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reconcile %s %s: %w", c.kind.GVK.Kind, request.NamespacedName, err)
	}
	return ctrl.Result{RequeueAfter: p.Wake}, nil
}

func (c *Controller[T, M]) run(ctx context.Context, p *Pass[T, M]) error {
	for _, phase := range c.kind.Phases(p) {
		next, err := phase(ctx)
		if err != nil {
			return errors.Join(p.failure(), err)
		}
		if !next {
			break
		}
	}
	if p.Stalled != nil {
		return nil
	}
	return p.failure()
}

// begin reads the object. The pass has no Memory if it ends here: the object is gone, a hub decides, or the cache lacks
// our own writes.
func (c *Controller[T, M]) begin(ctx context.Context, key types.NamespacedName) (*Pass[T, M], error) {
	p := &Pass[T, M]{Key: key, Object: c.kind.New()}
	if err := c.Client.Get(ctx, key, p.Object); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(key)
			return p, nil
		}
		return p, fmt.Errorf("read it: %w", err)
	}
	if federated, err := c.Gate.Federated(ctx, p.Object); err != nil || federated {
		return p, err
	}
	if p.Object.GetDeletionTimestamp() == nil && c.Gate.Foreign(p.Object) {
		return p, nil
	}
	known := c.remember(p.Object)
	if fresh, err := c.fresh.Fresh(ctx, p.Object); err != nil || !fresh {
		p.Wake = freshness.RetryAfter // events of what we wrote come first
		return p, err
	}
	if p.Object.GetDeletionTimestamp() != nil {
		p.leave(&conditions.Cause{Reason: conditions.ReasonDeleting, Message: conditions.Waiting(p.Object)})
	} else if cause, err := c.namespaces.Cause(ctx, key.Namespace, p.Object.GetUID()); err != nil {
		return p, fmt.Errorf("ask whether its namespace is being deleted: %w", err)
	} else if cause != nil {
		p.leave(cause)
	}
	var err error
	if p.Budget, err = c.Gate.Budget(ctx, p.Object); err != nil {
		return p, fmt.Errorf("ask for its budget: %w", err)
	}
	p.Memory, p.rate, p.relabelled = &known.memory, &known.rate, &known.relabelled
	return p, nil
}

// remember returns what is known of the object. Nothing is known of one that another of its name has replaced.
func (c *Controller[T, M]) remember(object T) *known[M] {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	have := c.objects[key]
	if have == nil || have.uid != object.GetUID() {
		have = &known[M]{uid: object.GetUID()}
		c.objects[key] = have
	}
	have.oneByOne = c.kind.OneByOne != nil && c.kind.OneByOne(object)
	return have
}

// podDelay returns how long events of an object's pods are gathered.
func (c *Controller[T, M]) podDelay(key types.NamespacedName) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.objects[key]; have != nil && have.oneByOne {
		return 0
	}
	return c.kind.PodDelay
}

// forget drops what is known of an object that is gone.
func (c *Controller[T, M]) forget(key types.NamespacedName) {
	if c.kind.Forget != nil {
		c.kind.Forget(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.objects[key]; have != nil {
		delete(c.objects, key)
		c.fresh.Forget(have.uid)
		c.namespaces.Forget(have.uid)
	}
}
