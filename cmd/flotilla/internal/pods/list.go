package pods

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// format is the form in which a list is printed.
type format string

func (f *format) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(f), "output", "o", "text", "text, wide, name, json or yaml")
	// The flag was added a line before.
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"text", "wide", "name", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f format) check() error {
	if slices.Contains([]format{"text", "wide", "name", "json", "yaml"}, f) {
		return nil
	}
	return console.Usagef("output %q: it can be text, wide, name, json or yaml", string(f))
}

// lister is what `flotilla get pods` and `flotilla get events` share.
type lister struct {
	options
	format format
	watch  bool
	clock  clock.PassiveClock
	// namespaces: the table has a column for them.
	namespaces bool
}

// NewGetPods returns the verb `flotilla get pods`.
func NewGetPods() *cobra.Command {
	l := &lister{clock: clock.RealClock{}}
	return l.command(&cobra.Command{
		Use:     "pods [KIND/NAME]",
		Aliases: []string{"pod", "po"},
		Short:   "Show the pods of a workload, or of all federated workloads, in all members",
		Long: `Show the pods of a workload, or of all federated workloads of the namespace, in all members or in
those that -C names.

Members are reached as flotilla logs reaches them. STATUS is what kubectl shows. A member that is not reached has a line
on standard error; the exit code is 1 only if none was reached.`,
		Example: "  flotilla get pods clone/api -n shop\n  flotilla get pods -n shop -C east,west -o wide\n  " +
			"flotilla get pods -w",
	}, l.pods)
}

// NewGetEvents returns the verb `flotilla get events`.
func NewGetEvents() *cobra.Command {
	l := &lister{clock: clock.RealClock{}}
	return l.command(&cobra.Command{
		Use:     "events [KIND/NAME]",
		Aliases: []string{"event", "ev"},
		Short:   "Show the events of a workload and its pods, or of a namespace, on the hub and in all members",
		Long: `Show the events of a workload and its pods, or of a whole namespace, on the hub and in all members or
in those that -C names, the newest last.

Members are reached as flotilla logs reaches them. A member that is not reached has a line on standard error; the exit
code is 1 only if none was reached.`,
		Example: "  flotilla get events clone/api -n shop\n  flotilla get events -n shop -C east -w",
	}, l.events)
}

// command adds flags and arguments to a verb that prints a list.
func (l *lister) command(
	cmd *cobra.Command, run func(context.Context, *fleet, *target, io.Writer) error,
) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return l.hub.CompleteWorkloads(cmd, args, typed)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := l.read(args)
		if err != nil {
			return err
		}
		f, err := l.fleet(cmd.Context(), cmd.ErrOrStderr(), t.workload())
		if err != nil {
			return err
		}
		return run(cmd.Context(), f, t, cmd.OutOrStdout())
	}
	l.addFlags(cmd)
	l.hub.AddAllNamespaces(cmd)
	l.format.addFlag(cmd)
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	return cmd
}

// read checks the flags and the arguments. Without an argument the target is nil.
func (l *lister) read(args []string) (*target, error) {
	if err := l.format.check(); err != nil {
		return nil, err
	}
	namespace, err := l.hub.Namespace()
	if err != nil {
		return nil, err
	}
	l.namespaces = namespace == ""
	if len(args) == 0 {
		return nil, nil
	}
	if namespace == "" {
		return nil, console.Usagef("a workload has one namespace; give -n instead of -A")
	}
	t, err := targetOf(args[0], namespace)
	if err == nil && t.pod != "" && !strings.Contains(args[0], "/") {
		return nil, console.Usagef("%q names no workload; write KIND/NAME, as in clone/api, or pod/%[1]s", args[0])
	}
	return t, err
}

// pods prints the pods.
func (l *lister) pods(ctx context.Context, f *fleet, t *target, out io.Writer) error {
	answers := ask(ctx, f.members, l.patience, func(ctx context.Context, r *reached) ([]corev1.Pod, error) {
		return r.podsOrAll(ctx, t)
	})
	found, reached, failures := sorted(f, answers)
	if err := f.report(ctx, reached, failures); err != nil {
		return err
	}
	if l.watch {
		return l.followPods(ctx, f, t, out)
	}
	rows := []Pod{}
	for _, a := range found {
		rows = append(rows, l.rows(a.member.name, a.value)...)
	}
	if len(rows) == 0 && l.format != "json" && l.format != "yaml" {
		f.notes.say("There are no pods%s in the members that were reached", of(t))
		return nil
	}
	return l.print(out, rows, podsText(rows, l.namespaces, l.format == "wide"), names(rows))
}

func of(t *target) string {
	switch {
	case t == nil:
		return " of federated workloads"
	case t.pod != "":
		return " named " + t.pod
	}
	return " of " + t.key.Sentence()
}

func (l *lister) rows(member string, pods []corev1.Pod) []Pod {
	var rows []Pod
	for i := range pods {
		rows = append(rows, rowOf(member, &pods[i], l.clock.Now()))
	}
	return rows
}

func names(rows []Pod) string {
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, "%s/%s\n", rows[i].Member, rows[i].Name)
	}
	return text.String()
}

// podsOrAll returns the pods of the target, or without one those of all federated workloads of the namespace.
func (r *reached) podsOrAll(ctx context.Context, t *target) ([]corev1.Pod, error) {
	if t != nil {
		return r.pods(ctx, t)
	}
	selectors, err := r.federated(ctx)
	if err != nil {
		return nil, err
	}
	ours, err := ofFederated(selectors)
	if err != nil {
		return nil, err
	}
	found, err := r.list(ctx, "")
	if err != nil {
		return nil, err
	}
	return sortedPods(slices.DeleteFunc(found, func(p corev1.Pod) bool { return !ours(&p) })), nil
}

