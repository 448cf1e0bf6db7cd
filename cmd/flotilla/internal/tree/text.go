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
	root := treeprint.NewWithRoot("WORKLOAD\tDESIRED\tPLACED\tREADY\tUPDATED\tSTATE")
	for i := range t.Workloads {
		w := &t.Workloads[i]
		name := wire.Key{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}.Sentence()
		branch := root.AddBranch(line(name, &w.Pods, w.notes()...))
		for j := range w.Zones {
			z := &w.Zones[j]
			zone := branch.AddBranch(line(zoneTitle(z.Name), &z.Pods, stale(z.Stale)))
			for k := range z.Clusters {
				c := &z.Clusters[k]
				note := ""
				if c.Stale {
					note = "stale: the member is unreachable, the numbers are its last"
				}
				zone.AddNode(line(c.Name, &c.Pods, note, c.Waiting))
			}
		}
	}
	return console.Table(out, root.String())
}

func (w *Workload) notes() []string {
	notes := []string{stale(w.Stale), w.images(), w.Problem}
	if len(w.Zones) == 0 && w.Problem == "" {
		notes = append(notes, w.Waiting)
	}
	notes = append(notes, w.mistyped)
	if w.Unplaced > 0 && w.Problem == "" {
		notes = append(notes, fmt.Sprintf("%d not placed", w.Unplaced))
	}
	if w.Wave != nil {
		notes = append(notes, w.Wave.Message)
	}
	if w.Paused {
		notes = append(notes, fmt.Sprintf("paused: flotilla rollout resume %s/%s -n %s", strings.ToLower(w.Kind), w.Name,
			w.Namespace))
	}
	for _, reason := range w.PodReasons[:min(len(w.PodReasons), mostReasons)] {
		notes = append(notes, reason.String())
	}
	for _, state := range w.States {
		notes = append(notes, state.String())
	}
	return notes
}

// mostReasons is how many reasons of pods a line has.
const mostReasons = 2

func stale(members []string) string {
	if len(members) == 0 {
		return ""
	}
	return "stale: " + strings.Join(members, ", ")
}

// images says what the pods of each revision run: "nginx:1.26 ×5, nginx:1.27 ×4".
func (w *Workload) images() string {
	var parts []string
	for _, revision := range w.Images {
		images := strings.Join(revision.Images, "+")
		if images == "" {
			images = "previous revision"
			if w.previous != nil {
				images += " (its images are not read: ask for this workload alone)"
			}
		}
		parts = append(parts, fmt.Sprintf("%s ×%d", images, revision.Pods))
	}
	return strings.Join(parts, ", ")
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
	}{{p.NotReady, "not ready"}, {p.Missing, "missing"}, {p.Surplus, "too many"},
		{p.Replaced, "replaced elsewhere"}} {
		if s.n > 0 {
			states = append(states, fmt.Sprintf("%d %s", s.n, s.what))
		}
	}
	for _, note := range notes {
		if note != "" {
			states = append(states, strings.Join(strings.Fields(note), " "))
		}
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%s", name, p.Desired, p.Placed, p.Ready, p.Updated,
		strings.Join(states, "; "))
}
