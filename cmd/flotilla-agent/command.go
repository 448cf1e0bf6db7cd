package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/cmd/internal/clocks"
	"github.com/flotilla-dev/flotilla/cmd/internal/logs"
	"github.com/flotilla-dev/flotilla/cmd/internal/serving"
	"github.com/flotilla-dev/flotilla/cmd/internal/tracing"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
	"github.com/flotilla-dev/flotilla/member-agent/admission/deletion"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/expiry"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/servertime"
	"github.com/flotilla-dev/flotilla/member-agent/link/dial"
	requests "github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest/guard"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/guard"
)

// program is the name of this one, of its Service and of its Lease.
const program = "flotilla-agent"

// flags of the command. It has a flag set of its own: the client library puts a flag --kubeconfig into the process-wide
// one.
type flags struct {
	kubeconfig, hubKubeconfig, clusterName string
	hubSecret                              string
	hubKind                                string
	metricsAddress, healthAddress          string
	leaderElect                            bool
	leaderNamespace                        string
	webhook                                serving.Flags
	workers                                int
	allowKinds, allowNamespaces            []string
	cloneSetShortHash                      bool
	resourceDistribution, pullSecrets      bool
	besideOpenKruise                       bool
	logLevel, logFormat                    string
}

func newCommand() *cobra.Command {
	f := &flags{}
	command := &cobra.Command{
		Use:   "flotilla-agent",
		Short: "Runs workloads in a member cluster, on its own or for a hub",
		Long: "flotilla-agent runs the workload controllers (AdvancedCronJob, BroadcastJob, CloneSet, DaemonSet, " +
			"ResourceDistribution, SidecarSet, StatefulSet, UnitedDeployment) of one cluster.\n" +
			"With --hub-secret, or with --hub-kubeconfig and --cluster-name, it also carries out a hub's orders and reports " +
			"back.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		RunE:          func(command *cobra.Command, _ []string) error { return run(command.Context(), f) },
	}
	set := command.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "path of the member's kubeconfig; "+
		"empty means $KUBECONFIG, then the pod's own service account, then ~/.kube/config")
	set.StringVar(&f.hubKubeconfig, "hub-kubeconfig", "", "path of a kubeconfig for the hub; empty means no hub")
	set.StringVar(&f.clusterName, "cluster-name", "",
		"name of this cluster's MemberCluster on the hub; needed with --hub-kubeconfig")
	set.StringVar(&f.hubSecret, "hub-secret", "", "name of the Secret in the namespace of --leader-election-namespace "+
		"by which flotilla join tells of the hub, usually flotilla-join; in place of --hub-kubeconfig and --cluster-name")
	set.StringVar(&f.hubKind, "hub-kind", string(memberagent.HubFlotilla), "whose hub that is: flotilla; "+
		"or karmada, whose own agent then runs without its controllers execution and workStatus. "+
		"karmada needs --hub-kubeconfig")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "address that serves metrics; 0 turns them off")
	set.StringVar(&f.healthAddress, "health-probe-bind-address", ":8081",
		"address that serves /healthz and /readyz; 0 turns them off")
	set.BoolVar(&f.leaderElect, "leader-elect", true,
		"work only while holding a Lease in the member; needed with more than one replica")
	set.StringVar(&f.leaderNamespace, "leader-election-namespace", "flotilla-system", "namespace of that Lease in the "+
		"member, of the copies of Works, and of the webhook's Secret and Service; made if it does not exist")
	f.webhook.Add(set, program)
	set.IntVar(&f.workers, "workers", 16, "objects of each kind that are worked on at the same time")
	set.StringSliceVar(&f.allowKinds, "allow-kinds", apply.Carried(),
		"kinds of which the hub may bring objects into the member; other orders are refused with the reason NotAllowed")
	set.StringSliceVar(&f.allowNamespaces, "allow-namespaces", nil, "namespaces into which the hub may bring objects: "+
		"names, or beginnings of names that end with *, such as shop,team-*; empty for all; "+
		"other orders are refused with the reason NotAllowed")
	set.BoolVar(&f.cloneSetShortHash, "cloneset-short-hash", false, "new pods of CloneSets name their revision in the "+
		"label controller-revision-hash by its hash alone, as with OpenKruise's gate CloneSetShortHash; "+
		"pods that are there stay as they are")
	set.BoolVar(&f.resourceDistribution, "resource-distribution", false, "carry out ResourceDistributions; "+
		"the agent needs the right to read and write the Secrets and ConfigMaps of all namespaces")
	set.BoolVar(&f.besideOpenKruise, "beside-openkruise", false, "start although an OpenKruise manager runs in the "+
		"member; both act on the same pods, so that this is for managers whose controllers are turned off")
	set.BoolVar(&f.pullSecrets, "pull-secrets", false, "copy the Secrets that running ImagePullJobs name into the "+
		"namespace of the agent, for the daemons of nodes; the agent needs the right to get the Secrets of all namespaces")
	set.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	set.StringVar(&f.logFormat, "log-format", "text", "text or json")
	return command
}

