package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// options are the flags.
type options struct {
	runs     int
	seed     uint64
	length   time.Duration
	deadline time.Duration
	sabotage string
	keep     string
}

func main() {
	ctrllog.SetLogger(logr.Discard()) // the client library complains if nobody chose
	//nolint:forbidigo // the root of the program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, out io.Writer) error {
	var o options
	flag.IntVar(&o.runs, "runs", 3, "`number` of runs; with -sabotage, the most that it may take to notice")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "`seed` of the first run; each next one has the next seed")
	flag.DurationVar(&o.length, "for", time.Minute, "length of the storm of each run, as a `time`")
	flag.DurationVar(&o.deadline, "deadline", 3*time.Minute, "`time` to come to rest after a storm")
	flag.StringVar(&o.sabotage, "sabotage", "", "build the programs with this rule switched off, and fail unless that is noticed: "+strings.Join(sabotageNames(), ", "))
	flag.StringVar(&o.keep, "keep", filepath.Join(os.TempDir(), "flotilla-chaos"), "`folder` for logs and objects of runs with violations")
	flag.Parse()
	if o.runs < 1 {
		return fmt.Errorf("-runs %d: give 1 or more", o.runs)
	}
	if o.sabotage != "" {
		dir, err := os.MkdirTemp("", "chaos-")
		if err != nil {
			return fmt.Errorf("make a folder for sabotaged programs: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // it is in the folder for what may be removed
		if err := buildSabotaged(ctx, o.sabotage, dir); err != nil {
			return err
		}
		if err := os.Setenv("FLOTILLA_BIN", dir); err != nil {
			return fmt.Errorf("choose the sabotaged programs: %w", err)
		}
	}
	return playAll(ctx, o, out)
}

// playAll starts the fleet, plays the runs and says what came out. The error says how to repeat the first bad run.
func playAll(ctx context.Context, o options, out io.Writer) error {
	s, end, err := open(ctx, o, out)
	if err != nil {
		return err
	}
	bad, caught, sum := 0, 0, result{faults: map[string]int{}}
	for i := range o.runs {
		var res result
		res, err = s.play(ctx, o.seed+uint64(i), o.length)
		sum.add(&res)
		if len(res.report.violations) > 0 {
			bad++
			if caught == 0 {
				caught = i + 1
			}
		}
		res.line(out, i+1)
		res.told(out)
		if err != nil || o.sabotage != "" && caught > 0 {
			break
		}
	}
	for _, g := range s.gates {
		sum.faults["bad answers"] += g.faults
	}
	err = errors.Join(err, end())
	fmt.Fprint(out, "\nall together: ")
	sum.line(out, o.runs)
	switch {
	case o.sabotage != "" && caught > 0:
		fmt.Fprintf(out, "%s switched off: noticed in run %d\n", o.sabotage, caught)
		return nil
	case o.sabotage != "":
		return errors.Join(err, fmt.Errorf("%s was switched off, and nothing was found in %d runs: the checker is blind", o.sabotage, o.runs))
	case bad > 0:
		return errors.Join(err, fmt.Errorf("%d of %d runs broke a promise; look into %s, and repeat with -seed %d -runs %d", bad, o.runs, o.keep, o.seed, o.runs))
	}
	return err
}

// add adds what another run was.
func (r *result) add(one *result) {
	r.changes += one.changes
	r.rest = max(r.rest, one.rest)
	for kind, n := range one.faults {
		r.faults[kind] += n
	}
	a, b := &r.report, &one.report
	a.violations = append(a.violations, b.violations...)
	a.entries, a.disruptions, a.creations = a.entries+b.entries, a.disruptions+b.disruptions, a.creations+b.creations
	a.foreign, a.placements, a.userChanges = a.foreign+b.foreign, a.placements+b.placements, a.userChanges+b.userChanges
	a.largestDown, a.largestAdded = max(a.largestDown, b.largestDown), max(a.largestAdded, b.largestAdded)
	a.excesses += b.excesses
}

// open starts the fleet with a gate at every link of our programs, and the recorder. The returned function ends all of it.
func open(ctx context.Context, o options, out io.Writer) (*stage, func() error, error) {
	progress := func(step string) { fmt.Fprintln(out, "fleet:", step) }
	h, err := harness.Start(ctx, harness.Options{Members: harness.ThreeMembers(), Progress: progress})
	if err != nil {
		return nil, nil, err
	}
	s := &stage{h: h, recorder: &recorder{}, gates: map[string]*gate{}, deadline: o.deadline, out: out, keep: o.keep}
	life, stop := context.WithCancel(ctx)
	end := func() error {
		stop()
		var err error
		for _, g := range s.gates {
			err = errors.Join(err, g.close())
		}
		return errors.Join(err, h.Close())
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apps.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("register types: %w", err), end())
		}
	}
	err = s.recorder.start(life, h, scheme)
	if err == nil {
		err = s.openGates(ctx, o.seed)
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return s, end, nil
}

// openGates lets every program of ours dial through gates from now on.
func (s *stage) openGates(ctx context.Context, seed uint64) error {
	type link struct {
		name string
		path func() (string, error)
	}
	f := s.h.Fleet
	links := []link{{fleet.HubProgram + " to hub", func() (string, error) { return f.HubIdentity(ctx) }}}
	for _, name := range s.h.MemberNames() {
		links = append(links,
			link{hubGate(name), func() (string, error) { return f.MemberIdentity(ctx, name) }},
			link{ownGate(name), func() (string, error) { return f.AgentIdentity(ctx, f.Member(name)) }})
	}
	for i, l := range links {
		path, err := l.path()
		if err != nil {
			return err
		}
		if s.gates[l.name], err = openGate(ctx, l.name, path, seed+uint64(i)); err != nil {
			delete(s.gates, l.name)
			return err
		}
	}
	for _, name := range f.Programs() {
		if err := f.Kill(ctx, name); err != nil {
			return err
		}
	}
	return s.h.Mend(ctx)
}
