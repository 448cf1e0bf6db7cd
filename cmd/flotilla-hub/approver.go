package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flotilla-dev/flotilla/cmd/internal/clocks"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// approverCommand is the program that lets clusters become members. It is started by itself, as a user of its own: what
// places workloads is not to approve certificates nor to give rights.
func approverCommand() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:           "approver",
		Short:         "Gives accepted members their certificates and rights",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.approve(cmd.Context()) },
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
	s.BoolVar(&f.options.LeaderElection, "leader-elect", true, "let one of several approvers act, by a Lease")
	s.StringVar(
		&f.options.LeaderElectionNamespace,
		"leader-election-namespace",
		"flotilla-system",
		"namespace of that Lease; made if it does not exist",
	)
	s.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	s.StringVar(&f.logFormat, "log-format", "text", "text or json")
	return cmd
}

func (f *flags) approve(ctx context.Context) error {
	cfg, err := f.begin()
	if err != nil {
		return err
	}
	if err := hub.CheckCRDs(cfg); err != nil {
		return err
	}
	if f.options.LeaderElection {
		if err := hub.EnsureNamespace(ctx, cfg, f.options.LeaderElectionNamespace); err != nil {
			return err
		}
	}
	mgr, err := registration.NewManager(cfg, registration.Options{
		MetricsBindAddress: f.options.MetricsBindAddress, HealthProbeBindAddress: f.options.HealthProbeBindAddress,
		LeaderElection: f.options.LeaderElection, LeaderElectionNamespace: f.options.LeaderElectionNamespace,
		Logger: f.options.Logger, Clock: clocks.New(),
	})
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the approver: %w", err)
	}
	return nil
}
