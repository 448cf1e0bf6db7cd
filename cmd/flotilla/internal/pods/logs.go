package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// mostStreams is how many logs are read at once, without the flag: each is a connection that stays open.
const mostStreams = 100

// NewLogsCommand returns the verb `flotilla logs`.
func NewLogsCommand() *cobra.Command {
	o, log := &options{}, &logOptions{clock: clock.RealClock{}}
	command := &cobra.Command{
		Use:   "logs (KIND/NAME | -C MEMBER POD)",
		Short: "Print the logs of the pods of a workload, in all members",
		Long: `Print the logs of all pods of a workload, in all members or in those that -C names. Each line begins
with its member and its pod, and with its container where the pod has several. Of a single pod the log is printed as
it is.

With -f logs are followed: pods that appear later join, and a stream that is cut goes on where it was cut.

Members are reached by the contexts of your kubeconfig that have their names, or that --member-context names, and with
your rights there. It is made sure that a context reaches the cluster that the hub knows by that name. A member that is
not reached has a line on standard error; the exit code is 1 only if nothing could be read.`,
		Example: "  flotilla logs clone/api -n shop -f\n  flotilla logs clone/api -n shop --tail 10 -C east,west\n  " +
			"flotilla logs -C east api-x7k2p\n  flotilla logs ud/web --member-context east=kind-east",
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return o.hub.CompleteWorkloads(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			log.tailed = cmd.Flags().Changed("tail")
			colours, err := log.check(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			log.colours = colours
			t, err := o.target(args[0])
			if err != nil {
				return err
			}
			f, err := o.fleet(cmd.Context(), cmd.ErrOrStderr(), t.workload())
			if err != nil {
				return err
			}
			return log.run(cmd.Context(), f, t, o.patience, cmd.OutOrStdout())
		},
	}
	o.addFlags(command)
	addContainer(command, &log.container)
	flags := command.Flags()
	flags.BoolVarP(&log.follow, "follow", "f", false, "go on with what is written, until interrupted")
	flags.BoolVarP(&log.previous, "previous", "p", false, "of the container before it was started again")
	flags.BoolVar(&log.all, "all-containers", false, "of all containers of each pod")
	flags.BoolVar(&log.timestamps, "timestamps", false, "print the time of each line")
	flags.BoolVar(&log.prefixed, "prefix", true, "begin the lines of a workload with member and pod")
	flags.Int64Var(&log.tail, "tail", 0, "only so many of the last lines of each log; -1 for all")
	flags.DurationVar(&log.since, "since", 0, "only what was written since then, as in 5m")
	flags.IntVar(&log.most, "max-streams", mostStreams, "how many logs are open at once")
	flags.StringVar(&log.color, "color", "auto", "auto, always or never: colour the prefixes; auto obeys NO_COLOR")
	return command
}

// target reads an argument. A pod needs the names of its members.
func (o *options) target(argument string) (*target, error) {
	namespace, err := o.hub.Namespace()
	if err != nil {
		return nil, err
	}
	t, err := targetOf(argument, namespace)
	if err == nil && t.pod != "" && len(o.only) == 0 {
		return nil, console.Usagef("which member has pod %s? name it with -C; flotilla get clusters lists the members",
			t.pod)
	}
	return t, err
}

// logOptions say what of which logs is printed, and how.
type logOptions struct {
	container                         string
	follow, previous, all, timestamps bool
	prefixed, colours                 bool
	tailed                            bool
	tail                              int64
	since                             time.Duration
	most                              int
	color                             string
	clock                             clock.Clock
}

// check refuses flags that cannot be, and returns whether there are colours.
func (l *logOptions) check(out io.Writer) (bool, error) {
	switch {
	case l.most < 1:
		return false, console.Usagef("--max-streams %d: it must be 1 or more", l.most)
	case l.follow && l.previous:
		return false, console.Usagef("-f and -p exclude each other: a container that has ended writes nothing more")
	case l.since < 0:
		return false, console.Usagef("--since %v: it must not be negative", l.since)
	case l.all && l.container != "":
		return false, console.Usagef("--all-containers and -c exclude each other: leave one out")
	}
	return coloured(l.color, out)
}

func (l *logOptions) of(container string) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: container, Follow: l.follow, Previous: l.previous,
		Timestamps: l.timestamps}
	if l.tailed && l.tail >= 0 { // fewer are all, as kubectl has it
		options.TailLines = new(l.tail)
	}
	if l.since > 0 {
		options.SinceSeconds = new(max(int64(l.since/time.Second), 1))
	}
	return options
}

