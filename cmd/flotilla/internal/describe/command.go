// Package describe is the verb `flotilla describe`: one page about a workload, from the hub and from its members.
package describe

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/pods"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Page is what the verb prints.
type Page struct {
	// Tree is what flotilla tree shows, Why what flotilla why answers.
	Tree *tree.Tree      `json:"tree"`
	Why  *explain.Answer `json:"why"`
	// Seen is what the members have, as far as they are reached.
	Seen *pods.Seen `json:"seen"`
}

// defaultEvents is how many events are shown without the flag.
const defaultEvents = 20

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	look, output, events := &pods.Look{}, console.Output(""), defaultEvents
	command := &cobra.Command{
		Use:   "describe KIND/NAME",
		Short: "Show a workload on one page: where it runs, its conditions, pods that are not Ready, events",
		Long: `Show a workload on one page: what flotilla tree shows, its policy and conditions, its pods that are
not Ready, and the last events about it and its pods on the hub and in its members.

Members are reached as flotilla logs reaches them; -C narrows. Where only the hub is reached, the page has what the hub
knows.`,
		Example: "  flotilla describe clone/api -n shop\n  flotilla describe ud/web -C east -o json",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return look.Hub().CompleteWorkloads(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			page, err := read(cmd.Context(), look, args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			page.Seen.Events = page.Seen.Events[max(0, len(page.Seen.Events)-max(events, 0)):]
			return output.Print(cmd.OutOrStdout(), page, page.write)
		},
	}
	look.AddFlags(command)
	output.AddFlag(command)
	command.Flags().IntVar(&events, "events", defaultEvents, "how many of the last events to show")
	return command
}

// read reads the hub, and then the members.
func read(ctx context.Context, look *pods.Look, argument string, talk io.Writer) (*Page, error) {
	hub := look.Hub()
	namespace, err := hub.Namespace()
	if err != nil {
		return nil, err
	}
	key, err := console.Workload(argument, namespace)
	if err != nil {
		return nil, err
	}
	c, err := hub.Client()
	if err != nil {
		return nil, err
	}
	page := &Page{}
	if page.Why, err = why(ctx, hub, key); err != nil {
		return nil, err
	}
	if page.Tree, err = tree.ReadOne(ctx, c, key); err != nil {
		return nil, console.NotAHub(err)
	}
	if !pods.HasPods(key) {
		page.Seen = &pods.Seen{Members: []pods.Member{}}
		return page, nil
	}
	page.Seen, err = look.See(ctx, argument, key, clock.RealClock{}, talk)
	return page, err
}

// why returns what flotilla why answers about a workload.
func why(ctx context.Context, hub *console.Hub, key wire.Key) (*explain.Answer, error) {
	s, hubID, err := hub.Record(ctx, key.PlacementNamespace())
	if err != nil {
		return nil, err
	}
	object := kinds.Workloads()[key.GroupKind()].New()
	if err := s.Get(ctx, key.Workload(), object); apierrors.IsNotFound(err) {
		c, err := hub.Client()
		if err != nil {
			return nil, err
		}
		return nil, console.NotFound(ctx, c, key)
	}
	facts, err := explain.Gather(ctx, s, hubID, key)
	if err != nil {
		return nil, err
	}
	return explain.Why(facts, explain.Question{})
}

// write writes the page as text.
func (p *Page) write(out io.Writer) error {
	if err := tree.Write(out, p.Tree); err != nil {
		return err
	}
	var text strings.Builder
	if p.Why.Policy != "" {
		fmt.Fprintf(&text, "\nPolicy: %s\n", p.Why.Policy)
	}
	p.writeConditions(&text)
	p.writePods(&text)
	if len(p.Seen.Events) > 0 {
		text.WriteString("\nEvents, the newest last:\n")
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if len(p.Seen.Events) == 0 {
		return nil
	}
	return console.Table(out, pods.EventsText(p.Seen.Events))
}

// writeConditions writes the conditions that say something, and what is not placed or about to change.
func (p *Page) writeConditions(text *strings.Builder) {
	if len(p.Why.Conditions)+len(p.Why.Unplaced) > 0 || p.Why.Pending != "" {
		text.WriteString("\nConditions:\n")
	}
	for _, c := range p.Why.Conditions {
		fmt.Fprintf(text, "  %s=%s, %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		fmt.Fprintf(text, "    see %s\n", c.See)
	}
	for _, u := range p.Why.Unplaced {
		fmt.Fprintf(text, "  %d not placed: %s\n    see %s\n", u.Replicas, u.Why, u.See)
	}
	if p.Why.Pending != "" {
		fmt.Fprintf(text, "  now: %s\n", p.Why.Pending)
	}
}

// writePods writes the pods that are not Ready: what members reported to the hub, and what they say now.
func (p *Page) writePods(text *strings.Builder) {
	if len(p.Why.PodReasons)+len(p.Seen.Members)+len(p.Seen.Unreached) > 0 {
		text.WriteString("\nPods:\n")
	}
	for _, reason := range p.Why.PodReasons {
		fmt.Fprintf(text, "  reported to the hub: %s\n", reason)
	}
	for i := range p.Seen.Members {
		m := &p.Seen.Members[i]
		fmt.Fprintf(text, "  %s: %d of %d Ready\n", m.Name, m.Ready, m.Pods)
		for _, pod := range m.NotReady {
			fmt.Fprintf(text, "    %s is %s", pod.Name, pod.Status)
			if pod.Why != "" {
				fmt.Fprintf(text, "; %s", pod.Why)
			}
			text.WriteString("\n")
		}
	}
	for _, sentence := range p.Seen.Unreached {
		fmt.Fprintf(text, "  not read: %s\n", sentence)
	}
}
