package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// mark is what was seen at the end of a row of the table.
type mark struct {
	at    time.Time
	phase string
	// open counts agents that may carry out orders, ready members that are Ready on the hub, -1 while the hub does not
	// say.
	open, ready int
	// sent counts the requests of the agents so far, also those that nobody answered.
	sent int64
	// The programs' use so far; that of the control plane is zero while it is away.
	hub, approver, server, etcd usage
}

// sample takes a mark at regular times until ctx ends.
func (h *herd) sample(ctx context.Context) error {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		m, err := h.mark(ctx)
		if err != nil {
			return err
		}
		h.marks = append(h.marks, m)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (h *herd) mark(ctx context.Context) (mark, error) {
	m := mark{at: time.Now(), phase: *h.phase.Load(), sent: h.sent.Load(), open: h.countOpen(ctx), ready: -1}
	asked, cancel := context.WithTimeout(ctx, sampleEvery/2)
	defer cancel()
	if ready, err := h.countReady(asked); err == nil {
		m.ready = ready
	}
	var err error
	if m.hub, err = readUsage(h.fleet.Pid(fleet.HubProgram)); err != nil {
		return m, fmt.Errorf("usage of the hub: %w", err)
	}
	if m.approver, err = readUsage(h.fleet.Pid(fleet.ApproverProgram)); err != nil {
		return m, fmt.Errorf("usage of the approver: %w", err)
	}
	for component, to := range map[string]*usage{"kube-apiserver": &m.server, "etcd": &m.etcd} {
		if pid, err := componentPid(h.hub.cluster, component); err == nil {
			*to, _ = readUsage(pid) // it may be away
		}
	}
	return m, nil
}

// timeline has a row for the time between each two marks. It is pure.
func timeline(marks []mark, events []audit.Event) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(
		table,
		"s\tphase\topen\tReady\thub CPU %\tMiB\tapprover %\tMiB\tAPI server %\tMiB\tetcd %\tagents: "+
			"create\tpatch\tget\tlist\twatch\tdelete\tsent\thub, approver: read\twrite\trefused",
	)
	for i := 1; i < len(marks); i++ {
		a, b := marks[i-1], marks[i]
		passed := b.at.Sub(a.at).Seconds()
		rates := rowOf(events, a.at, b.at)
		fmt.Fprintf(table, "%.0f\t%s\t%d\t%s", b.at.Sub(marks[0].at).Seconds(), b.phase, b.open, known(b.ready))
		for _, of := range []struct {
			before, after usage
			memory        bool
		}{{a.hub, b.hub, true}, {a.approver, b.approver, true}, {a.server, b.server, true}, {a.etcd, b.etcd, false}} {
			share := "-"
			if of.after.cpu >= of.before.cpu && of.after.rss > 0 && of.before.rss > 0 {
				share = fmt.Sprintf("%.0f", (of.after.cpu-of.before.cpu)/passed*100)
			}
			fmt.Fprintf(table, "\t%s", share)
			if of.memory {
				fmt.Fprintf(table, "\t%.0f", of.after.rss)
			}
		}
		for _, verb := range []string{"create", "patch", "get", "list", "watch", "delete"} {
			fmt.Fprintf(table, "\t%.1f", float64(rates.agents[verb])/passed)
		}
		fmt.Fprintf(
			table,
			"\t%.1f\t%.1f\t%.1f\t%.1f\n",
			float64(b.sent-a.sent)/passed,
			float64(rates.reads)/passed,
			float64(rates.writes)/passed,
			float64(rates.refused)/passed,
		)
	}
	_ = table.Flush() // writes to memory
	return out.String()
}

func known(n int) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// rates are the requests in one row.
type rates struct {
	agents                 map[string]int
	reads, writes, refused int
}

// rowOf counts the requests that were received between two times. What is not there, and what exists already, is an
// answer and no refusal.
func rowOf(events []audit.Event, from, to time.Time) rates {
	row := rates{agents: map[string]int{}}
	for i := range events {
		e := &events[i]
		switch {
		case e.Received.Before(from) || !e.Received.Before(to):
			continue
		case e.Program == fleet.AgentProgram:
			row.agents[e.Verb]++
		case e.Mutating():
			row.writes++
		default:
			row.reads++
		}
		if e.Code >= 400 && e.Code != 404 && e.Code != 409 {
			row.refused++
		}
	}
	return row
}
