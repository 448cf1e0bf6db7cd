package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// connection marks the flags of kubectl that say how a cluster is reached.
const connection = "flotilla.connection"

// everyday are those of them that a help lists with the verb's own.
func everyday() []string { return []string{"context", "kubeconfig", "namespace", "request-timeout"} }

// markConnection marks the flags of kubectl that a verb has, so that its help does not begin with them.
func markConnection(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(everyday(), f.Name) {
			_ = flags.SetAnnotation(f.Name, connection, nil) // the flag is there
		}
	})
}

// Usage returns how a verb's usage is printed: as plain does, with the flags of kubectl that hardly anybody needs in
// one sentence after the verb's own.
func Usage(plain func(*cobra.Command) error) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		var hidden []*pflag.Flag
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, marked := f.Annotations[connection]; marked && !f.Hidden {
				hidden = append(hidden, f)
			}
		})
		if len(hidden) == 0 {
			return plain(cmd)
		}
		// They are hidden while the others are printed, and not from completion.
		names := make([]string, 0, len(hidden))
		for _, f := range hidden {
			names, f.Hidden = append(names, "--"+f.Name), true
		}
		err := plain(cmd)
		for _, f := range hidden {
			f.Hidden = false
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(
			cmd.OutOrStderr(),
			"\nAlso kubectl's flags for a connection, which `kubectl options` explains:\n%s",
			folded(names),
		)
		return err
	}
}

// folded writes names in lines of 100 characters at most.
func folded(names []string) string {
	var text strings.Builder
	line := ""
	for _, name := range names {
		if len(line)+len(name) > 98 {
			text.WriteString(line + "\n")
			line = ""
		}
		line += "  " + name
	}
	return text.String() + line + "\n"
}

// VerbArguments refuses what follows a verb that only has verbs of its own, with those that were perhaps meant.
func VerbArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() {
			verbs = append(verbs, verb.Name())
		}
	}
	// The same distance as cobra's own for the verbs of the program.
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("%s has no verb %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(near, ", "))
	}
	return Usagef("%s has no verb %q; there is %s", cmd.CommandPath(), args[0], strings.Join(verbs, ", "))
}

// Arguments returns a check of arguments that says, where they are wrong, how the verb is written.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		form := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		switch {
		case len(args) == 0:
			return Usagef("something is missing: write %s", form)
		case len(args) == 2 && strings.Contains(form, "KIND/NAME") && !strings.Contains(args[0]+args[1], "/"):
			return Usagef("%q names no workload: write %s/%s, as in %s", strings.Join(args, " "), args[0], args[1], form)
		}
		return Usagef("%q cannot be read: write %s", strings.Join(args, " "), form)
	}
}

// FlagError says of a value that a flag does not take what it takes, in place of the words of the parser; other errors
// stay as they are.
func FlagError(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	var takes string
	switch wrong.GetFlag().Value.Type() {
	case "int", "int32", "int64":
		takes = "a whole number"
	case "bool":
		takes = "true or false"
	case "duration":
		takes = "a duration, as 90s or 10m"
	default:
		return err
	}
	return fmt.Errorf("--%s %q: it must be %s", wrong.GetFlag().Name, wrong.GetValue(), takes)
}
