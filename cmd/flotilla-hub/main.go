// flotilla-hub runs the hub's controllers: it divides workloads over member clusters and sums what they report.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/internal/clocks"
	"github.com/flotilla-dev/flotilla/cmd/internal/logs"
	_ "github.com/flotilla-dev/flotilla/cmd/internal/roots" // its image has no certificates of authorities
	"github.com/flotilla-dev/flotilla/cmd/internal/serving"
	"github.com/flotilla-dev/flotilla/cmd/internal/tracing"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/member-agent/admission/deletion"
	"github.com/flotilla-dev/flotilla/member-agent/link/dial"
)

// program is the name of this one and of its Service.
const program = "flotilla-hub"

func main() {
	os.Exit(run())
}

// run executes the command line and returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flotilla-hub:", err)
		return 1
	}
	return 0
}

// flags are what the command line says.
type flags struct {
	kubeconfig string
	options    hub.Options
	runs       bool
	webhook    serving.Flags
	logLevel   string
	logFormat  string
}

func command() *cobra.Command {
	f := &flags{options: hub.Options{Clock: clocks.New()}}
	cmd := &cobra.Command{
		Use:           "flotilla-hub",
		Short:         "Divides workloads over member clusters and sums what they report",
		Args:          cobra.NoArgs,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	s := cmd.Flags()
	s.StringVar(
		&f.kubeconfig,
		"kubeconfig",
		"",
		"kubeconfig of the hub's API server; empty: KUBECONFIG, then the pod's own",
	)
	s.StringVar(&f.options.MetricsBindAddress, "metrics-bind-address", ":8080", "address of /metrics, \"0\" for none")
	s.StringVar(
		&f.options.HealthProbeBindAddress,
		"health-probe-bind-address",
		":8081",
		"address of /healthz and /readyz, \"0\" for none",
	)
	s.BoolVar(&f.options.LeaderElection, "leader-elect", true, "let one of several hubs act, by a Lease")
	s.StringVar(
		&f.options.LeaderElectionNamespace,
		"leader-election-namespace",
		"flotilla-system",
		"namespace of that Lease, and of the webhook's Secret and Service; made if it does not exist",
	)
	s.StringVar(
		(*string)(&f.options.Inventory),
		"inventory",
		string(hub.InventoryAgent),
		"where members come from: agent, clusters that join by flotilla-agent; or karmada, the Clusters of the Karmada "+
			"whose API server this is",
	)
	s.BoolVar(
		&f.runs,
		"hub-runs-workloads",
		true,
		"controllers of the hub's own cluster run the workloads of apps/v1 and batch/v1 that stand there, as in every "+
			"whole cluster; false: it is an API server without them, and members get copies. On a whole cluster false makes "+
			"each pod run twice",
	)
	s.StringVar(
		&f.options.ClusterProfiles,
		"cluster-profiles",
		"",
		"namespace in which each member is published as a ClusterProfile of SIG Multicluster; empty for nowhere",
	)
	s.BoolVar(
		&f.options.ChecksReachLocal,
		"checks-reach-local",
		false,
		"let policies' checks by HTTP ask the hub's own machine and link, and where clouds give credentials",
	)
	f.webhook.Add(s, program)
	s.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	s.StringVar(&f.logFormat, "log-format", "text", "text or json")
	cmd.AddCommand(approverCommand())
	return cmd
}

func (f *flags) run(ctx context.Context) error {
	if err := f.webhook.Validate(); err != nil {
		return err
	}
	cfg, err := f.begin()
	if err != nil {
		return err
	}
	if err := hub.CheckCRDs(cfg); err != nil {
		return err
	}
	if err := hub.CheckInventory(cfg, f.options.Inventory, f.options.ClusterProfiles); err != nil {
		return err
	}
	if f.options.LeaderElection || f.webhook.On() {
		if err := hub.EnsureNamespace(ctx, cfg, f.options.LeaderElectionNamespace); err != nil {
			return err
		}
	}
	provider, stop, err := tracing.Start(ctx, program, version(), f.options.Logger)
	if err != nil {
		return err
	}
	defer stop()
	f.options.Tracing, f.options.RunsNoWorkloads = provider, !f.runs
	mgr, err := f.newManager(ctx, cfg)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the hub: %w", err)
	}
	return nil
}

// begin sets the logger, and returns how to reach the hub's API server.
func (f *flags) begin() (*rest.Config, error) {
	logger, err := logs.New(f.logLevel, f.logFormat)
	if err != nil {
		return nil, err
	}
	f.options.Logger = logger
	ctrl.SetLogger(f.options.Logger)
	klog.SetLogger(f.options.Logger)
	return f.config()
}

// newManager returns the manager of the hub, with its webhook server if there is one.
func (f *flags) newManager(ctx context.Context, cfg *rest.Config) (ctrl.Manager, error) {
	if !f.webhook.On() {
		return hub.NewManager(ctx, cfg, f.options)
	}
	// Pods are those of the hub's own cluster; those of members are counted by the workloads that have them.
	contents := append(deletion.Pods(), deletion.Content{
		Resource: topology.GroupVersion.WithResource("workloadplacements"), Name: "placed workloads",
	})
	deletions, err := f.webhook.Deletions(cfg, deletion.HubConfiguration, contents)
	if err != nil {
		return nil, err
	}
	server, err := serving.New(cfg, serving.Options{
		Flags: f.webhook, Program: program, YieldTo: "flotilla-agent", Namespace: f.options.LeaderElectionNamespace,
		Clock: clocks.New(), Log: f.options.Logger.WithName("webhook"), Validating: []serving.Validating{deletions},
	})
	if err != nil {
		return nil, err
	}
	f.options.WebhookServer = server
	mgr, err := hub.NewManager(ctx, cfg, f.options)
	if err != nil {
		return nil, err
	}
	return mgr, server.Setup(mgr)
}

// config finds the API server of the hub, with the usual rules of kubectl, then the pod's own service account.
func (f *flags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the hub's API server (give --kubeconfig): %w", err)
	}
	cfg.UserAgent = "flotilla-hub/" + version()
	return dial.Watchful(cfg), nil
}

// version is what the build stamped: a tag, or a commit.
func version() string { return componentversion.Get().GitVersion }
