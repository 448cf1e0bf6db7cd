// Command flotilla is the command line of Flotilla.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/adopt"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/check"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/drain"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/fence"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/get"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/member"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/plan"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/rollout"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/try"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/why"
)

// Exit codes, the same for every verb; 0 is success.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 124
)

// pluginPrefix begins the name of a program that kubectl runs as its own verb.
const pluginPrefix = "kubectl-"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	// Libraries have nothing to say to the user that the command does not say itself.
	ctrllog.SetLogger(logr.Discard())
	command := newCommand()
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "flotilla:", err)
	switch {
	case errors.Is(err, console.ErrUsage) || strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "accepts "):
		// The last two are how cobra words wrong arguments; it has no type for them.
		return exitUsage
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	default:
		return exitFailed
	}
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "flotilla",
		Short:         "Run workloads over many Kubernetes clusters",
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.SetVersionTemplate("{{.Version}}\n") // what `flotilla version` prints
	usage := func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", console.ErrUsage, err) }
	command.SetFlagErrorFunc(usage)
	if called := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"); strings.HasPrefix(called, pluginPrefix) {
		// kubectl runs the program of this name for `kubectl flotilla`.
		command.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + strings.TrimPrefix(called, pluginPrefix)}
	}
	command.AddCommand(plan.NewCommand(), plan.NewSnapshotCommand(), tree.NewCommand(), why.NewCommand(), adopt.NewCommand(), check.NewCommand(), drain.NewCommand(), fence.NewCommand(), get.NewCommand(), rollout.NewCommand(), try.NewCommand(),
		member.NewTokenCommand(), member.NewJoinCommand(), member.NewAcceptCommand(), member.NewLeaveCommand(), &cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get().GitVersion)
				return err
			},
		})
	return command
}
