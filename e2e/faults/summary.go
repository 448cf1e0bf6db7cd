package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// summary is what a run was.
type summary struct {
	seed                   uint64
	episodes, kills, ends  int
	changes, writes        int
	disruptions, creations int
	faults                 map[faultproxy.Fault]int
	// worst is the longest time to come to rest, blind the longest until all watches were back before that.
	// idle is the longest pause between two writes before rest.
	worst, blind, idle time.Duration
	violations         []judge.Violation
}

// mostTraces is how many violations are printed in full; the rest of a broken run reads the same.
const mostTraces = 5

func (s *summary) write(out io.Writer) {
	fmt.Fprintf(out, "\nseed %d: %d episodes, %d kills, %d ends of a child that could not start, %d changes by the "+
		"user, %d writes of the controller\n", s.seed, s.episodes, s.kills, s.ends, s.changes, s.writes)
	fmt.Fprintf(out, "checked: %d pods made unavailable by the controller, %d pods created\n", s.disruptions, s.creations)
	fmt.Fprintf(out, "worst time to come to rest: %.1f s, after up to %.1f s that client-go took to watch again; "+
		"longest pause between writes %.1f s\n", s.worst.Seconds(), s.blind.Seconds(), s.idle.Seconds())
	for _, kind := range slices.Sorted(maps.Keys(s.faults)) {
		fmt.Fprintf(out, "%6d  %s\n", s.faults[kind], kind)
	}
	fmt.Fprintf(out, "%d violations\n", len(s.violations))
	fmt.Fprint(out, judge.FormatViolations(s.violations[:min(len(s.violations), mostTraces)]))
}

// verdict is the error of a run that broke a promise, or of one with a broken controller that broke none.
func (s *summary) verdict(broken string) error {
	switch n := len(s.violations); {
	case broken == "" && n > 0:
		return fmt.Errorf("%d violations; repeat with -seed %d", n, s.seed)
	case broken != "" && n == 0:
		return errors.New("the controller was broken, and nothing was found: the checker is blind")
	}
	return nil
}
