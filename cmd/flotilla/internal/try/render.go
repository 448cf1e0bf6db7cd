package try

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/xlab/treeprint"
)

// render writes the tree as text: the members, then workload → zone → cluster with aligned numbers.
func render(out io.Writer, t *Tree) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "MEMBER\tREADY\tZONES\tNODES\t")
	for _, m := range t.Members {
		ready := "yes"
		if !m.Ready {
			ready = "no"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", m.Name, ready, m.Zones, m.Nodes)
	}
	_ = table.Flush() // writes to memory do not fail
	for _, m := range t.Members {
		if !m.Ready {
			fmt.Fprintf(&text, "%s: %s\n", m.Name, m.Message)
		}
	}
	text.WriteString("\n")

	root := treeprint.NewWithRoot("WORKLOAD\tDESIRED\tREADY\tUPDATED\t")
	for i := range t.Workloads {
		w := &t.Workloads[i]
		node := root.AddBranch(fmt.Sprintf("%s %s/%s\t%s\t%s", w.Kind, w.Namespace, w.Name, columns(w.Counts), remark(w)))
		for _, zone := range w.Zones {
			name := "zone " + zone.Name
			if zone.Name == "" {
				name = "any zone"
			}
			branch := node.AddBranch(fmt.Sprintf("%s\t%s\t", name, columns(zone.Counts)))
			for _, c := range zone.Clusters {
				note := ""
				if !c.Reported {
					note = "waiting for its report"
				}
				branch.AddNode(fmt.Sprintf("%s\t%s\t%s", c.Name, columns(c.Counts), note))
			}
		}
	}
	table = tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, root.String())
	_ = table.Flush()
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("write the tree: %w", err)
		}
	}
	return nil
}

func columns(c Counts) string { return fmt.Sprintf("%d\t%d\t%d", c.Desired, c.Ready, c.Updated) }

func remark(w *Workload) string {
	switch {
	case w.Problem != "":
		return w.Problem
	case w.Waiting != "":
		return w.Images + " (" + w.Waiting + ")"
	default:
		return w.Images
	}
}
