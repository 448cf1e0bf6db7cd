package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// line prints what a run was.
func (r *result) line(out io.Writer, number int) {
	p := &r.report
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		faults = append(faults, fmt.Sprintf("%d %s", r.faults[kind], kind))
	}
	fmt.Fprintf(out, "run %d, seed %d: %d changes by the user; %s; at rest after %.0f s; %d events, %d pods taken down by us and %d by others, %d created, %d placements; most down by us at once %d, most added %d, %d suspicions; the machine stood still for %.1f s of %.0f s, programs for %.1f s; took %.0f s (%s); %d violations: %s\n",
		number, r.seed, r.changes, strings.Join(faults, ", "), r.rest.Seconds(), p.entries, p.disruptions, p.foreign, p.creations, p.placements,
		p.largestDown, p.largestAdded, p.excesses, r.stood.Seconds(), r.length.Seconds(), r.slow.Seconds(), r.took.Seconds(), strings.Join(r.lap.text, ", "), len(p.violations), r.verdict)
}

// told prints the first violations with what happened before.
func (r *result) told(out io.Writer) {
	const most = 3 // the rest of a broken run reads the same
	for i, v := range r.report.violations {
		if i == most {
			fmt.Fprintf(out, "  and %d more\n", len(r.report.violations)-most)
			return
		}
		fmt.Fprintf(out, "  %s\n", v)
		for _, line := range v.story[max(0, len(v.story)-storyMinimum):] {
			fmt.Fprintf(out, "      %s\n", line)
		}
	}
}

// preserve keeps what helps to understand the violations of a run: their stories, the objects, and the logs of our programs.
func (s *stage) preserve(ctx context.Context, r result, namespace string) {
	dir := s.folder(r.seed)
	write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var text strings.Builder
		for _, v := range r.report.violations {
			fmt.Fprintf(&text, "%s\n", v)
			for _, line := range v.story {
				fmt.Fprintf(&text, "    %s\n", line)
			}
		}
		err = write("violations.txt", text.String())
	}
	if err == nil {
		err = write("log.txt", tellAll(s.recorder.taken()))
	}
	if err == nil {
		err = write("objects.txt", s.h.Describe(ctx, namespace))
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(dir, fmt.Sprintf("logs-%d", time.Now().Unix())), os.DirFS(filepath.Join(s.h.Fleet.Dir, "logs")))
	}
	if err != nil {
		fmt.Fprintf(s.out, "could not keep everything of seed %d in %s: %v\n", r.seed, dir, err)
		return
	}
	fmt.Fprintf(s.out, "kept in %s\n", dir)
}

// tellAll returns a log as text, one line per entry.
func tellAll(log []entry) string {
	var text strings.Builder
	for i := range log {
		e := &log[i]
		fmt.Fprintf(&text, "%s %-5s %8d ", e.at.Format(clockFormat), e.cluster, e.version)
		switch {
		case e.pod != nil:
			fmt.Fprintf(&text, "pod %s active=%t ready=%t since=%s shut=%t gone=%t %s\n", e.pod.name, e.pod.active, e.pod.ready, e.pod.readySince.Format(clockFormat), e.pod.shut, e.pod.gone, e.pod.image)
		case e.set != nil:
			fmt.Fprintf(&text, "cloneset %s of %s observed=%d gone=%t %s\n", e.set.name, e.set.of, e.set.observed, e.set.gone, e.set.spec)
		case e.placed != nil:
			fmt.Fprintf(&text, "placement of %s sequence=%d %s\n", e.placed.workload, e.placed.sequence, e.placed)
		case e.asked != nil:
			fmt.Fprintf(&text, "user's %s generation=%d replicas=%d\n", e.asked.workload, e.asked.generation, e.asked.replicas)
		case e.silent != nil:
			fmt.Fprintf(&text, "silent=%t\n", e.silent.silent)
		case e.cut != nil:
			fmt.Fprintf(&text, "cut=%t\n", e.cut.cut)
		case e.stood != nil:
			fmt.Fprintf(&text, "%s from %s on\n", e.note, e.stood.from.Format(clockFormat))
		default:
			fmt.Fprintf(&text, "%s\n", e.note)
		}
	}
	return text.String()
}
