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
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// options are the flags.
type options struct {
	runs     int
	seed     uint64
	length   time.Duration
	deadline time.Duration
	sabotage string
	keep     string
	// clocks is the folder of the programs' clocks.
	clocks string
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
	byDate := false
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "`seed` of the first run; each next one has the next seed")
	flag.BoolVar(&byDate, "by-date", false, "take the seeds of this day in UTC, in place of -seed")
	flag.DurationVar(&o.length, "for", time.Minute, "length of the storm of each run, as a `time`")
	flag.DurationVar(&o.deadline, "deadline", 3*time.Minute, "`time` to come to rest after a storm")
	flag.StringVar(&o.sabotage, "sabotage", "",
		"build the programs with this rule switched off, and fail unless that is noticed: "+
			strings.Join(sabotageNames(), ", "))
	flag.StringVar(&o.keep, "keep", filepath.Join(os.TempDir(), "flotilla-chaos"),
		"`folder` for logs and objects of runs with violations")
	flag.Parse()
	if byDate {
		o.seed = seedOf(time.Now())
	}
	if o.runs < 1 {
		return fmt.Errorf("-runs %d: give 1 or more", o.runs)
	}
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return fmt.Errorf("make a folder for changed programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the folder for what may be removed
	if err := buildChanged(ctx, o.sabotage, dir); err != nil {
		return err
	}
	o.clocks = filepath.Join(dir, "clocks")
	if err := errors.Join(os.Mkdir(o.clocks, 0o700), os.Setenv("FLOTILLA_BIN", dir)); err != nil {
		return fmt.Errorf("choose the changed programs: %w", err)
	}
	return playAll(ctx, o, out)
}

// seedOf returns the first seed of a day: its date, and a hundred seeds each. They are the same for all who look into
// what failed on that day.
func seedOf(now time.Time) uint64 {
	year, month, day := now.UTC().Date()
	return uint64(((year*100+int(month))*100 + day) * 100)
}

// repeats is how often a run is repeated at most that could not be judged.
const repeats = 2

