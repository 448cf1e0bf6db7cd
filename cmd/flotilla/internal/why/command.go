// Package why is the verb `flotilla why`: it answers why a workload runs where it runs, from the recorded reasons.
package why

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	var (
		hub      console.Hub
		output   console.Output
		question explain.Question
	)
	command := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Say why a workload runs where it runs, and why not elsewhere",
		Long: `Say why a workload runs where it runs, and why not elsewhere.

The reasons of numbers are those that the hub recorded when it gave them. What is not recorded, such as a member without
replicas, is judged as things stand now, and is marked "now".`,
		Example: `  flotilla why ud/web
  flotilla why ud/web -C east
  flotilla why clone/api -n shop --zone a -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			namespace, err := hub.Namespace()
			if err != nil {
				return err
			}
			key, err := console.Workload(args[0], namespace)
			if err != nil {
				return err
			}
			s, hubID, err := hub.Record(cmd.Context(), key.PlacementNamespace())
			if err != nil {
				return err
			}
			object := kinds.Workloads()[key.GroupKind()].New()
			if err := s.Get(cmd.Context(), key.Workload(), object); apierrors.IsNotFound(err) {
				c, err := hub.Client()
				if err != nil {
					return err
				}
				return console.NotFound(cmd.Context(), c, key)
			}
			facts, err := explain.Gather(cmd.Context(), s, hubID, key)
			if err != nil {
				return err
			}
			if len(facts.Members) == 0 {
				if err := hub.NotTheHub(cmd.Context()); err != nil {
					return err
				}
				console.NoteNoMembers(cmd.ErrOrStderr())
			}
			answer, err := explain.Why(facts, question)
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), answer, func(out io.Writer) error { return write(out, answer) })
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	command.Flags().StringVarP(&question.Cluster, "member", "C", "", "ask about one member")
	command.Flags().StringVar(&question.Zone, "zone", "", "ask about one zone")
	command.Flags().StringVar(&question.Subset, "subset", "", "ask about one subset")
	// The flags were added above.
	_ = command.RegisterFlagCompletionFunc("member", hub.CompleteMembers)
	_ = command.RegisterFlagCompletionFunc("zone", hub.CompleteCells(func(c topology.Cell) string { return c.Zone }))
	_ = command.RegisterFlagCompletionFunc("subset", hub.CompleteCells(func(c topology.Cell) string { return c.Subset }))
	return command
}

// write writes the answer as text.
func write(out io.Writer, a *explain.Answer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: ", wire.Key{Kind: a.Kind, Namespace: a.Namespace, Name: a.Name}.Sentence())
	switch {
	case !a.PerMember:
		fmt.Fprintf(&text, "%d replicas, %d placed", a.Replicas, a.Placed)
	case len(a.Cells) > 0:
		text.WriteString("placed")
	default:
		text.WriteString("not placed")
	}
	if a.Policy != "" {
		fmt.Fprintf(&text, " by %s", a.Policy)
	}
	text.WriteString("\n")
	for _, c := range a.Conditions {
		fmt.Fprintf(&text, "%s=%s, %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, reason := range a.PodReasons {
		fmt.Fprintf(&text, "pods are not Ready or not gone: %s\n", reason)
	}
	for _, state := range a.States {
		fmt.Fprintf(&text, "pods in %s\n", state)
	}
	if a.Pending != "" {
		fmt.Fprintf(&text, "now: %s\n", a.Pending)
	}
	if len(a.Cells) > 0 {
		text.WriteString("\n")
	}
	writePlaces(&text, a)
	if len(a.Cells)+len(a.Unplaced) > 0 {
		fmt.Fprintf(&text, "\nThe words in brackets are explained in %s\n", explain.Page)
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// writePlaces writes what is in which cell, what is not placed, and which members have nothing.
func writePlaces(text *strings.Builder, a *explain.Answer) {
	for _, c := range a.Cells {
		fmt.Fprintf(text, "%s has %d: %s [%s]\n", explain.Place(c.Cluster, c.Zone, c.Subset), c.Replicas, c.Why,
			c.Reason.Code)
		for _, now := range c.Now {
			fmt.Fprintf(text, "  now: %s\n", now)
		}
	}
	for _, u := range a.Unplaced {
		of := ""
		if u.Subset != "" {
			of = " of subset " + u.Subset
		}
		fmt.Fprintf(text, "not placed%s: %d: %s [%s]\n", of, u.Replicas, u.Why, u.Reason.Code)
	}
	for _, w := range a.Without {
		fmt.Fprintf(text, "%s has none\n", w.Cluster)
		for _, now := range w.Now {
			fmt.Fprintf(text, "  now: %s\n", now)
		}
	}
}
