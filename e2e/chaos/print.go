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

	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// line prints what a run was.
func (r *result) line(out io.Writer, number int) {
	p := &r.report
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		faults = append(faults, fmt.Sprintf("%d %s", r.faults[kind], kind))
	}
	fmt.Fprintf(out, "run %d, seed %d: %d changes by the user; %s; at rest after %.0f s; %d events, %d pods taken down "+
		"by us and %d by others, %d created, %d updates of sidecars, %d restarts of containers, "+
		"%d placements; most down by us at once %d, most "+
		"added %d, %d suspicions; the machine stood still for %.1f s of %.0f s, programs for %.1f s; "+
		"took %.0f s (%s); %d violations: %s\n",
		number, r.seed, r.changes, strings.Join(faults, ", "), r.rest.Seconds(), p.Entries, p.Disruptions, p.Foreign,
		p.Creations, p.SidecarUpdates, p.Restarts, p.Placements,
		p.LargestDown, p.LargestAdded, p.Suspicions, r.stood.Seconds(), r.length.Seconds(), r.slow.Seconds(),
		r.took.Seconds(),
		strings.Join(r.lap.text, ", "), len(p.Violations), r.verdict)
}

// told prints the first violations with what happened before.
func (r *result) told(out io.Writer) {
	const most = 3 // the rest of a broken run reads the same
	for i, v := range r.report.Violations {
		if i == most {
			fmt.Fprintf(out, "  and %d more\n", len(r.report.Violations)-most)
			return
		}
		fmt.Fprintf(out, "  %s\n", v)
		for _, line := range v.Trace[max(0, len(v.Trace)-judge.ShortTrace):] {
			fmt.Fprintf(out, "      %s\n", line)
		}
	}
}

// preserve keeps what helps to understand what was wrong, in a new folder that outlives the run, and prints where: the
// traces of violations, what the recorder has, the objects, the logs of our programs, and those of every control plane
// with its audit log. What cannot be kept does not stand in the way of the rest.
func (s *stage) preserve(ctx context.Context, name, namespace string, found []judge.Violation) {
	const most = time.Minute // an API server may be away
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer stop()
	dir := filepath.Join(s.keep, name+"-"+time.Now().UTC().Format("20060102T150405.000"))
	err := os.MkdirAll(dir, 0o700)
	write := func(name, text string) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("violations.txt", judge.FormatViolations(found))
	write("log.txt", judge.FormatLog(s.recorder.taken()))
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
