package memberagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
	"github.com/flotilla-dev/flotilla/member-agent/karmada"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
	"github.com/flotilla-dev/flotilla/member-agent/link"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
	"github.com/flotilla-dev/flotilla/member-agent/meter"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/orphans"
	"github.com/flotilla-dev/flotilla/member-agent/report"
	"github.com/flotilla-dev/flotilla/member-agent/tracing"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/advancedcronjob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/broadcastjob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/daemonset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/ephemeraljob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/imagelistpulljob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/imagepulljob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/launchpriority"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/nodeimage"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/persistentpodstate"
	podstates "github.com/flotilla-dev/flotilla/member-agent/workloads/persistentpodstate/mutator"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podprobemarker"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/resourcedistribution"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset"
	sidecars "github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/mutator"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/statefulset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/uniteddeployment"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/workloadspread"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/workloadspread/mutator"
)

// CacheSyncTimeout is for the manager's controllers: how long one waits for what it watches. A member whose
// CustomResourceDefinitions come later must not make the agent end: the other kinds run meanwhile.
const CacheSyncTimeout = 365 * 24 * time.Hour

// HubKind is whose Works the agent carries out.
type HubKind string

// The kinds of hubs.
const (
	HubFlotilla HubKind = "flotilla"
	// HubKarmada: the Works of a Cluster of Karmada. Karmada's own agent registers the cluster and tells its status.
	HubKarmada HubKind = "karmada"
)

// Options of the agent.
type Options struct {
	// Hub reaches the hub; nil runs the workload controllers alone.
	Hub *rest.Config
	// HubKind is whose hub that is; empty is HubFlotilla.
	HubKind HubKind
	// Credential keeps the certificate that Hub is reached with; nil: Hub has its own.
	Credential *credential.Manager
	// ClusterName is the name of the MemberCluster on the hub. A hub needs it; alone it may be empty.
	ClusterName string
	// Namespace of the member that has the agent's own objects: its copies of Works. A hub needs it.
	Namespace string
	// Version of the agent, for MemberCluster.status.
	Version string
	// Kinds are the kinds that the agent runs; nil: those of Kinds.
	Kinds []Kind
	// Allowed is what a hub may bring; the zero value for all.
	Allowed apply.Allowed
	// Workers is how many objects of each kind are worked on at the same time, at least 1.
	Workers int
	// Clock is the time.
	Clock clock.WithTicker
	// MemberClock is the time of the member's API server, by which workload controllers count the ages of pods; nil:
	// Clock.
	MemberClock clock.WithTicker
	// CloneSetShortHash is workload.Env.ShortHash.
	CloneSetShortHash bool
	// Distributes is workload.Env.Distributes.
	Distributes bool
	// PullSecrets is workload.Env.PullSecrets.
	PullSecrets bool
	// Tracing takes the spans of what is done for orders; nil: nothing is traced.
	Tracing trace.TracerProvider
	// Webhooks is the webhook server of this replica; nil: there is none.
	Webhooks admission.Server

	// refusals are the pods that may not restart in place now.
	refusals *restarts.Refusals
}

// AddToScheme registers every type that the agent's manager works with in the member.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apps.AddToScheme, appsv1alpha1.AddToScheme, policy.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register types: %w", err)
		}
	}
	return nil
}

