package nodedaemon

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// conditionReady is the type of the condition that the reporter writes.
const conditionReady = "Ready"

// reporter writes the state of the runtime as the condition Ready of the node's NodeImage, on change alone. Other parts
// leave the conditions as they are.
type reporter struct {
	node   string
	client client.Client
	cache  cache.Cache
	health *Health
	clock  clock.Clock
	log    logr.Logger
}

// Start reports until the context ends.
func (r *reporter) Start(ctx context.Context) error {
	changed := NewSignal()
	if err := WatchNamed(ctx, r.cache, &apps.NodeImage{}, r.clock, changed, r.log); err != nil {
		return err
	}
	for {
		state, again := r.health.Watch()
		var retry <-chan struct{}
		if err := r.report(ctx, state); err != nil && ctx.Err() == nil {
			r.log.Info("the state of the container runtime is not reported yet", "reason", err.Error())
			retry = After(ctx, r.clock, retryAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed.C():
		case <-again:
		case <-retry:
		}
	}
}

// report writes the condition if it is another one, and there is a NodeImage.
func (r *reporter) report(ctx context.Context, state State) error {
	if state.Reason == ReasonConnecting {
		return nil
	}
	image := &apps.NodeImage{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: r.node}, image); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read NodeImage %s: %w", r.node, err)
	}
	base := image.DeepCopy()
	condition := metav1.Condition{Type: conditionReady, Status: metav1.ConditionFalse, Reason: state.Reason,
		Message: state.Message, LastTransitionTime: metav1.NewTime(r.clock.Now())}
	if state.Ready {
		condition.Status = metav1.ConditionTrue
	}
	if !meta.SetStatusCondition(&image.Status.Conditions, condition) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, image, client.MergeFrom(base)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the condition Ready of NodeImage %s: %w", r.node, err)
	}
	return nil
}

// Signal carries that something happened, at least once after it last did.
type Signal struct{ c chan struct{} }

// NewSignal returns a signal that has not been raised.
func NewSignal() *Signal { return &Signal{c: make(chan struct{}, 1)} }

// Raise raises the signal. It does not wait.
func (s *Signal) Raise() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// C returns the channel to wait at.
func (s *Signal) C() <-chan struct{} { return s.c }

// After returns a channel that is closed when the time is over or the context ends.
func After(ctx context.Context, c clock.Clock, d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	timer := c.NewTimer(d)
	go func() {
		defer close(done)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
	}()
	return done
}

// WatchNamed raises the signal whenever the cache gets an event of the type, which it reads with a selector for the
// node. It returns once the cache has the objects, and tries again while the type is not installed. It errs only when
// the handler cannot be added.
func WatchNamed(
	ctx context.Context, c cache.Cache, object client.Object, clock clock.Clock, raise *Signal, log logr.Logger,
) error {
	for {
		informer, err := c.GetInformer(ctx, object)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { raise.Raise() }, UpdateFunc: func(any, any) { raise.Raise() },
				DeleteFunc: func(any) { raise.Raise() },
			})
			if err != nil {
				return fmt.Errorf("watch %T: %w", object, err)
			}
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		log.Info("cannot watch yet; install the CustomResourceDefinitions of the chart flotilla-crds",
			"type", fmt.Sprintf("%T", object), "reason", err.Error())
		select {
		case <-ctx.Done():
			return nil
		case <-After(ctx, clock, retryAfter):
		}
	}
}
