package try

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
)

// render writes the tree as text: the members, then the workloads as `flotilla tree` writes them.
func render(out io.Writer, t *Tree) error {
	var aligned strings.Builder
	table := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "MEMBER\tREADY\tZONES\tNODES\t")
	for _, m := range t.Members {
		ready := "yes"
		if !m.Ready {
			ready = "no"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", m.Name, ready, m.Zones, m.Nodes)
	}
	_ = table.Flush() // writes to memory do not fail
	var text strings.Builder
	for line := range strings.Lines(aligned.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	for _, m := range t.Members {
		if !m.Ready {
			fmt.Fprintf(&text, "%s: %s\n", m.Name, m.Message)
		}
	}
	text.WriteString("\n")

	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the tree: %w", err)
	}
	return tree.Write(out, &tree.Tree{Workloads: t.Workloads})
}
