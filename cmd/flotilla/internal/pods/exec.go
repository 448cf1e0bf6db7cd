package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// NewExecCommand returns the verb `flotilla exec`.
func NewExecCommand() *cobra.Command {
	o, container, stdin, tty := &options{}, "", false, false
	command := &cobra.Command{
		Use:   "exec (KIND/NAME | -C MEMBER POD) [-it] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a pod of a workload, in one of its members",
		Long: `Run a command in the first Ready pod of a workload, in the first member that has one, or in a pod
that is named. Standard error says which pod that is. -C narrows.

Members are reached as flotilla logs reaches them. The exit code is that of the command. The size of the terminal is
sent once, at the start.`,
		Example: "  flotilla exec clone/api -n shop -it -- sh\n  flotilla exec -C east api-x7k2p -- ls /",
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at != 1 || len(args) < 2 {
				return console.Usagef("write the pod, then --, then the command, as in flotilla exec -C east api-x7k2p -- ls /")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return o.hub.CompleteWorkloads(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := o.chooseFor(cmd, args[0])
			if err != nil {
				return err
			}
			name, err := containerOf(found.pod, container)
			if err != nil {
				return err
			}
			s := session{stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), tty: tty}
			if !stdin {
				s.stdin = nil
			}
			return s.run(cmd.Context(), found.member, found.pod,
				&corev1.PodExecOptions{Container: name, Command: args[1:]})
		},
	}
	o.addFlags(command)
	addContainer(command, &container)
	command.Flags().BoolVarP(&stdin, "stdin", "i", false, "give the command what is read from standard input")
	command.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	return command
}

// chooseFor reaches the members and chooses the pod for an argument.
func (o *options) chooseFor(cmd *cobra.Command, argument string) (*chosen, error) {
	t, err := o.target(argument)
	if err != nil {
		return nil, err
	}
	f, err := o.fleet(cmd.Context(), cmd.ErrOrStderr(), t.workload())
	if err != nil {
		return nil, err
	}
	return f.choose(cmd.Context(), t, o)
}

// session is what a command is connected to.
type session struct {
	stdin          io.Reader // nil: nothing is read
	stdout, stderr io.Writer
	tty            bool
}

// run runs the command and waits for its end. The error of one that fails has its exit code.
func (s *session) run(ctx context.Context, r *reached, pod *corev1.Pod, command *corev1.PodExecOptions) error {
	var size remotecommand.TerminalSizeQueue
	if s.tty {
		file, ok := s.stdin.(*os.File)
		if !ok || !term.IsTerminal(int(file.Fd())) {
			return console.Usagef("-t needs -i and a terminal: leave it out")
		}
		before, err := term.MakeRaw(int(file.Fd()))
		if err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(file.Fd()), before) }() // nothing can be done about it
		if width, height, err := term.GetSize(int(file.Fd())); err == nil {
			size = &once{size: &remotecommand.TerminalSize{Width: uint16(min(width, 1<<15)), Height: uint16(min(height, 1<<15))}}
		}
	}
	command.Stdin, command.Stdout, command.Stderr, command.TTY = s.stdin != nil, true, !s.tty, s.tty
	request := r.streams.CoreV1().
		RESTClient().
		Post().
		Resource("pods").
		Namespace(pod.Namespace).
		Name(pod.Name).
		SubResource("exec").
		VersionedParams(command, clientgoscheme.ParameterCodec)
	executor, err := newExecutor(r.config, request)
	if err != nil {
		return fmt.Errorf("run a command in pod %s of member %s: %w", pod.Name, r.name, err)
	}
	streams := remotecommand.StreamOptions{
		Stdin:             s.stdin,
		Stdout:            s.stdout,
		Stderr:            s.stderr,
		Tty:               s.tty,
		TerminalSizeQueue: size,
	}
	if s.tty {
		streams.Stderr = nil // a terminal has one stream
	}
	if err := executor.StreamWithContext(ctx, streams); err != nil {
		var code interface{ ExitStatus() int }
		if errors.As(err, &code) {
			return fmt.Errorf("the command ended with exit code %d: %w", code.ExitStatus(), err)
		}
		return r.failed("run a command in pod "+pod.Name, err)
	}
	return nil
}

// newExecutor speaks WebSockets, and what was spoken before with API servers and proxies that know no other.
func newExecutor(cfg *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	sockets, err := remotecommand.NewWebSocketExecutor(cfg, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	older, err := remotecommand.NewSPDYExecutor(cfg, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(sockets, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// once has one size, and then no other.
type once struct{ size *remotecommand.TerminalSize }

// Next is a TerminalSizeQueue's. Nil ends it.
func (o *once) Next() *remotecommand.TerminalSize {
	size := o.size
	o.size = nil
	return size
}
