package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// errFound is the error of a verb whose checks found an error.
var errFound = errors.New("the check found errors")

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	hub, output, pre := &console.Hub{}, console.Output(""), false
	command := &cobra.Command{
		Use:   "check [--pre]",
		Short: "Check the hub and its members, or with --pre whether Flotilla can be installed",
		Long: `Check the hub and its members, or with --pre whether Flotilla can be installed.

Each line is what was found of one thing: x an error, ! a warning, ? it could not be read, + nothing is wrong.
Below an error or a warning is what to do. Nothing is written. The exit code is 1 if there is an error; a warning
does not change it.`,
		Example: "  flotilla check --pre --context hub\n  flotilla check --context hub\n  flotilla check -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			cfg, scheme, err := hub.Config()
			if err != nil {
				return err
			}
			if hub.AnyCluster = pre; !pre {
				if err := hub.NotTheHub(cmd.Context()); err != nil {
					return err
				}
			}
			results, err := look(cmd.Context(), cfg, scheme, hub.Flags(), pre)
			if err != nil {
				return err
			}
			if err := output.Print(cmd.OutOrStdout(), results,
				func(out io.Writer) error { return write(out, results) }); err != nil {
				return err
			}
			if n := count(results)[failed]; n > 0 {
				return fmt.Errorf("%w: %d", errFound, n)
			}
			return nil
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	command.Flags().BoolVar(&pre, "pre", false, "check whether Flotilla can be installed, before anything is")
	return command
}

// look reads a cluster and judges it. flags are those that name the cluster, for commands.
func look(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, flags string, pre bool) ([]Result, error) {
	f := &facts{now: clock.RealClock{}.Now(), flags: flags, own: version.Get().GitVersion}
	r, err := newReader(cfg, scheme, f)
	if err != nil {
		return nil, err
	}
	if err := r.reach(ctx, cfg.Host); err != nil {
		return nil, err
	}
	read, judge := r.now, running
	if pre {
		read, judge = r.before, installing
	}
	if err := read(ctx); err != nil {
		return nil, err
	}
	return judge(f), nil
}

// Text returns what the verb prints of a hub.
func Text(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (string, error) {
	results, err := look(ctx, cfg, scheme, "", false)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = write(&text, results)
	return text.String(), err
}

// count returns how many results there are of each outcome.
func count(results []Result) map[string]int {
	n := map[string]int{}
	for _, r := range results {
		n[r.Outcome]++
	}
	return n
}

// write writes the results as text, a line each below its category.
func write(out io.Writer, results []Result) error {
	marks := map[string]string{passed: "+", warned: "!", failed: "x", skipped: "?"}
	var text strings.Builder
	category := ""
	for _, r := range results {
		if r.Category != category {
			if category != "" {
				text.WriteString("\n")
			}
			category = r.Category
			text.WriteString(category + "\n")
		}
		fmt.Fprintf(&text, "%s %s", marks[r.Outcome], r.Name)
		if r.Found != "" {
			fmt.Fprintf(&text, ": %s", r.Found)
		}
		text.WriteString("\n")
		if r.Hint != "" {
			fmt.Fprintf(&text, "    %s\n", r.Hint)
		}
	}
	n := count(results)
	fmt.Fprintf(&text, "\n%d %s, %d %s; nothing is wrong with %d, and %d could not be read\n", n[failed],
		plural(n[failed], "error"), n[warned], plural(n[warned], "warning"), n[passed], n[skipped])
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
