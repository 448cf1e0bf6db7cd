package capi

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// workers is how many Clusters are worked on at the same time: one that hangs for answerWithin keeps few others
// waiting.
const workers = 8

// Options are what the program is started with.
type Options struct {
	// HubServer is the URL of the hub's API server as members reach it, HubCA what it is known by, in PEM; empty for the
	// machine's authorities.
	HubServer, HubCA string
	// DrainTimeout is how long a drain takes at most, where its Cluster says nothing.
	DrainTimeout time.Duration
	// MetricsBindAddress and HealthProbeBindAddress are host:port; "0" switches the server off.
	MetricsBindAddress     string
	HealthProbeBindAddress string
	// LeaderElection lets one of several act, by a Lease of the hub in LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	Clock                   clock.PassiveClock
	Logger                  logr.Logger
}

// Scheme returns a scheme with the types that the program reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme, err := registration.Scheme()
	if err != nil {
		return nil, err
	}
	if err := clusterv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return scheme, nil
}

// NewManager returns a manager that runs the controller once it is started. management is where Cluster API runs, nil
// for the hub itself.
func NewManager(hub, management *rest.Config, dial Dial, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	hub = rest.CopyConfig(hub)
	hub.QPS = -1 // the API server's priority and fairness limits us, not a bucket in the client
	strip := cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	mgr, err := ctrl.NewManager(hub, ctrl.Options{
		Scheme: scheme, Logger: o.Logger, Cache: strip,
		Metrics: metricsserver.Options{BindAddress: o.MetricsBindAddress}, HealthProbeBindAddress: o.HealthProbeBindAddress,
		LeaderElection: o.LeaderElection, LeaderElectionID: program, LeaderElectionNamespace: o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return nil, fmt.Errorf("add a check of health: %w", err)
		}
	}
	var there cluster.Cluster = mgr
	if management != nil {
		management = rest.CopyConfig(management)
		management.QPS = -1
		if there, err = cluster.New(management, func(c *cluster.Options) {
			c.Scheme, c.Logger, c.Cache = scheme, o.Logger,
				strip
		}); err != nil {
			return nil, fmt.Errorf("connect to the management cluster: %w", err)
		}
		if err := mgr.Add(there); err != nil {
			return nil, fmt.Errorf("watch the management cluster: %w", err)
		}
	}
	return mgr, setup(mgr, there, dial, o)
}

// setup adds the controller to a manager of the hub. there is where Cluster API runs.
func setup(mgr ctrl.Manager, there cluster.Cluster, dial Dial, o Options) error {
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("connect to the hub: %w", err)
	}
	r := &Reconciler{
		hub: live, management: there.GetClient(), managementLive: there.GetAPIReader(), dial: dial,
		events: there.GetEventRecorder(program), clock: o.Clock, options: o,
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("clusterapi").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(source.Kind(there.GetCache(), &clusterv1.Cluster{},
			&handler.TypedEnqueueRequestForObject[*clusterv1.Cluster]{}, clusterChanged())).
		WatchesRawSource(source.Kind(there.GetCache(), &clusterv1.Machine{},
			handler.TypedEnqueueRequestsFromMapFunc(clusterOfMachine), machineChanged())).
		Watches(&topology.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(clusterOfMember),
			builder.WithPredicates(memberChanged())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller clusterapi: %w", err)
	}
	return nil
}

func clusterOfMachine(_ context.Context, m *clusterv1.Machine) []ctrl.Request {
	name := m.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: name}}}
}

func clusterOfMember(_ context.Context, o client.Object) []ctrl.Request {
	namespace, name, ok := strings.Cut(o.GetAnnotations()[topology.AnnotationClusterAPI], "/")
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// clusterChanged lets through what a join depends on; conditions are not, our own among them: an attempt would bring on
// the next.
func clusterChanged() predicate.TypedPredicate[*clusterv1.Cluster] {
	return predicate.TypedFuncs[*clusterv1.Cluster]{UpdateFunc: func(e event.TypedUpdateEvent[*clusterv1.Cluster]) bool {
		before, now := e.ObjectOld, e.ObjectNew
		return before.Generation != now.Generation || !maps.Equal(before.Labels, now.Labels) ||
			!maps.Equal(before.Annotations, now.Annotations) ||
			(before.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
			len(before.Status.FailureDomains) != len(now.Status.FailureDomains) ||
			initialized(before) != initialized(now)
	}}
}

func initialized(c *clusterv1.Cluster) bool {
	done := c.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done
}

// machineChanged lets through Machines that come, go, or have a node.
func machineChanged() predicate.TypedPredicate[*clusterv1.Machine] {
	return predicate.TypedFuncs[*clusterv1.Machine]{UpdateFunc: func(e event.TypedUpdateEvent[*clusterv1.Machine]) bool {
		before, now := e.ObjectOld, e.ObjectNew
		return before.Status.NodeRef != now.Status.NodeRef || before.Status.FailureDomain != now.Status.FailureDomain ||
			(before.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
			before.Annotations[topology.MachineHook] != now.Annotations[topology.MachineHook]
	}}
}

// memberChanged lets through what people say of a member, whether it is heard of, and its zones.
func memberChanged() predicate.Predicate {
	ready := func(m *topology.MemberCluster) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady)
	}
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*topology.MemberCluster), e.ObjectNew.(*topology.MemberCluster)
			return ready(before) != ready(now) || len(before.Status.Zones) != len(now.Status.Zones) ||
				!maps.Equal(before.Labels, now.Labels)
		}},
	)
}
