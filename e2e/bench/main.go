// Command bench measures Flotilla beside a bare client and the native Deployment, on the same machine, in the same
// run and on the same kind of API server, none of whose components limit their clients:
//
//	go run ./e2e/bench                      everything, once
//	go run ./e2e/bench -only rollout -n 3   one section, three times
//	go run ./e2e/bench -o json              for a program to read
//
// Sections: division (the mathematics alone), delivery (hub object to member objects, members without kubelets),
// rollout (CloneSets of hundreds or thousands of pods, by -sizes, in one cluster with simulated nodes, against a bare
// client, a Deployment, and a Deployment whose pods have the same readiness gate), conversion (reads of a CloneSet as
// v1alpha1 against reads of the stored version), writes (what the API server computes for a write of a CloneSet against
// one of a Deployment), plan (flotilla plan of 1 000 workloads), statefulset (hundreds of pods with identities, against
// StatefulSets of apps/v1 and a CloneSet), daemonset (a thousand nodes, against a DaemonSet of apps/v1) and admission
// (creations of pods through the agent's webhook with 100 SidecarSets, 100 budgets and 50 WorkloadSpreads, against a
// webhook that does nothing, one that answers with the same patch, and the bare API server; a CloneSet with a sidecar
// against one without and one that has it in its template). On demand:
// curve (the agent's CPU per changed pod by size), members (a hub with up to a thousand members, whose agents are
// simulated in this process), agents (a hundred agents with their real credentials and links, in pretended members of
// this process, which join, and come back after an outage), tree (flotilla tree of 10 000 pods on such a hub), global
// (a rollout over three members with one limit, against the same one in one cluster) and memory (what the agent holds
// with 50 000 pods, few of which are selected).
//
// The bare client says what API server, scheduler and simulated kubelets allow at best. No figure makes it fail; a
// phase that does not end within its deadline does, and prints what it saw. The deadline is that of 500 pods, and more
// for more.
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
	"strconv"
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
	floors   string
	output   string
	programs string
	sizes    []int
	clusters []int
	members  []int
	curve    []int
	agents   int
	creates  int
	memory   int
	nodes    int
	over     time.Duration
	outage   time.Duration
	pods     int // the size that is being measured
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
	return []section{
		{"division", divisionSection}, {"delivery", deliverySection}, {"rollout", rolloutSection},
		{"conversion", conversionSection}, {"writes", writesSection},
		{"plan", planSection}, {statefulSetSectionName, statefulSetSection}, {daemonSetSectionName, daemonSetSection},
		{admissionSectionName, admissionSection},
		{"curve", curveSection}, {"members", membersSection}, {"agents", agentsSection}, {"tree", treeSection},
		{"global", globalSection}, {memorySectionName, memorySection},
	}
}

// bench is what all sections share.
type bench struct {
	options
	bin      string // folder with the control-plane programs
	ours     string // folder with the programs of Flotilla
	report   *report
	treeOnly bool // of the section members, only what tree shows of it
	progress io.Writer
}

// numbers returns a flag's function that reads numbers of 1 or more, separated by commas.
func numbers(to *[]int) func(string) error {
	return func(text string) error {
		var list []int
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(part)
			if err != nil || n < 1 {
				return fmt.Errorf("%q: give numbers of 1 or more, separated by commas", text)
			}
			list = append(list, n)
		}
		*to = list
		return nil
	}
}

// say tells a person who waits what is going on.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "comma-separated `sections` to run: "+
		"division, delivery, rollout, conversion, writes, plan, statefulset, daemonset, admission, curve, members, "+
		"agents, tree, global, memory (default all but the last six)")
	flag.IntVar(&o.runs, "n", 1, "number of runs; the table shows the median, and the range where there are several")
	flag.StringVar(&o.floors, "floors", strings.Join(floorNames(), ","),
		"comma-separated `floors` of the section rollout: what a CloneSet is held against")
	flag.StringVar(&o.output, "o", "table", "output `format`: table or json")
	flag.StringVar(&o.programs, "programs", "",
		"`folder` with flotilla-hub and flotilla-agent (default: built from this module)")
	o.sizes, o.curve = []int{500}, []int{100, 300, 1000, 3000, 10000}
	o.clusters, o.members = []int{3}, []int{10, 100, 1000}
	flag.Func("sizes", "comma-separated `replicas` in the section rollout (default 500; 5000 takes several minutes more)",
		numbers(&o.sizes))
	flag.Func("curve", "comma-separated `replicas` in the section curve (default 100,300,1000,3000,10000)",
		numbers(&o.curve))
	flag.Func("clusters", "comma-separated numbers of `members` with an API server each, in the section delivery "+
		"(default 3)", numbers(&o.clusters))
	flag.Func("members", "comma-separated numbers of simulated `members` in the section members (default 10,100,1000)",
		numbers(&o.members))
	flag.IntVar(&o.nodes, "nodes", 1000, "`number` of nodes in the section daemonset, rounded down to pairs")
	flag.IntVar(&o.creates, "creates", 1000, "`number` of pods that each side creates in the section admission")
	flag.IntVar(&o.memory, "memory-pods", 50000, "`number` of pods in the section memory")
	flag.IntVar(&o.agents, "agents", 100, "`number` of agents that join in the section agents")
	flag.DurationVar(&o.over, "over", time.Minute,
		"time over which the agents of the section agents come; 0 is all at once")
	flag.DurationVar(&o.outage, "outage", 30*time.Second, "time for which the hub is away in the section agents")
	flag.IntVar(&o.fan, "workloads", 100, "workloads at a time in the sections delivery, members and agents")
	flag.IntVar(&o.replicas, "replicas", 3, "replicas of each workload in the section delivery")
	flag.DurationVar(&o.deadline, "deadline", 3*time.Minute, "time after which a phase of up to 500 pods counts as stuck")
	flag.StringVar(&o.profiles, "profile", "",
		"`folder` for CPU profiles of the API server, one for the first seconds of each phase")
	flag.BoolVar(&o.verbose, "v", false,
		"print every request count, not only those of Flotilla, and the steps of the fleets")
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

// validate returns what is wrong with the flags, apart from the names of sections.
func (o *options) validate() error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("output format %q: use table or json", o.output)
	}
	for name := range strings.SplitSeq(o.floors, ",") {
		if !slices.Contains(floorNames(), name) {
			return fmt.Errorf("floor %q: use %s", name, strings.Join(floorNames(), ", "))
		}
	}
	if o.creates < 1 || o.memory < 1 {
		return errors.New("-creates and -memory-pods must be 1 or more")
	}
	if o.nodes < 2 {
		return fmt.Errorf("-nodes %d: give 2 or more", o.nodes)
	}
	if o.runs < 1 || o.fan < 1 || o.replicas < 1 || o.agents < 1 || o.over < 0 || o.outage < 0 {
		return errors.New("-n, -workloads, -replicas and -agents must be 1 or more, -over and -outage 0 or more")
	}
	return nil
}

// choose checks the flags and returns the sections to run.
func choose(o options) ([]string, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var all []string
	for _, s := range sections() {
		all = append(all, s.name)
	}
	if o.only == "" {
		// These alone take longer than the rest.
		return slices.DeleteFunc(all, func(name string) bool {
			return slices.Contains([]string{"curve", "members", "agents", "tree", "global", memorySectionName}, name)
		}), nil
	}
	chosen := strings.Split(o.only, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("section %q: use %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}