// run finds the pods and prints their logs.
func (l *logOptions) run(ctx context.Context, f *fleet, t *target, patience time.Duration, out io.Writer) error {
	answers := ask(ctx, f.members, patience, func(ctx context.Context, r *reached) ([]corev1.Pod, error) {
		return r.pods(ctx, t)
	})
	if ctx.Err() != nil {
		return nil // the user has seen enough
	}
	found, reached, failures := sorted(f, answers)
	if err := f.report(ctx, reached, failures); err != nil {
		return err
	}
	var sources []source
	var wrong []string
	for _, a := range found {
		for i := range a.value {
			some, err := l.sources(a.member, &a.value[i], t)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%v in member %s", err, a.member.name))
				continue
			}
			sources = append(sources, some...)
		}
	}
	f.notes.sayMost(wrong)
	switch {
	case len(sources) == 0 && (!l.follow || t.pod != "" || len(wrong) > 0):
		return t.nothing(failures)
	case l.follow:
		return l.followAll(ctx, f, t, sources, out)
	}
	return l.printAll(ctx, f.notes, sources, out)
}

// nothing says that there are no pods. A single sentence about a member says it better.
func (t *target) nothing(failures []error) error { return t.without("a log of ", failures) }

// without says that no member has what was asked for, such as "a log of ".
func (t *target) without(what string, failures []error) error {
	if len(failures) == 1 && isAbsent(failures[0]) {
		return failures[0]
	}
	if t.pod != "" {
		return fmt.Errorf("no member that was reached has %spod %s", what, t.pod)
	}
	return fmt.Errorf("no member that was reached has %s%s; flotilla why %s says where it is placed",
		what, t.key.Sentence(), t.argument)
}

// sources returns the logs of a pod.
func (l *logOptions) sources(r *reached, pod *corev1.Pod, t *target) ([]source, error) {
	names := containersOf(pod)
	if !l.all {
		one, err := containerOf(pod, l.container)
		if err != nil {
			return nil, err
		}
		names = []string{one}
	}
	several := l.container == "" && len(containersOf(pod)) > 1
	var all []source
	for _, name := range names {
		s := source{member: r, pod: pod, container: name, several: several}
		if l.prefixed && (t.pod == "" || len(names) > 1) {
			s.prefix = prefixOf(r.name, pod, name, several, l.colours)
		}
		all = append(all, s)
	}
	return all, nil
}

// page is a part of a log: whole lines, or why there are no more.
type page struct {
	lines []byte
	err   error
}

// pages reads a log until its end or that of the context. It reads two pages ahead of its reader at most.
func (l *logOptions) pages(ctx context.Context, s *source) <-chan page {
	out := make(chan page, 1)
	give := func(p page) {
		select {
		case out <- p:
		case <-ctx.Done():
		}
	}
	go func() {
		defer close(out)
		if err := l.read(ctx, s, func(lines []byte) { give(page{lines: lines}) }); err != nil {
			give(page{err: err})
		}
	}()
	return out
}

// printAll prints logs one after the other, while the next ones are read. A log that cannot be read does not keep the
// others back; it fails if none can.
func (l *logOptions) printAll(ctx context.Context, notes *notes, sources []source, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := make([]<-chan page, len(sources))
	for i := range min(l.most, len(sources)) {
		open[i] = l.pages(ctx, &sources[i])
	}
	var failures []error
	writer := lines{out: out}
	for i := range sources {
		for p := range open[i] {
			if p.err != nil {
				failures = append(failures, p.err)
				continue
			}
			if err := writer.write(p.lines); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if next := i + l.most; next < len(sources) {
			open[next] = l.pages(ctx, &sources[next])
		}
	}
	return failed(notes, failures, len(sources))
}

// failed writes the sentences about logs that could not be read, each once, and returns an error if that are all logs.
func failed(notes *notes, failures []error, of int) error {
	var said []string
	for _, err := range failures {
		if !slices.Contains(said, err.Error()) && len(said) <= mostFailures {
			said = append(said, err.Error())
		}
	}
	if len(failures) == of && len(said) == 1 {
		return failures[0]
	}
	for _, text := range said[:min(len(said), mostFailures)] {
		notes.say("%s", text)
	}
	if len(said) > mostFailures {
		notes.say("and others: %d of %d logs could not be read", len(failures), of)
	}
	if len(failures) == of {
		return fmt.Errorf("none of %d logs could be read", of)
	}
	return nil
}

// read reads a log in batches of whole lines.
func (l *logOptions) read(ctx context.Context, s *source, take func([]byte)) error {
	stream, err := s.open(ctx, l.of(s.container))
	if err != nil {
		return s.unread(err)
	}
	defer stream.Close()
	reader := newLineReader(stream)
	var batch []byte
	for {
		line, _, err := reader.next()
		if len(line) > 0 {
			batch = addLine(batch, s.prefix, line)
		}
		if len(batch) >= fullBatch || err != nil && len(batch) > 0 {
			take(batch)
			batch = nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return s.unread(err)
		}
	}
}

// sortedSources puts logs in the order of their members, pods and containers.
func sortedSources(all []source) []source {
	slices.SortStableFunc(all, func(a, b source) int {
		switch {
		case a.title() < b.title():
			return -1
		case a.title() > b.title():
			return 1
		}
		return 0
	})
	return all
}
