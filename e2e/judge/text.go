package judge

import (
	"fmt"
	"strings"
)

// FormatViolations returns violations with their traces.
func FormatViolations(found []Violation) string {
	var text strings.Builder
	for _, v := range found {
		fmt.Fprintf(&text, "%s\n", v)
		for _, line := range v.Trace {
			fmt.Fprintf(&text, "    %s\n", line)
		}
	}
	return text.String()
}

// FormatLog returns a log as text, one line per entry.
func FormatLog(log []Entry) string {
	var text strings.Builder
	for i := range log {
		e := &log[i]
		fmt.Fprintf(&text, "%s %-5s %8d ", e.At.Format(ClockFormat), e.Cluster, e.Version)
		switch {
		case e.Pod != nil:
			fmt.Fprintf(&text, "pod %s active=%t ended=%t deleted=%s ready=%t since=%s updating=%t restarting=%t gone=%t %s\n",
				e.Pod.Name,
				e.Pod.Active, e.Pod.Ended, e.Pod.Deleted.Format(ClockFormat), e.Pod.Ready, e.Pod.ReadySince.Format(ClockFormat),
				e.Pod.Updating, e.Pod.Restarting, e.Pod.Gone, e.Pod.Image)
		case e.Cell != nil:
			fmt.Fprintf(&text, "cell %s of %s observed=%d gone=%t %s\n", e.Cell.Name, e.Cell.Of, e.Cell.Observed, e.Cell.Gone,
				e.Cell.Spec)
		case e.Placement != nil:
			fmt.Fprintf(&text, "placement of %s sequence=%d %s\n", e.Placement.Workload, e.Placement.Sequence, e.Placement)
		case e.Desired != nil:
			fmt.Fprintf(&text, "user's %s generation=%d replicas=%d\n", e.Desired.Workload, e.Desired.Generation,
				e.Desired.Replicas)
		case e.Stop != nil:
			fmt.Fprintf(&text, "stop of %s in pod %s for request %s, id %s\n", e.Stop.Container, e.Stop.Name, e.Stop.Request,
				e.Stop.ID)
		case e.Member != nil:
			fmt.Fprintf(&text, "unreachable=%t fenced=%t\n", e.Member.Unreachable, e.Member.Fenced)
		case e.Link != nil:
			fmt.Fprintf(&text, "cut=%t\n", e.Link.Cut)
		case e.Stall != nil:
			fmt.Fprintf(&text, "%s from %s on\n", e.Note, e.Stall.From.Format(ClockFormat))
		default:
			fmt.Fprintf(&text, "%s\n", e.Note)
		}
	}
	return text.String()
}
