package hub

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	budgets "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/aggregate"
	"github.com/flotilla-dev/flotilla/hub/checks"
	"github.com/flotilla-dev/flotilla/hub/contact"
	"github.com/flotilla-dev/flotilla/hub/delivery"
	"github.com/flotilla-dev/flotilla/hub/expiry"
	"github.com/flotilla-dev/flotilla/hub/inventory/agent"
	"github.com/flotilla-dev/flotilla/hub/inventory/karmada"
	"github.com/flotilla-dev/flotilla/hub/inventory/profiles"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// LeaderElectionID is the name of the Lease that the active hub holds.
const LeaderElectionID = "flotilla-hub"

// Inventory is where members come from.
type Inventory string

// The inventories. A hub has one of them.
const (
	// InventoryAgent: clusters join by an agent of Flotilla, which executes the Works.
	InventoryAgent Inventory = "agent"
	// InventoryKarmada: the hub stands on Karmada's API server, the members are Karmada's Clusters, and Karmada executes
	// the Works.
	InventoryKarmada Inventory = "karmada"
)

// Options are what a hub is started with.
type Options struct {
	// MetricsBindAddress and HealthProbeBindAddress are host:port; "0" switches the server off.
	MetricsBindAddress     string
	HealthProbeBindAddress string
	// LeaderElection lets one of several hubs act, by a Lease in LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	// Inventory is where members come from: InventoryAgent, also where it is empty, or InventoryKarmada.
	Inventory Inventory
	// RunsNoWorkloads: the hub's API server has no controllers for the workloads of apps/v1 and batch/v1, so that members
	// get copies of those which policies select. On a hub that has them every pod would run there, too.
	RunsNoWorkloads bool
	// ClusterProfiles is the namespace in which members are published as ClusterProfiles, empty for nowhere.
	ClusterProfiles string
	// ChecksReachLocal lets checks of waves ask addresses of the hub's own machine and link.
	ChecksReachLocal bool
	// WebhookServer serves what is registered on it; nil for none.
	WebhookServer webhook.Server
	// Kinds are the kinds that the hub places; nil: those of kinds.All.
	Kinds kinds.Table
	// Clock tells the time; nil is the real clock.
	Clock clock.PassiveClock
	// Tracing takes the spans of changes; its ids are of tracing.IDs. nil: nothing is traced.
	Tracing trace.TracerProvider
	// SkipNameValidation allows several managers in one process, for tests.
	SkipNameValidation bool
	Logger             logr.Logger
}

// Scheme returns a scheme with the types that the hub reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, apps.AddToScheme, v1alpha1.AddHubToScheme,
		budgets.AddToScheme, topology.AddToScheme, work.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// NewManager returns a manager that runs the hub's controllers once it is started. It reads the hub's id from cfg's API
// server. cfg is not changed.
func NewManager(ctx context.Context, cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // the API server's priority and fairness limits us, not a bucket in the client
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	mgr, err := contact.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        o.Logger,
		Cache:                         cacheOptions(o.ClusterProfiles),
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress:        o.HealthProbeBindAddress,
		WebhookServer:                 o.WebhookServer,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              LeaderElectionID,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: new(o.SkipNameValidation)},
	}, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add readiness check: %w", err)
	}
	return mgr, Setup(ctx, mgr, o)
}

// Setup adds all controllers of the hub to the manager. This list is the whole of it. Of the options it takes the
// clock, where members come from and are published, what the hub runs itself, what checks may reach, and where traces
// go.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	clk := o.Clock
	if clk == nil {
		clk = clock.RealClock{}
	}
	hubID, err := store.HubID(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	if err := store.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	rules := o.Kinds
	if rules == nil {
		rules = kinds.All(kinds.BuiltIns(o.RunsNoWorkloads))
	}
	outcomes, watching, asker := placement.NewOutcomes(), store.NewWatching(), checks.NewAsker(clk, o.ChecksReachLocal)
	heard, news := contact.New(mgr.GetAPIReader(), clk), contact.NewNews()
	tracer := tracing.New(o.Tracing)
	onKarmada, newsOf := o.Inventory == InventoryKarmada, news.Of
	if onKarmada {
		newsOf = nil // Karmada hears its members, and says in Ready whether it does
	}
	measures := meter.New(metrics.Registry, mgr.GetClient(), rules, clk)
	for _, setup := range []func() error{
		func() error { return mgr.Add(heard) },
		func() error { return mgr.Add(measures) },
		func() error { return mgr.Add(asker) },
		func() error {
			if onKarmada {
				return karmada.Setup(mgr, clk, hubID)
			}
			return agent.Setup(mgr, rules, clk, heard.Since, news, hubID, measures)
		},
		func() error {
			return placement.Setup(mgr, rules, clk, heard.Since, newsOf, hubID, outcomes, watching, measures, asker, tracer,
				onKarmada)
		},
		func() error { return policy.Setup(mgr, rules, clk, watching) },
		func() error { return delivery.Setup(mgr, rules, clk, hubID, outcomes, watching, tracer, onKarmada) },
		func() error {
			if o.ClusterProfiles == "" {
				return nil
			}
			return profiles.Setup(mgr, clk, o.ClusterProfiles)
		},
		func() error { return aggregate.Setup(mgr, rules, clk, hubID, outcomes, measures, tracer) },
		func() error { return expiry.Setup(mgr, rules, clk) },
	} {
		if err := setup(); err != nil {
			return err
		}
	}
	return nil
}

// cacheOptions keeps what is read: of ClusterProfiles those of one namespace, no managed fields anywhere, and of the
// Leases that are no member's only the name, for a cluster of many nodes has one for each.
func cacheOptions(clusterProfiles string) cache.Options {
	stripManaged := cache.TransformStripManagedFields()
	strip := func(o any) (any, error) {
		// Of an object whose metadata alone is kept, what kubectl notes of it is the whole object.
		if meta, ok := o.(*metav1.PartialObjectMetadata); ok {
			delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
		}
		// A Cluster of Karmada lists all APIs of the member, tens of kB that decide nothing.
		if u, ok := o.(*unstructured.Unstructured); ok {
			unstructured.RemoveNestedField(u.Object, "status", "apiEnablements")
		}
		return stripManaged(o)
	}
	options := cache.Options{
		DefaultTransform: strip,
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}: {Transform: func(o any) (any, error) {
				if lease, ok := o.(*coordinationv1.Lease); ok {
					if _, member := wire.MemberOf(lease.Namespace); !member {
						lease.Spec = coordinationv1.LeaseSpec{}
						lease.Annotations, lease.Labels, lease.OwnerReferences = nil, nil, nil
					}
				}
				return strip(o)
			}},
		},
	}
	if clusterProfiles != "" {
		options.ByObject[profiles.Object()] = cache.ByObject{Namespaces: map[string]cache.Config{clusterProfiles: {}}}
	}
	return options
}
