package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-dev/flotilla/cmd/flotilla-capi/internal/agent"
	"github.com/flotilla-dev/flotilla/cmd/internal/clocks"
	"github.com/flotilla-dev/flotilla/cmd/internal/logs"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/inventory/capi"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
	"github.com/flotilla-dev/flotilla/member-agent/link/dial"
)

// ofSystem as the hub's authority means those of the machines that run agents.
const ofSystem = "system"

// flags are what the command line says.
type flags struct {
	kubeconfig, management string
	manifests              string
	hubCA                  string
	options                capi.Options
	logLevel, logFormat    string
}

func command() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:           "flotilla-capi",
		Short:         "Makes members of the clusters of Cluster API that have the label topology.flotilla.dev/join=true",
		Args:          cobra.NoArgs,
		Version:       componentversion.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	const enough = 30 * time.Minute
	s := cmd.Flags()
	s.StringVar(
		&f.kubeconfig,
		"kubeconfig",
		"",
		"kubeconfig of the hub's API server; empty: KUBECONFIG, then the pod's own",
	)
	s.StringVar(
		&f.management,
		"management-kubeconfig",
		"",
		"kubeconfig of the cluster where Cluster API runs; empty: the hub",
	)
	s.StringVar(
		&f.manifests,
		"agent-manifests",
		"",
		"file with the agent's objects, as helm template flotilla-agent charts/flotilla-agent prints them (needed)",
	)
	s.StringVar(
		&f.options.HubServer,
		"hub-server",
		"",
		"URL of the hub's API server as members reach it (default: that of the kubeconfig; needed in a pod)",
	)
	s.StringVar(
		&f.hubCA,
		"hub-ca-file",
		"",
		"file with the certificates that the hub is known by there, or \"system\" for the authorities of the members' "+
			"machines (default: those of the kubeconfig)",
	)
	s.DurationVar(
		&f.options.DrainTimeout,
		"drain-timeout",
		enough,
		"how long a Cluster that is deleted waits at most until its workloads run elsewhere; the annotation "+
			"topology.flotilla.dev/drain-timeout of a Cluster goes before it",
	)
	s.StringVar(&f.options.MetricsBindAddress, "metrics-bind-address", ":8080", "address of /metrics, \"0\" for none")
	s.StringVar(
		&f.options.HealthProbeBindAddress,
		"health-probe-bind-address",
		":8081",
		"address of /healthz and /readyz, \"0\" for none",
	)
	s.BoolVar(&f.options.LeaderElection, "leader-elect", true, "let one of several act, by a Lease of the hub")
	s.StringVar(
		&f.options.LeaderElectionNamespace,
		"leader-election-namespace",
		"flotilla-system",
		"namespace of that Lease",
	)
	s.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	s.StringVar(&f.logFormat, "log-format", "text", "text or json")
	return cmd
}

func (f *flags) run(ctx context.Context) error {
	logger, err := logs.New(f.logLevel, f.logFormat)
	if err != nil {
		return err
	}
	f.options.Logger, f.options.Clock = logger, clocks.New()
	ctrl.SetLogger(f.options.Logger)
	klog.SetLogger(f.options.Logger)
	if f.manifests == "" {
		return errors.New(
			"--agent-manifests is needed: write what helm template flotilla-agent charts/flotilla-agent --namespace " +
				"flotilla-system prints to a file, and name it",
		)
	}
	if f.options.DrainTimeout < 0 {
		return fmt.Errorf("--drain-timeout %s is less than nothing: give 0s for no drain at all", f.options.DrainTimeout)
	}
	cfg, err := configOf(f.kubeconfig, "the hub's API server (give --kubeconfig)")
	if err != nil {
		return err
	}
	if err := f.address(cfg); err != nil {
		return err
	}
	if err := hub.CheckCRDs(cfg); err != nil {
		return err
	}
	there := cfg
	var management *rest.Config
	if f.management != "" {
		if management, err = configOf(f.management, "the management cluster (see --management-kubeconfig)"); err != nil {
			return err
		}
		there = management
	}
	if err := checkServed(there); err != nil {
		return err
	}
	dialer, err := agent.NewDialer(f.manifests)
	if err != nil {
		return err
	}
	mgr, err := capi.NewManager(cfg, management, dialer.Dial, f.options)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run flotilla-capi: %w", err)
	}
	return nil
}

// address completes what members are told of the hub.
func (f *flags) address(cfg *rest.Config) error {
	if f.options.HubServer == "" {
		if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" && strings.Contains(cfg.Host, host) {
			return fmt.Errorf(
				"the hub is known as %s here, which members do not reach: name the URL of its API server as they do, with "+
					"--hub-server",
				cfg.Host,
			)
		}
		f.options.HubServer = cfg.Host
	}
	if err := credential.CheckServer(f.options.HubServer); err != nil {
		return fmt.Errorf("%w: name it with --hub-server", err)
	}
	file := f.hubCA
	switch {
	case file == ofSystem:
		return nil
	case file == "" && len(cfg.CAData) > 0:
		f.options.HubCA = string(cfg.CAData)
		return nil
	case file == "":
		file = cfg.CAFile
	}
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the hub's certificate authority: %w", err)
	}
	f.options.HubCA = string(data)
	return nil
}

// checkServed says what to do where Cluster API is not, or is too old.
func checkServed(cfg *rest.Config) error {
	asked, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	_, err = asked.ServerResourcesForGroupVersion(clusterv1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf(
			"the API server at %s serves no %s: install Cluster API 1.11 or newer there, or name the cluster that has it with "+
				"--management-kubeconfig",
			cfg.Host,
			clusterv1.GroupVersion,
		)
	}
	if err != nil {
		return fmt.Errorf("ask %s whether it serves %s: %w", cfg.Host, clusterv1.GroupVersion, err)
	}
	return nil
}

// configOf finds an API server, with the usual rules of kubectl, then the pod's own service account.
func configOf(kubeconfig, what string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", what, err)
	}
	cfg.UserAgent = "flotilla-capi/" + componentversion.Get().GitVersion
	return dial.Watchful(cfg), nil
}