// CacheOptions are the manager's cache options: of pods, nodes, ReplicaSets and Jobs it keeps what is read, and of
// everything else all but managedFields, which are a third of many objects. Of all webhook configurations it watches
// our own.
func CacheOptions() cache.Options {
	return cache.Options{DefaultTransform: podset.NewSlim(), ByObject: map[client.Object]cache.ByObject{
		&appsv1.ReplicaSet{}: {Transform: mutator.Slim},
		&batchv1.Job{}:       {Transform: mutator.Slim},
		&corev1.Node{}:       {Transform: workload.SlimNode},
		&admissionregistrationv1.MutatingWebhookConfiguration{}: {
			Field:     fields.OneTermEqualSelector(metav1.ObjectNameField, admission.ConfigurationName),
			Transform: cache.TransformStripManagedFields(),
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: {
			Field:     fields.OneTermEqualSelector(metav1.ObjectNameField, admission.ConfigurationName),
			Transform: cache.TransformStripManagedFields(),
		},
	}}
}

// Setup adds every controller of the agent to the manager. This is the one list of them. It asks nothing of the hub.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.MemberClock == nil {
		options.MemberClock = options.Clock
	}
	if options.Kinds == nil {
		options.Kinds = Kinds()
	}
	options.refusals = &restarts.Refusals{}
	if options.Hub == nil {
		return setupWorkloads(ctx, mgr, options, &gate{})
	}
	if options.HubKind == HubKarmada {
		// Karmada lends nothing: the limits in its manifests are the member's own.
		return errors.Join(setupWorkloads(ctx, mgr, options, &gate{}),
			karmada.Setup(mgr, karmada.Options{Hub: options.Hub, ClusterName: options.ClusterName, Workers: options.Workers,
				Kinds: Reporting(options.Kinds), Clock: options.Clock}))
	}
	kept := copies.New(copies.Options{
		Writer: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: options.Namespace, ClusterName: options.ClusterName,
		Log: mgr.GetLogger().WithName("copies"),
	})
	hub, err := link.New(link.Config{
		Hub: options.Hub, ClusterName: options.ClusterName, AgentVersion: options.Version, Copies: kept,
		Clock: options.Clock, Log: mgr.GetLogger().WithName("link"),
	}, mgr)
	if err != nil {
		return fmt.Errorf("set up the link to the hub: %w", err)
	}
	generations := apply.NewGenerations()
	if err := setupWorkloads(ctx, mgr, options, &gate{hub: hub, generations: generations}); err != nil {
		return err
	}
	return setupHub(ctx, mgr, options, hub, kept, generations)
}

// Kind is a kind that the agent runs.
type Kind struct {
	GVK schema.GroupVersionKind
	// Add adds its controller to the manager.
	Add func(context.Context, *workload.Env) error
	// New returns an object of the kind; PassedOn returns the sequence of the newest order of such an object that one of
	// its own objects carries out. Both are nil for kinds that hand no budget to workloads that they own.
	New      func() client.Object
	PassedOn func(owner, owned client.Object) int64
	// Reporting is what a report asks; nil for a kind of which a hub grants nothing.
	Reporting func() workload.Reporting
}

// Kinds is the one list of kinds.
func Kinds() []Kind {
	return []Kind{
		{GVK: apps.AdvancedCronJobKind, Add: advancedcronjob.Add, Reporting: advancedcronjob.Reporting},
		{GVK: apps.BroadcastJobKind, Add: broadcastjob.Add, Reporting: broadcastjob.Reporting},
		{GVK: apps.CloneSetKind, Add: cloneset.Add, Reporting: cloneset.Reporting},
		{GVK: apps.ContainerRecreateRequestKind, Add: containerrecreaterequest.Add},
		{GVK: apps.DaemonSetKind, Add: daemonset.Add, Reporting: daemonset.Reporting},
		{GVK: apps.ImageListPullJobKind, Add: imagelistpulljob.Add},
		{GVK: apps.ImagePullJobKind, Add: imagepulljob.Add, Reporting: imagepulljob.Reporting},
		{GVK: apps.NodeImageKind, Add: nodeimage.Add},
		{GVK: appsv1alpha1.EphemeralJobKind, Add: ephemeraljob.Add},
		{GVK: apps.PersistentPodStateKind, Add: persistentpodstate.Add},
		{GVK: appsv1alpha1.PodProbeMarkerKind, Add: podprobemarker.Add, Reporting: podprobemarker.Reporting},
		{GVK: policy.PodUnavailableBudgetKind, Add: podunavailablebudget.Add,
			Reporting: podunavailablebudget.Reporting},
		{GVK: apps.ResourceDistributionKind, Add: resourcedistribution.Add,
			Reporting: resourcedistribution.Reporting},
		{GVK: apps.SidecarSetKind, Add: sidecarset.Add, Reporting: sidecarset.Reporting},
		{GVK: apps.StatefulSetKind, Add: statefulset.Add, Reporting: statefulset.Reporting},
		{GVK: apps.UnitedDeploymentKind, Add: uniteddeployment.Add, Reporting: uniteddeployment.Reporting,
			New: func() client.Object { return &apps.UnitedDeployment{} }, PassedOn: uniteddeployment.PassedOn},
		{GVK: apps.WorkloadSpreadKind, Add: workloadspread.Add},
	}
}

// Reporting returns what reports ask about those kinds whose objects use what a hub grants.
func Reporting(kinds []Kind) report.Kinds {
	out := report.Kinds{}
	for _, kind := range kinds {
		if kind.Reporting != nil {
			out[kind.GVK.GroupKind()] = kind.Reporting()
		}
	}
	return out
}

