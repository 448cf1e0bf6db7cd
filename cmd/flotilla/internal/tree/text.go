package tree

import (
	"fmt"
	"io"
	"strings"

	"github.com/xlab/treeprint"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Write writes the tree as text with aligned columns.
func Write(out io.Writer, t *Tree) error {
	root := treeprint.NewWithRoot("WORKLOAD\tDESIRED\tREADY\tUPDATED\tSTATE")
	for i := range t.Workloads {
		w := &t.Workloads[i]
		name := wire.Key{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}.Sentence()
		branch := root.AddBranch(line(name, &w.Pods, w.notes()...))
		for j := range w.Zones {
			z := &w.Zones[j]
			zone := branch.AddBranch(line(zoneTitle(z.Name), &z.Pods))
			for k := range z.Clusters {
				c := &z.Clusters[k]
				zone.AddNode(line(c.Name, &c.Pods, c.Waiting))
			}
		}
	}
	return console.Table(out, root.String())
}

func (w *Workload) notes() []string {
	notes := []string{w.Problem}
	if w.Unplaced > 0 && w.Problem == "" {
		notes = append(notes, fmt.Sprintf("%d not placed", w.Unplaced))
	}
	for _, state := range w.States {
		notes = append(notes, state.String())
	}
	return notes
}

func zoneTitle(name string) string {
	switch {
	case name == "":
		return "any zone"
	case strings.Contains(name, ","):
		return "zones " + name
	}
	return "zone " + name
}

func line(name string, p *Pods, notes ...string) string {
	states := []string{}
	for _, s := range []struct {
		n    int32
		what string
	}{{p.NotReady, "not ready"}, {p.Missing, "missing"}, {p.Surplus, "too many"}} {
		if s.n > 0 {
			states = append(states, fmt.Sprintf("%d %s", s.n, s.what))
		}
	}
	for _, note := range notes {
		if note != "" {
			states = append(states, strings.Join(strings.Fields(note), " "))
		}
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%s", name, p.Desired, p.Ready, p.Updated, strings.Join(states, "; "))
}
