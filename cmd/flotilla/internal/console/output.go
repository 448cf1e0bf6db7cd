package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// ErrUsage marks an error of the command line itself.
var ErrUsage = errors.New("usage")

// Usagef returns an error of the command line itself.
func Usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, args...))
}

// Output is the form in which a verb prints its result: text, json or yaml.
type Output string

// AddFlag adds the flag -o to a verb.
func (o *Output) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "text", "text, json or yaml")
	// The flag was added a line before.
	_ = cmd.RegisterFlagCompletionFunc(
		"output",
		cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp),
	)
}

// Check refuses a form that there is not.
func (o Output) Check() error {
	switch o {
	case "text", "json", "yaml":
		return nil
	}
	return Usagef("output %q: it can be text, json or yaml", string(o))
}

// Print writes the value in the form, or calls text.
func (o Output) Print(out io.Writer, value any, text func(io.Writer) error) error {
	var data []byte
	var err error
	switch o {
	case "json":
		data, err = json.MarshalIndent(value, "", "  ")
		data = append(data, '\n')
	case "yaml":
		if data, err = yaml.Marshal(value); err == nil {
			data = append([]byte("---\n"), data...)
		}
	default:
		return text(out)
	}
	if err != nil {
		return fmt.Errorf("encode the result as %s: %w", string(o), err)
	}
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// Table writes lines with columns between tabs so that the columns align, without spaces at the ends of lines.
func Table(out io.Writer, text string) error {
	var aligned strings.Builder
	table := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, text)
	_ = table.Flush() // writes to memory do not fail
	for line := range strings.Lines(aligned.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}

// IsTerminal tells whether a writer is a terminal, on which a picture can be drawn again.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