// events prints the events.
func (l *lister) events(ctx context.Context, f *fleet, t *target, out io.Writer) error {
	namespace, err := l.hub.Namespace()
	if err != nil {
		return err
	}
	rows, err := f.events(ctx, t, namespace, l.patience, l.clock)
	if err != nil {
		return err
	}
	if l.watch {
		return l.followEvents(ctx, f, t, out)
	}
	if len(rows) == 0 && l.format != "json" && l.format != "yaml" {
		f.notes.say("There are no events")
		return nil
	}
	return l.printEvents(out, rows)
}

func (l *lister) printEvents(out io.Writer, rows []Event) error {
	return l.print(out, rows, eventsText(rows, l.namespaces, l.format == "wide"), eventNames(rows))
}

func eventNames(rows []Event) string {
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, "%s/%s\n", rows[i].Member, rows[i].Object)
	}
	return text.String()
}

// events returns the events of the target in all members and on the hub, and reports the members that were not reached.
func (f *fleet) events(
	ctx context.Context, t *target, namespace string, patience time.Duration, now clock.PassiveClock,
) ([]Event, error) {
	answers := ask(ctx, f.members, patience, func(ctx context.Context, r *reached) ([]Event, error) {
		events, err := r.memberEvents(ctx)
		if err != nil || t == nil {
			return eventsOf(r.name, events, nil, now.Now()), err
		}
		pods, err := r.pods(ctx, t)
		if isAbsent(err) {
			err = nil // the workload may have events all the same
		}
		return eventsOf(r.name, events, about(t, pods), now.Now()), err
	})
	found, reached, failures := sorted(f, answers)
	rows, err := hubEvents(ctx, f.hub, namespace, t, now.Now())
	if err != nil {
		failures = append(failures, err)
	} else if f.hub != nil && (t == nil || t.pod == "") {
		reached++ // the hub has answered
	}
	if err := f.report(ctx, reached, failures); err != nil {
		return nil, err
	}
	for _, a := range found {
		rows = append(rows, a.value...)
	}
	return sortedEvents(rows), nil
}

// print prints a list in the form of the flag.
func (l *lister) print(out io.Writer, rows any, table, names string) error {
	return console.Output(l.format).Print(out, rows, func(out io.Writer) error {
		if l.format != "name" {
			return console.Table(out, table)
		}
		if _, err := io.WriteString(out, names); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		return nil
	})
}

// followPods shows the pods again whenever they change.
func (l *lister) followPods(ctx context.Context, f *fleet, t *target, out io.Writer) error {
	listings := func(r *reached) []*listing { return []*listing{podListing(r, t)} }
	return l.follow(ctx, f, listings, out, func(watchers [][]*watcher) (any, string, string) {
		rows := []Pod{}
		for _, of := range watchers {
			rows = append(rows, l.rows(of[0].member.name, of[0].pods())...)
		}
		return rows, podsText(rows, l.namespaces, l.format == "wide"), names(rows)
	})
}

// followEvents shows the events of the members again whenever they change. Those of the hub are not watched.
func (l *lister) followEvents(ctx context.Context, f *fleet, t *target, out io.Writer) error {
	listings := func(r *reached) []*listing {
		if t == nil {
			return []*listing{eventListing(r)}
		}
		return []*listing{eventListing(r), podListing(r, t)}
	}
	return l.follow(ctx, f, listings, out, func(watchers [][]*watcher) (any, string, string) {
		rows := []Event{}
		for _, w := range watchers {
			var of func(*corev1.ObjectReference) bool
			if t != nil {
				of = about(t, w[1].pods())
			}
			rows = append(rows, eventsOf(w[0].member.name, w[0].events(), of, l.clock.Now())...)
		}
		rows = sortedEvents(rows)
		return rows, eventsText(rows, l.namespaces, l.format == "wide"), eventNames(rows)
	})
}

// follow watches the listings of all members, and shows a list again whenever it changes, until the context ends.
func (l *lister) follow(
	ctx context.Context, f *fleet, listings func(*reached) []*listing, out io.Writer,
	view func([][]*watcher) (any, string, string),
) error {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	change := func(runtime.Object) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // before the wait
	var watchers [][]*watcher
	for _, r := range f.members {
		var all []*watcher
		for _, listing := range listings(r) {
			w := &watcher{listing: listing, member: r, notes: f.notes, clock: clock.RealClock{}}
			w.seen, w.gone = change, change
			all = append(all, w)
			running.Go(func() { w.run(ctx) })
		}
		watchers = append(watchers, all)
	}
	table := l.format == "text" || l.format == "wide"
	return console.Redraw(ctx, out, table, func(context.Context) (console.View, error) {
		rows, table, names := view(watchers)
		var text strings.Builder
		err := l.print(&text, rows, table, names)
		return console.View{Text: text.String(), Facts: facts(rows)}, err
	}, changed)
}

// facts is what of rows is shown again when it changes: all but ages.
func facts(rows any) string {
	switch rows := rows.(type) {
	case []Pod:
		same := slices.Clone(rows)
		for i := range same {
			same[i].AgeSeconds, same[i].RestartedSeconds = 0, nil
		}
		return fmt.Sprintf("%+v", same)
	case []Event:
		same := slices.Clone(rows)
		for i := range same {
			same[i].LastSeconds = 0
		}
		return fmt.Sprintf("%+v", same)
	}
	return ""
}
