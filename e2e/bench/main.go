// Command bench measures Flotilla beside a bare client and the native Deployment, on the same machine, in the same
// run and on the same kind of API server, none of whose components limit their clients:
//
//	go run ./e2e/bench                      everything, once
//	go run ./e2e/bench -only rollout -n 3   one section, three times
//	go run ./e2e/bench -o json              for a program to read
//
// Sections: division (the mathematics alone), delivery (hub object to member objects, members without kubelets),
// rollout (a CloneSet of hundreds of pods in one cluster with simulated nodes). No figure makes it fail; a phase that
// does not end within its deadline does, and prints what it saw.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/go-logr/logr"
)

// options are the flags.
type options struct {
	only     string
	runs     int
	output   string
	programs string
	pods     int
	fan      int
	replicas int
	deadline time.Duration
	profiles string
	verbose  bool
}

// section is one part of the benchmark. It adds its figures to the report, also when it fails half way.
type section struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

func sections() []section {
	return []section{{"division", divisionSection}, {"delivery", deliverySection}, {"rollout", rolloutSection}}
}

// bench is what all sections share.
type bench struct {
	options
	bin      string // folder with the control-plane programs
	ours     string // folder with the programs of Flotilla
	report   *report
	progress io.Writer
}

// say tells a person who waits what is going on.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "comma-separated `sections` to run: division, delivery, rollout (default all)")
	flag.IntVar(&o.runs, "n", 1, "number of runs; the table shows the median, and the range where there are several")
	flag.StringVar(&o.output, "o", "table", "output `format`: table or json")
	flag.StringVar(&o.programs, "programs", "", "`folder` with flotilla-hub and flotilla-agent (default: built from this module)")
	flag.IntVar(&o.pods, "pods", 500, "replicas in the section rollout")
	flag.IntVar(&o.fan, "workloads", 100, "workloads at a time in the section delivery")
	flag.IntVar(&o.replicas, "replicas", 3, "replicas of each workload in the section delivery")
	flag.DurationVar(&o.deadline, "deadline", 3*time.Minute, "time after which a phase counts as stuck")
	flag.StringVar(&o.profiles, "profile", "", "`folder` for CPU profiles of the API server, one for the first seconds of each phase")
	flag.BoolVar(&o.verbose, "v", false, "print every request count, not only those of Flotilla, and the steps of the fleets")
	flag.Parse()

	//nolint:forbidigo // the root of the program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out, progress io.Writer) error {
	ctrllog.SetLogger(logr.Discard()) // the client library complains if nobody chose
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	b := &bench{options: o, report: newReport(), progress: progress}
	if !slices.Equal(chosen, []string{"division"}) {
		if err := fleet.Reap(); err != nil {
			b.say("could not remove fleets that were left behind: %v", err)
		}
		if b.bin, err = fleet.FindBinaries(); err != nil {
			return err
		}
		cleanup, err := b.buildPrograms(ctx)
		if err != nil {
			return err
		}
		defer cleanup()
	}
	for n := range o.runs {
		for _, s := range sections() {
			if !slices.Contains(chosen, s.name) {
				continue
			}
			b.say("== %s (run %d of %d)", s.name, n+1, o.runs)
			if serr := s.run(ctx, b); serr != nil {
				err = errors.Join(err, fmt.Errorf("section %s: %w", s.name, serr))
			}
		}
		if err != nil {
			break
		}
	}
	return errors.Join(b.report.write(out, o.output), err)
}

// choose checks the flags and returns the sections to run.
func choose(o options) ([]string, error) {
	var all []string
	for _, s := range sections() {
		all = append(all, s.name)
	}
	if o.output != "table" && o.output != "json" {
		return nil, fmt.Errorf("output format %q: use table or json", o.output)
	}
	if o.runs < 1 || o.pods < 1 || o.fan < 1 || o.replicas < 1 {
		return nil, errors.New("-n, -pods, -workloads and -replicas must be 1 or more")
	}
	if o.only == "" {
		return all, nil
	}
	chosen := strings.Split(o.only, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("section %q: use %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}