// playAll starts the fleet, plays the runs and says what came out. The error says how to repeat the first bad run.
func playAll(ctx context.Context, o options, out io.Writer) error {
	s, end, err := open(ctx, o, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seeds %d to %d\n", o.seed, o.seed+uint64(o.runs)-1)
	said := tally{}
	sum := result{faults: map[string]int{}}
	for i := range o.runs {
		var res result
		for attempt := range 1 + repeats {
			if attempt > 0 {
				fmt.Fprintf(out, "seed %d is repeated: the machine stood still for too long to judge it\n", res.seed)
			}
			res, err = s.play(ctx, o.seed+uint64(i), o.length)
			res.line(out, i+1)
			res.told(out)
			if err != nil || res.verdict != judge.Unjudged {
				break
			}
		}
		sum.add(&res)
		said.add(i+1, res.verdict)
		if err != nil || o.sabotage != "" && said.bad > 0 {
			break
		}
	}
	for _, p := range s.proxies {
		for _, chance := range badAnswers() {
			sum.faults["bad answers"] += p.Made()[chance.Fault]
		}
	}
	if err == nil {
		err = s.awaitCleared(ctx)
	}
	err = errors.Join(err, end())
	sum.verdict = said.whole()
	fmt.Fprint(out, "\nall together: ")
	sum.line(out, o.runs)
	return said.conclude(o, err, out)
}

// tally counts verdicts.
type tally struct{ good, bad, none, first int }

func (t *tally) add(run int, v judge.Outcome) {
	switch v {
	case judge.Held:
		t.good++
	case judge.Unjudged:
		t.none++
	case judge.Broken:
		if t.bad++; t.first == 0 {
			t.first = run
		}
	}
}

// whole is the verdict of all runs: one that says nothing takes nothing from those that do.
func (t *tally) whole() judge.Outcome {
	switch {
	case t.bad > 0:
		return judge.Broken
	case t.good > 0:
		return judge.Held
	default:
		return judge.Unjudged
	}
}

// conclude returns the error of the command.
func (t *tally) conclude(o options, err error, out io.Writer) error {
	switch {
	case o.sabotage != "" && t.bad > 0:
		fmt.Fprintf(out, "%s switched off: noticed in run %d\n", o.sabotage, t.first)
		return nil
	case o.sabotage != "":
		return errors.Join(err, fmt.Errorf("%s was switched off, and nothing was found in %d runs: the checker is blind",
			o.sabotage, o.runs))
	case t.bad > 0:
		return errors.Join(err, fmt.Errorf("%d of %d runs broke a promise; look into %s, and repeat with -seed %d -runs %d",
			t.bad, o.runs, o.keep, o.seed, o.runs))
	case err == nil && t.good == 0:
		return fmt.Errorf("none of %d runs could be judged, each tried %d times: the machine stands still for too long; "+
			"this says nothing of the promises", o.runs, 1+repeats)
	case t.none > 0:
		fmt.Fprintf(out, "%d of %d runs could not be judged: the machine stood still for too long\n", t.none, o.runs)
	}
	return err
}

// add adds what another run was.
func (r *result) add(one *result) {
	r.changes += one.changes
	r.length, r.stood, r.slow, r.took = r.length+one.length, r.stood+one.stood, r.slow+one.slow, r.took+one.took
	r.rest = max(r.rest, one.rest)
	for kind, n := range one.faults {
		r.faults[kind] += n
	}
	a, b := &r.report, &one.report
	a.Violations = append(a.Violations, b.Violations...)
	a.Entries, a.Disruptions, a.Creations = a.Entries+b.Entries, a.Disruptions+b.Disruptions, a.Creations+b.Creations
	a.Foreign, a.Placements, a.UserChanges = a.Foreign+b.Foreign, a.Placements+b.Placements, a.UserChanges+b.UserChanges
	a.LargestDown, a.LargestAdded = max(a.LargestDown, b.LargestDown), max(a.LargestAdded, b.LargestAdded)
	a.Suspicions, a.SidecarUpdates = a.Suspicions+b.Suspicions, a.SidecarUpdates+b.SidecarUpdates
	a.Restarts += b.Restarts
}

// open starts the fleet with a proxy at every link of our programs, and the recorder. The returned function ends all of
// it.
func open(ctx context.Context, o options, out io.Writer) (*stage, func() error, error) {
	s := &stage{recorder: &recorder{}, proxies: map[string]*faultproxy.Proxy{}, deadline: o.deadline, out: out,
		keep:   o.keep,
		clocks: o.clocks}
	life, stop := context.WithCancel(ctx)
	end := func() error {
		stop()
		var err error
		for _, p := range s.proxies {
			err = errors.Join(err, p.Close())
		}
		if s.h != nil {
			err = errors.Join(err, s.h.Close())
		}
		return err
	}
	began := time.Now()
	progress := func(step string) { fmt.Fprintln(out, "fleet:", step) }
	var err error
	s.h, err = harness.Start(ctx, harness.Options{
		Members: harness.ThreeMembers(), Progress: progress,
		Env:    func(program string) []string { return []string{clockVariable + "=" + filepath.Join(o.clocks, program)} },
		Before: func(ctx context.Context, h *harness.Harness) error { return s.openProxies(ctx, h, o.seed) },
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apps.AddToScheme, policy.AddToScheme,
		topology.AddToScheme} {
		if err == nil {
			err = add(scheme)
		}
	}
	if err == nil {
		err = s.recorder.start(life, s.h, scheme)
	}
	if err == nil {
		err = s.startDaemons(life, o.seed)
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	progress(fmt.Sprintf("the hub and the agents run, %.0f s", time.Since(began).Seconds()))
	return s, end, nil
}

// openProxies lets every program of ours dial through proxies when it starts.
func (s *stage) openProxies(ctx context.Context, h *harness.Harness, seed uint64) error {
	type link struct {
		name string
		path func() (string, error)
	}
	f := h.Fleet
	links := []link{{fleet.HubProgram + " to hub", func() (string, error) { return f.HubIdentity(ctx) }}}
	for _, name := range h.MemberNames() {
		links = append(links,
			link{toHub(name), func() (string, error) { return f.MemberIdentity(ctx, name) }},
			link{toMember(name), func() (string, error) { return f.AgentIdentity(ctx, f.Member(name)) }})
	}
	for i, l := range links {
		path, err := l.path()
		if err != nil {
			return err
		}
		p, err := faultproxy.Open(ctx, l.name, path, faultproxy.Options{Seed: seed + uint64(i), Chances: badAnswers()})
		if err != nil {
			return err
		}
		s.proxies[l.name] = p
	}
	return nil
}

// badAnswers are how often API servers answer badly in a run: about one of eight requests other than watches.
func badAnswers() []faultproxy.Chance {
	return []faultproxy.Chance{
		{Fault: faultproxy.TooMany, PerMille: 50},
		{Fault: faultproxy.Internal, PerMille: 40},
		{Fault: faultproxy.Unavailable, PerMille: 40},
	}
}
