package main

import (
	"context"
	"errors"
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
	fmt.Fprintf(out, "run %d, seed %d: %d changes by the user; %s; at rest after %.0f s; %d events, %d pods taken down "+
		"by us and %d by others, %d created, %d placements; most down by us at once %d, most added %d, %d suspicions; the "+
		"machine stood still for %.1f s of %.0f s, programs for %.1f s; took %.0f s (%s); %d violations: %s\n",
		number, r.seed, r.changes, strings.Join(faults, ", "), r.rest.Seconds(), p.entries, p.disruptions, p.foreign,
		p.creations, p.placements,
		p.largestDown, p.largestAdded, p.excesses, r.stood.Seconds(), r.length.Seconds(), r.slow.Seconds(), r.took.Seconds(),
		strings.Join(r.lap.text, ", "), len(p.violations), r.verdict)
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

// preserve keeps what helps to understand what was wrong, in a new folder that outlives the run, and prints where: the
// stories of violations, what the recorder has, the objects, the logs of our programs, and those of every control plane
// with its audit log. What cannot be kept does not stand in the way of the rest.
func (s *stage) preserve(ctx context.Context, name, namespace string, found []violation) {
	const most = time.Minute // an API server may be away
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer stop()
	dir := filepath.Join(s.keep, name+"-"+time.Now().UTC().Format("20060102T150405.000"))
	err := os.MkdirAll(dir, 0o700)
	write := func(name, text string) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("violations.txt", tellFound(found))
	write("log.txt", tellAll(s.recorder.taken()))
	err = errors.Join(err, os.CopyFS(filepath.Join(dir, "programs"), os.DirFS(filepath.Join(s.h.Fleet.Dir, "logs"))))
	for _, c := range s.h.Fleet.Clusters() {
		err = errors.Join(err, os.CopyFS(filepath.Join(dir, "clusters", c.Name), os.DirFS(c.LogDir())))
	}
	write("objects.txt", s.h.Describe(ctx, namespace))
	if err != nil {
		fmt.Fprintf(s.out, "could not keep everything of %s: %v\n", name, err)
	}
	fmt.Fprintf(s.out, "kept in %s\n", dir)
}

// tellFound returns violations with their stories.
func tellFound(found []violation) string {
	var text strings.Builder
	for _, v := range found {
		fmt.Fprintf(&text, "%s\n", v)
		for _, line := range v.story {
			fmt.Fprintf(&text, "    %s\n", line)
		}
	}
	return text.String()
}

// tellAll returns a log as text, one line per entry.
func tellAll(log []entry) string {
	var text strings.Builder
	for i := range log {
		e := &log[i]
		fmt.Fprintf(&text, "%s %-5s %8d ", e.at.Format(clockFormat), e.cluster, e.version)
		switch {
		case e.pod != nil:
			fmt.Fprintf(&text, "pod %s active=%t ended=%t deleted=%s ready=%t since=%s shut=%t gone=%t %s\n", e.pod.name,
				e.pod.active, e.pod.ended, e.pod.deleted.Format(clockFormat), e.pod.ready, e.pod.readySince.Format(clockFormat),
				e.pod.shut, e.pod.gone, e.pod.image)
		case e.set != nil:
			fmt.Fprintf(&text, "cloneset %s of %s observed=%d gone=%t %s\n", e.set.name, e.set.of, e.set.observed, e.set.gone,
				e.set.spec)
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
