package admission

import (
	"context"
	"fmt"
	"net/http"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Server is what API servers call, on every replica.
type Server interface {
	// Register serves the handler at the path, leader or not.
	Register(path string, handler http.Handler)
	// ClientConfig returns how API servers reach the path now, and what they are to trust. It fails while there is no
	// certificate.
	ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error)
	// OnChange has f called whenever ClientConfig returns something else. f does not wait.
	OnChange(f func())
}

// Options of admission.
type Options struct {
	// Server serves the chain. Nil: this agent serves nothing, and removes a configuration that is there.
	Server Server
	// Mutators change a pod in this order.
	Mutators []Mutator
	// Guards decide about existing pods, in this order.
	Guards []Guard
	// Clock is the time; nil is the real one.
	Clock clock.PassiveClock
	// Timeout is how long the creation of a pod may wait for an answer, in whole seconds from 1 to 30; 0 is
	// DefaultTimeout.
	Timeout time.Duration
}

// Setup registers the chain, which answers on every replica, and adds the controller of the
// MutatingWebhookConfiguration to the manager, which runs on the leader.
func Setup(mgr ctrl.Manager, options Options) error {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if err := setupGuards(mgr, options); err != nil {
		return err
	}
	one := toConfiguration()
	b := ctrl.NewControllerManagedBy(mgr).Named("pod-admission")
	if options.Server != nil {
		measured, err := NewMetrics(metrics.Registry)
		if err != nil {
			return err
		}
		patience := options.Timeout / 2 // the other half is for the network
		options.Server.Register(Path,
			newHandler(mgr.GetLogger().WithName("pod-admission"), patience, measured, options.Mutators))
		b = b.WatchesRawSource(changes(options.Server))
	}
	b = b.Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, one, builder.WithPredicates(ours()))
	for _, mutator := range options.Mutators {
		if mutator.Changes != nil {
			b = b.WatchesRawSource(source.Channel(mutator.Changes, one))
		}
		for _, watch := range mutator.Watches {
			b = b.Watches(watch.Object, one, builder.WithPredicates(watch.Events))
		}
	}
	r := &reconciler{
		client: mgr.GetClient(), server: options.Server, mutators: options.Mutators, clock: options.Clock,
		timeout: options.Timeout,
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// setupGuards registers the guards, and adds the controller of the ValidatingWebhookConfiguration.
func setupGuards(mgr ctrl.Manager, options Options) error {
	one := toConfiguration()
	b := ctrl.NewControllerManagedBy(mgr).Named("pod-guards").
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, one, builder.WithPredicates(ours()))
	if options.Server != nil && len(options.Guards) > 0 {
		log := mgr.GetLogger().WithName("pod-guards")
		options.Server.Register(GuardPath, NewGuardHandler(log, GuardTimeout/2, options.Guards...))
		b = b.WatchesRawSource(changes(options.Server))
	}
	for _, guard := range options.Guards {
		for _, watch := range guard.Watches {
			b = b.Watches(watch.Object, one, builder.WithPredicates(watch.Events))
		}
	}
	r := &guardReconciler{client: mgr.GetClient(), server: options.Server, guards: options.Guards, clock: options.Clock}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// toConfiguration enqueues the configuration.
func toConfiguration() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
}

// ours passes the events of our configuration.
func ours() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == ConfigurationName })
}

// changes enqueues the configuration whenever the server is to be called another way.
func changes(server Server) source.Source {
	// One event that waits is enough: more of them ask for the same.
	changed := make(chan event.GenericEvent, 1)
	// The first one waits for the start: scopes may depend on no object.
	changed <- event.GenericEvent{Object: &admissionregistrationv1.MutatingWebhookConfiguration{}}
	server.OnChange(func() {
		select {
		case changed <- event.GenericEvent{Object: &admissionregistrationv1.MutatingWebhookConfiguration{}}:
		default:
		}
	})
	return source.Channel(changed, toConfiguration())
}
