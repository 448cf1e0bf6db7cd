package pods

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// mostFollowed is how many pods are followed at once: each is a request that stays open.
const mostFollowed = 20

// longestLine is how long a line can be that is kept together.
const longestLine = 1 << 20

// NewLogsCommand returns the verb `flotilla logs`.
func NewLogsCommand() *cobra.Command {
	o, log := &options{}, &logOptions{}
	command := &cobra.Command{
		Use:   "logs -C MEMBER (POD | KIND/NAME)",
		Short: "Print the logs of pods in a member",
		Long: `Print the logs of a pod in a member, or of all pods of a workload there, each line after the name of its pod.

The member is reached by the context of your kubeconfig that has its name, or that --member-context names, and with your rights there. It is made
sure that the context reaches the cluster that the hub knows by that name.`,
		Example: "  flotilla logs -C east api-x7k2p\n  flotilla logs -C east clone/api -n shop --tail 10 -f\n  flotilla " +
			"logs -C east ud/web --member-context east=kind-east",
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return o.hub.CompleteWorkloads(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.reach(cmd)
			if err != nil {
				return err
			}
			found, err := r.pods(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			log.container, log.tailed = o.container, cmd.Flags().Changed("tail")
			return log.print(cmd.Context(), r, found, cmd.OutOrStdout())
		},
	}
	o.addFlags(command)
	command.Flags().BoolVarP(&log.follow, "follow", "f", false, "go on with what is written")
	command.Flags().BoolVarP(&log.previous, "previous", "p", false, "of the container before it was started again")
	command.Flags().Int64Var(&log.tail, "tail", 0, "only so many of the last lines")
	command.Flags().DurationVar(&log.since, "since", 0, "only what was written since then, as in 5m")
	return command
}

// logOptions say what of a log is printed.
type logOptions struct {
	container        string
	follow, previous bool
	tailed           bool
	tail             int64
	since            time.Duration
}

func (l *logOptions) of(container string) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: container, Follow: l.follow, Previous: l.previous}
	if l.tailed {
		options.TailLines = new(max(l.tail, 0))
	}
	if l.since > 0 {
		options.SinceSeconds = new(max(int64(l.since/time.Second), 1))
	}
	return options
}

// print prints the logs of pods, one after the other, or where they are followed all at once. A pod whose log cannot be
// read does not keep those of the others back.
func (l *logOptions) print(ctx context.Context, r *reached, found []corev1.Pod, out io.Writer) error {
	if l.follow && len(found) > mostFollowed {
		return fmt.Errorf("%d pods are too many to follow, %d at most: name one of them", len(found), mostFollowed)
	}
	lines, group, failed := &lines{out: out}, errgroup.Group{}, make([]error, len(found))
	if !l.follow {
		group.SetLimit(1)
	}
	for i := range found {
		prefix := ""
		if len(found) > 1 {
			prefix = found[i].Name + " "
		}
		group.Go(func() error {
			failed[i] = l.printOne(ctx, r, &found[i], prefix, lines)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	if ctx.Err() != nil {
		return nil // the user has seen enough
	}
	return errors.Join(failed...)
}

func (l *logOptions) printOne(ctx context.Context, r *reached, pod *corev1.Pod, prefix string, lines *lines) error {
	container, err := containerOf(pod, l.container)
	if err != nil {
		return err
	}
	stream, err := r.core.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, l.of(container)).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of %s/%s in member %s: %w", pod.Name, container, r.name, err)
	}
	defer stream.Close()
	reader := bufio.NewReaderSize(stream, longestLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			if err := lines.write(prefix, line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull): // that one is a line that goes on
			return fmt.Errorf("read the log of %s/%s in member %s: %w", pod.Name, container, r.name, err)
		}
	}
}

// lines lets several write whole lines to one writer.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) write(prefix string, line []byte) error {
	end := ""
	if prefix != "" && line[len(line)-1] != '\n' {
		end = "\n" // the next line is another pod's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := fmt.Fprintf(l.out, "%s%s%s", prefix, line, end); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}