// setupWorkloads adds stage 5: one controller per kind, and the admission of pods whose workloads are not ours.
func setupWorkloads(ctx context.Context, mgr ctrl.Manager, options Options, g *gate) error {
	g.client, g.kinds = mgr.GetClient(), options.Kinds
	keeper, err := budgets.New(mgr, budgets.Options{Clock: options.MemberClock, Federated: g.federated, Gate: g})
	if err != nil {
		return err
	}
	env := &workload.Env{
		Manager: mgr, Clock: options.MemberClock, Workers: options.Workers, ClusterName: options.ClusterName,
		ShortHash: options.CloneSetShortHash, Distributes: options.Distributes, PullSecrets: options.PullSecrets,
		Namespace: options.Namespace, Gate: g, Disruptions: keeper,
		Refusals: options.refusals,
	}
	for _, kind := range g.kinds {
		if err := kind.Add(ctx, env); err != nil {
			return err
		}
	}
	if err := launchpriority.Add(mgr); err != nil {
		return err
	}
	return setupAdmission(ctx, mgr, options, g, keeper)
}

// setupAdmission adds the admission of pods. This is the one list of those that change new pods, in this order, and of
// those that decide about existing ones.
func setupAdmission(
	ctx context.Context, mgr ctrl.Manager, options Options, g *gate, keeper *budgets.Keeper,
) error {
	var mutators []admission.Mutator
	if options.Webhooks != nil {
		spreads, err := mutator.New(ctx, mgr, mutator.Options{Clock: options.MemberClock, Federated: g.federated})
		if err != nil {
			return err
		}
		injected, err := sidecars.New(ctx, mgr, sidecars.Options{
			Clock: options.MemberClock, Namespaces: sidecarset.Namespaces(options.Namespace), Federated: g.Federated,
		})
		if err != nil {
			return err
		}
		related, err := keeper.Mutator(mgr)
		if err != nil {
			return err
		}
		states, err := podstates.New(mgr, g.federated)
		if err != nil {
			return err
		}
		mutators = append(mutators, spreads, injected, launchpriority.New(), related, states)
	}
	return admission.Setup(mgr, admission.Options{
		Server: options.Webhooks, Mutators: mutators, Guards: []admission.Guard{keeper.Guard()},
		Clock: options.MemberClock,
	})
}

// setupHub adds stages 4 and 6 and the link that they use.
func setupHub(ctx context.Context, mgr ctrl.Manager, options Options, hub *link.Link, kept *copies.Store,
	generations *apply.Generations) error {
	store, err := objects.New(mgr.GetConfig(), mgr.GetRESTMapper(), topology.LabelHub)
	if err != nil {
		return fmt.Errorf("set up the store of member objects: %w", err)
	}
	runnables := []manager.Runnable{hub, store}
	if options.Credential != nil {
		runnables = append(runnables, options.Credential)
	}
	for _, runnable := range runnables {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("add to the manager: %w", err)
		}
	}
	outcomes := apply.NewOutcomes()
	measures := meter.New(metrics.Registry, meter.Sources{
		Contact: hub.Contact, MayExecuteNew: hub.MayExecuteNew, Orders: outcomes.Count, Corrections: outcomes.Corrections,
		Orphans: hub.Orphans,
	})
	if err := mgr.Add(measures); err != nil {
		return fmt.Errorf("add to the manager: %w", err)
	}
	tracer := tracing.New(options.Tracing, options.ClusterName)
	if err := apply.Setup(mgr, apply.Options{
		Hub: hub, Objects: store, Outcomes: outcomes, Copies: kept, Generations: generations, Allowed: options.Allowed,
		Workers: options.Workers, Clock: options.Clock, Tracer: tracer,
	}); err != nil {
		return err
	}
	if err := orphans.Setup(mgr, orphans.Options{
		Hub: hub, Objects: store, Copies: kept, Kinds: options.Allowed.GroupKinds(), Clock: options.Clock,
	}); err != nil {
		return err
	}
	return report.Setup(ctx, mgr, report.Options{
		Hub: hub, Objects: store, Outcomes: outcomes, Kinds: Reporting(options.Kinds), Workers: options.Workers,
		Clock: options.Clock, MemberClock: options.MemberClock, Tracer: tracer,
		Refusals: options.refusals,
	})
}