// validate returns what is wrong with the flags. It sends no requests.
func (f *flags) validate() error {
	if err := f.validateHub(); err != nil {
		return err
	}
	if err := f.validateKarmada(); err != nil {
		return err
	}
	if f.workers < 1 {
		return fmt.Errorf("--workers %d must be at least 1", f.workers)
	}
	return f.webhook.Validate()
}

// validateHub checks the flags that say which hub that is, and who this member is there.
func (f *flags) validateHub() error {
	name := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	const longestName = 52 // as the MemberCluster type says
	switch {
	case f.hubSecret != "" && f.hubKubeconfig+f.clusterName != "":
		return fmt.Errorf("--hub-secret %s says all of the hub: leave out --hub-kubeconfig and --cluster-name", f.hubSecret)
	case f.hubKubeconfig != "" && f.clusterName == "":
		return errors.New("--hub-kubeconfig needs --cluster-name: the name of this cluster's MemberCluster on the hub")
	case f.hubKubeconfig == "" && f.clusterName != "":
		return fmt.Errorf("--cluster-name %s needs --hub-kubeconfig: the path of a kubeconfig for the hub; "+
			"leave both out to run without a hub", f.clusterName)
	case f.clusterName != "" && (len(f.clusterName) > longestName || !name.MatchString(f.clusterName)):
		return fmt.Errorf("--cluster-name %q is not a DNS label of at most %d characters (a-z, 0-9, -)",
			f.clusterName, longestName)
	case f.hubKind != string(memberagent.HubFlotilla) && f.hubKind != string(memberagent.HubKarmada):
		return fmt.Errorf("--hub-kind %q is neither %s nor %s", f.hubKind, memberagent.HubFlotilla, memberagent.HubKarmada)
	}
	return nil
}

// validateKarmada checks the flags that a hub of Karmada needs, or cannot have.
func (f *flags) validateKarmada() error {
	switch {
	case f.hubKind != string(memberagent.HubKarmada):
		return nil
	case f.hubKubeconfig == "":
		return errors.New("--hub-kind karmada needs --hub-kubeconfig and --cluster-name: " +
			"the kubeconfig of Karmada's API server, and the name of this cluster's Cluster there")
	case !slices.Equal(f.allowKinds, apply.Carried()):
		return errors.New("--allow-kinds is not for --hub-kind karmada: " +
			"a hub of Karmada brings what the agent's rights in the member allow; " +
			"leave it out, and give the agent less rights")
	case len(f.allowNamespaces) > 0:
		return fmt.Errorf("--allow-namespaces %s is not for --hub-kind karmada: "+
			"a hub of Karmada brings what the agent's rights in the member allow; "+
			"leave it out, and give the agent its rights in these namespaces alone", strings.Join(f.allowNamespaces, ","))
	}
	return nil
}

