package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/explain"
)

// Write writes plans as text.
func Write(out io.Writer, results []Workload) error {
	for i := range results {
		if i > 0 {
			if _, err := io.WriteString(out, "\n"); err != nil {
				return fmt.Errorf("write the result: %w", err)
			}
		}
		for _, part := range results[i].parts() {
			if err := console.Table(out, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts returns the parts of a plan as text, each with columns of its own.
func (w *Workload) parts() []string {
	parts := []string{w.cells(), w.memberText()}
	if len(w.Waves) > 0 {
		parts = append(parts, wavesText(w.Waves))
	}
	if len(w.Notes) > 0 {
		parts = append(parts, strings.Join(w.Notes, "\n")+"\n")
	}
	return parts
}

// cells writes what goes where.
func (w *Workload) cells() string {
	p := &w.Planned
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", p.Key.Sentence(), headline(p))
	if len(p.Cells) > 0 {
		text.WriteString("CLUSTER\tZONE\tSUBSET\tNOW\tPLAN\tWHY\n")
	}
	for _, c := range p.Cells {
		why := c.Reason.Code + ": " + c.Why
		if c.Passed {
			why = "before: " + c.Why // its code would be taken for what holds now
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%d\t%d\t%s\n", c.Cluster, dash(c.Zone), dash(c.Subset), c.Present, c.Replicas, why)
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&text, "not placed\t-\t%s\t-\t%d\t%s: %s\n", dash(u.Subset), u.Replicas, u.Reason.Code, u.Why)
	}
	if p.Moved > 0 {
		fmt.Fprintf(&text, "%d replicas move: %s\n", p.Moved, strings.Join(p.Changes, ", "))
	}
	return text.String()
}

// memberText writes what changes in members, those with the same changes together. A workload that is placed for the
// first time has no such part: the table has its pods.
func (w *Workload) memberText() string {
	if !w.placed || len(w.Members) == 0 {
		return ""
	}
	names, order := map[string][]string{}, []string{}
	for i := range w.Members {
		text := w.Members[i].text()
		if names[text] == nil {
			order = append(order, text)
		}
		names[text] = append(names[text], w.Members[i].Name)
	}
	var text strings.Builder
	for _, changes := range order {
		fmt.Fprintf(&text, "in %s:\n%s", strings.Join(names[changes], ", "), changes)
	}
	return text.String()
}

// text writes what changes in a member, a line each.
func (m *Member) text() string {
	var lines []string
	switch m.Action {
	case Create:
		lines = append(lines, "the object is created")
	case Remove:
		lines = append(lines, "the object is removed")
	}
	for i := range m.Fields {
		lines = append(lines, m.Fields[i].text())
	}
	for i := range m.Updates {
		lines = append(lines, m.Updates[i].text())
	}
	var pods int32
	for i := range m.Updates {
		pods += m.Updates[i].Pods
	}
	if pods > m.MayUpdate {
		lines = append(lines, fmt.Sprintf("%d of %d now; the others as waves, the partition and the limits allow",
			m.MayUpdate, pods))
	}
	if m.Created > 0 {
		lines = append(lines, counted(m.Created, "is created", "are created"))
	}
	if m.Deleted > 0 {
		lines = append(lines, counted(m.Deleted, "is deleted", "are deleted"))
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// text says how pods get another template.
func (u *Update) text() string {
	text := ""
	switch u.How {
	case InPlace:
		text = counted(u.Pods, "is", "are") + " updated in place"
		switch len(u.Restarts) {
		case 0:
			text += "; no container restarts"
		case 1:
			text += "; container " + u.Restarts[0] + " restarts"
		default:
			text += "; containers " + strings.Join(u.Restarts, ", ") + " restart"
		}
	case Recreate:
		text = counted(u.Pods, "is", "are") + " replaced"
		if u.Field != "" {
			text += "; " + u.Field + " cannot change in running pods"
		}
	case OnDelete:
		text = counted(u.Pods, "gets", "get") + " the template when a user deletes it (updateStrategy.type OnDelete)"
	case Impossible:
		text = counted(u.Pods, "keeps its", "keep their") + " template: podUpdatePolicy is InPlaceOnly, and " + u.Field +
			" cannot change in running pods"
	}
	if u.Subset != "" {
		text = "subset " + u.Subset + ": " + text
	}
	return text
}

func counted(n int32, one, more string) string {
	if n == 1 {
		return "1 pod " + one
	}
	return fmt.Sprintf("%d pods %s", n, more)
}

// wavesText writes the waves as a table.
func wavesText(waves []Wave) string {
	var text strings.Builder
	text.WriteString("WAVE\tPODS\tWHERE\tTHEN\n")
	for i := range waves {
		wave := &waves[i]
		name := wave.Name
		switch {
		case name == "":
			name = "(rest)"
		case wave.Current:
			name += " (now)"
		}
		var places []string
		for _, p := range wave.Places {
			at := p.Cluster
			if p.Subset != "" {
				at += "/" + p.Subset
			}
			places = append(places, fmt.Sprintf("%s %d", at, p.Pods))
		}
		where := strings.Join(places, ", ")
		if where == "" && wave.Pods > 0 {
			where = "all clusters together"
		}
		fmt.Fprintf(&text, "%s\t%d\t%s\t%s\n", name, wave.Pods, dash(where), dash(wave.then()))
	}
	return text.String()
}

// then says what comes before the next wave.
func (w *Wave) then() string {
	var all []string
	if w.Soak != "" {
		all = append(all, "soak "+w.Soak)
	}
	for _, check := range slices.Sorted(slices.Values(w.Checks)) {
		all = append(all, "check "+check)
	}
	if w.Approval {
		all = append(all, "approval")
	}
	return strings.Join(all, ", ")
}

// headline says the result in one sentence.
func headline(p *explain.Planned) string {
	counts := fmt.Sprintf("%d replicas, %d placed", p.Replicas, p.Placed)
	switch {
	case p.Reason == "" && !p.Removed:
		return "the hub does not place it, because its namespace is not federated"
	case p.Removed && p.Message == "":
		return "what is placed is removed"
	case p.Removed:
		return "what is placed is removed: " + p.Message
	case !p.Decided:
		return "not placed anew (" + p.Reason + "): " + p.Message
	case p.PerMember:
		return p.Message
	}
	return counts + ": " + p.Message
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
