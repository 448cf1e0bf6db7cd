package admission

import (
	"context"
	"fmt"
	"net/http"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
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
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
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
	// Server serves the handler. Nil: this agent serves nothing, and removes a configuration that is there.
	Server Server
	// Clock is the time; nil is the real one.
	Clock clock.PassiveClock
	// Federated tells whether a hub owns the workloads of a namespace; nothing is spread there. Nil: nowhere.
	Federated func(ctx context.Context, namespace string) (bool, error)
	// Timeout is how long the creation of a pod may wait for an answer, in whole seconds from 1 to 30; 0 is DefaultTimeout.
	Timeout time.Duration
}

// Setup registers the handler of pods and adds the controller of the MutatingWebhookConfiguration to the manager, whose scheme must
// know apps.kruise.io/v1beta1 and Kubernetes' own types. The handler answers on every replica; the controller runs on the leader.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	r := &reconciler{client: mgr.GetClient(), server: options.Server, federated: options.Federated, clock: options.Clock, timeout: options.Timeout}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	b := ctrl.NewControllerManagedBy(mgr)
	if options.Server != nil {
		if err := serve(ctx, mgr, options); err != nil {
			return fmt.Errorf("set up the admission of pods: %w", err)
		}
		// One ring is kept; more of them ask for the same.
		changed := make(chan event.GenericEvent, 1)
		options.Server.OnChange(func() {
			select {
			case changed <- event.GenericEvent{Object: &admissionregistrationv1.MutatingWebhookConfiguration{}}:
			default:
			}
		})
		b = b.WatchesRawSource(source.Channel(changed, one))
	}
	ours := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == ConfigurationName })
	b = b.Named("pod-admission").
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, one, builder.WithPredicates(ours)).
		Watches(&v1beta1.WorkloadSpread{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	if options.Federated != nil {
		b = b.WatchesMetadata(&corev1.Namespace{}, one, builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// serve registers the handler, and has the manager's cache filled with what it reads.
func serve(ctx context.Context, mgr ctrl.Manager, options Options) error {
	admissions, err := newAdmissions(metrics.Registry)
	if err != nil {
		return err
	}
	seen, err := look(ctx, mgr.GetCache(), options.Federated != nil, options.Clock)
	if err != nil {
		return err
	}
	if err := mgr.Add(seen); err != nil {
		return fmt.Errorf("add to the manager: %w", err)
	}
	if err := mgr.AddReadyzCheck("pod-admission", seen.ready); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	options.Server.Register(Path, &webhook.Webhook{Handler: &podHandler{
		reader: mgr.GetClient(), workloads: workloads{mgr.GetClient()}, book: seen.book, synced: seen.synced, federated: options.Federated,
		clock: options.Clock, admissions: admissions, log: mgr.GetLogger().WithName("pod-admission"),
		patience: options.Timeout / 2, // the other half is for the way
	}})
	return nil
}
