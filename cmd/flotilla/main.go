// Command flotilla is the command line of Flotilla.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/dashboard"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/describe"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/drain"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/fence"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/get"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/member"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/plan"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/pods"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/rollout"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/set"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/sysdump"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/try"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/wait"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/why"
)

// Exit codes, the same for every verb; 0 is success.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 124
)

const (
	// pluginPrefix begins the name of a program that kubectl runs as its own verb.
	pluginPrefix = "kubectl-"
	// completerPrefix begins the name of the program that kubectl asks how to complete the arguments of such a verb.
	completerPrefix = "kubectl_complete-"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, arguments(os.Args[0], os.Args[1:]))
	stop()
	os.Exit(code)
}

// arguments returns the command line of a program that was called by a name: as kubectl's completer of the plugin, the
// request for completions of what kubectl was given so far.
func arguments(called string, args []string) []string {
	if strings.HasPrefix(filepath.Base(called), completerPrefix) {
		return append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return args
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	// Libraries have nothing to say to the user that the command does not say itself.
	ctrllog.SetLogger(logr.Discard())
	command := newCommand(os.Stdout)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "flotilla:", err)
	var remote interface{ ExitStatus() int }
	switch {
	case errors.As(err, &remote):
		return remote.ExitStatus() // of the command that flotilla exec ran
	case errors.Is(err, console.ErrUsage):
		return exitUsage
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	default:
		return exitFailed
	}
}

// newCommand returns the whole command line, which writes its results to out.
func newCommand(out io.Writer) *cobra.Command {
	command := &cobra.Command{
		Use:   "flotilla",
		Short: "Run workloads over many Kubernetes clusters",
		Long: `Run workloads over many Kubernetes clusters.

Results go to standard output, talk to standard error. The exit code is 0 for success, 1 for a failure, 2 for a wrong command
line, and 124 for a deadline that passed; flotilla exec has that of the command, and flotilla wait those of kubectl wait.`,
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.SetOut(out)                          // before the verb completion is made, which keeps it
	command.SetVersionTemplate("{{.Version}}\n") // what `flotilla version` prints
	usage := func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() {
			// The flag may belong to the verb that was meant.
			if wrong := console.VerbArguments(cmd, cmd.Flags().Args()); wrong != nil {
				return wrong
			}
		}
		return fmt.Errorf("%w: %w", console.ErrUsage, console.FlagError(err))
	}
	command.SetFlagErrorFunc(usage)
	command.SetUsageFunc(console.Usage(command.UsageFunc()))
	if called := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"); strings.HasPrefix(called, pluginPrefix) {
		// kubectl runs the program of this name for `kubectl flotilla`.
		command.Annotations = map[string]string{
			cobra.CommandDisplayNameAnnotation: "kubectl " + strings.TrimPrefix(called, pluginPrefix),
		}
	}
	command.AddCommand(
		plan.NewCommand(),
		plan.NewSnapshotCommand(),
		pods.NewLogsCommand(),
		pods.NewExecCommand(),
		pods.NewPortForwardCommand(),
		pods.NewTopCommand(),
		describe.NewCommand(),
		tree.NewCommand(),
		wait.NewCommand(),
		why.NewCommand(),
		adopt.NewCommand(),
		check.NewCommand(),
		dashboard.NewCommand(),
		drain.NewCommand(),
		fence.NewCommand(),
		get.NewCommand(),
		rollout.NewCommand(),
		rollout.NewRestartCommand(),
		set.NewCommand(),
		sysdump.NewCommand(),
		try.NewCommand(),
		member.NewTokenCommand(),
		member.NewJoinCommand(),
		member.NewAcceptCommand(),
		member.NewLeaveCommand(),
		&cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get().GitVersion)
				return err
			},
		},
	)
	command.InitDefaultCompletionCmd()
	command.Args, command.RunE = console.VerbArguments, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	refuseUnknown(command)
	return command
}

// refuseUnknown lets the verbs that only have verbs of their own refuse one that there is not; cobra would print the
// help, and a script would take that for success. All other verbs say how they are written where their arguments are
// wrong.
func refuseUnknown(command *cobra.Command) {
	for _, verb := range command.Commands() {
		switch {
		case verb.HasSubCommands() && !verb.Runnable():
			verb.Args, verb.RunE = console.VerbArguments, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case verb.HasSubCommands():
			verb.Args = console.VerbArguments
		case verb.Args != nil:
			verb.Args = console.Arguments(verb.Args)
		}
		refuseUnknown(verb)
	}
}