func run(ctx context.Context, f *flags) error {
	if err := f.validate(); err != nil {
		return err
	}
	log, err := logs.New(f.logLevel, f.logFormat)
	if err != nil {
		return err
	}
	allowed, err := apply.Allow(f.allowKinds, f.allowNamespaces)
	if err != nil {
		return fmt.Errorf("--allow-kinds, --allow-namespaces: %w", err)
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	member, err := memberConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	options, err := f.options(ctx, member, log, allowed)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := memberagent.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, hooks, err := newManager(ctx, f, member, scheme, log)
	if err != nil {
		return err
	}
	if err := f.alone(ctx, member, scheme, log.WithName("openkruise")); err != nil {
		return err
	}
	if hooks != nil {
		if err := hooks.Setup(mgr); err != nil {
			return err
		}
		options.Webhooks = hooks
	}
	provider, stop, err := tracing.Start(ctx, program, version(), log)
	if err != nil {
		return err
	}
	defer stop()
	options.Tracing = provider
	if err := memberagent.Setup(ctx, mgr, options); err != nil {
		return err
	}
	if options.Credential != nil {
		if err := mgr.Add(expiry.New(metrics.Registry, "hub", options.Credential.Valid)); err != nil {
			return fmt.Errorf("add the metric of the certificate: %w", err)
		}
	}
	log.Info("flotilla-agent starts", "version", options.Version, "member", member.Host, "cluster", options.ClusterName,
		"hub", hubHost(options.Hub))
	return mgr.Start(ctx)
}

// options are the agent's options, as the flags ask for them. It makes the member's configuration tell the time of its
// API server.
func (f *flags) options(
	ctx context.Context, member *rest.Config, log logr.Logger, allowed apply.Allowed,
) (memberagent.Options, error) {
	options := memberagent.Options{
		ClusterName: f.clusterName, Namespace: f.leaderNamespace, Version: version(), Workers: f.workers,
		Clock: clocks.New(), CloneSetShortHash: f.cloneSetShortHash, Distributes: f.resourceDistribution,
		PullSecrets: f.pullSecrets, Allowed: allowed,
	}
	memberTime := servertime.New(options.Clock, log.WithName("clock"))
	member.Wrap(memberTime.Wrap)
	options.MemberClock = memberTime
	options.HubKind = memberagent.HubKind(f.hubKind)
	var err error
	switch {
	case f.hubKubeconfig != "":
		options.Hub, err = loadConfig("--hub-kubeconfig", f.hubKubeconfig)
	case f.hubSecret != "":
		err = f.joined(ctx, member, log, &options)
	}
	return options, err
}

func hubHost(hub *rest.Config) string {
	if hub == nil {
		return "none"
	}
	return hub.Host
}

// newManager returns the manager, and its webhook server or nil.
func newManager(
	ctx context.Context, f *flags, member *rest.Config, scheme *runtime.Scheme, log logr.Logger,
) (ctrl.Manager, *serving.Server, error) {
	if f.leaderElect || f.webhook.On() {
		if err := ensureNamespace(ctx, member, scheme, f.leaderNamespace); err != nil {
			return nil, nil, err
		}
	}
	options := ctrl.Options{
		Scheme:                        scheme,
		Logger:                        log,
		Cache:                         memberagent.CacheOptions(),
		Controller:                    config.Controller{CacheSyncTimeout: memberagent.CacheSyncTimeout},
		Metrics:                       server.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress:        f.healthAddress,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              program,
		LeaderElectionNamespace:       f.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
	}
	var hooks *serving.Server
	if f.webhook.On() {
		deletions, err := f.webhook.Deletions(member, deletion.Configuration, deletion.Pods())
		if err != nil {
			return nil, nil, err
		}
		sets, err := client.New(member, client.Options{Scheme: scheme})
		if err != nil {
			return nil, nil, fmt.Errorf("connect to the member at %s: %w", member.Host, err)
		}
		hooks, err = serving.New(member, serving.Options{
			Flags: f.webhook, Program: program, Namespace: f.leaderNamespace, Clock: clocks.New(), Log: log.WithName("webhook"),
			Validating: []serving.Validating{deletions, {
				Name: guard.Configuration, Path: guard.Path, Webhook: guard.Webhook(),
				Handler: admission.HandlerFunc(guard.New(sets).Handle),
			}},
			Mutating: []serving.Mutating{{
				Name: requests.Configuration, Path: requests.Path, Webhook: requests.Webhook(),
				Handler: admission.HandlerFunc(requests.New(sets).Handle),
			}},
		})
		if err != nil {
			return nil, nil, err
		}
		options.WebhookServer = hooks
	}
	mgr, err := ctrl.NewManager(member, options)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the agent for the member at %s: %w", member.Host, err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", func(*http.Request) error { return nil }); err != nil {
			return nil, nil, fmt.Errorf("set up health checks: %w", err)
		}
	}
	return mgr, hooks, nil
}

// ensureNamespace makes the namespace of the leader's Lease and the webhook's Secret. Where the
// agent may not, someone else has made it.
func ensureNamespace(ctx context.Context, member *rest.Config, scheme *runtime.Scheme, name string) error {
	c, err := client.New(member, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the member at %s: %w", member.Host, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	switch err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("the member at %s does not answer; check --kubeconfig and that its API server runs: %w",
			member.Host, err)
	}
	err = c.Create(ctx, namespace)
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("create namespace %s for the leader's Lease and the webhook's Secret in the member: %w", name, err)
	}
	return nil
}

func memberConfig(path string) (*rest.Config, error) {
	if path != "" {
		return loadConfig("--kubeconfig", path)
	}
	found, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no kubeconfig for the member: give --kubeconfig, set KUBECONFIG, "+
			"or run in a pod of the member: %w", err)
	}
	return unlimited(found), nil
}

func loadConfig(flag, path string) (*rest.Config, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	loaded, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("%s %s is no usable kubeconfig: %w", flag, path, err)
	}
	return unlimited(loaded), nil
}

// unlimited turns off the limit in the client: the API server's priority and fairness protects the server better. Its
// watches come back soon after an outage.
func unlimited(c *rest.Config) *rest.Config {
	c.QPS = -1
	c.UserAgent = "flotilla-agent/" + version()
	return dial.Watchful(c)
}

// version is what the build stamped: a tag, or a commit.
func version() string { return componentversion.Get().GitVersion }
