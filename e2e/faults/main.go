package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// options are the flags.
type options struct {
	length   time.Duration
	seed     uint64
	deadline time.Duration
	broken   string
	most     int
	// late is how long after news were delivered to the controller it may first have read them, because the machine did
	// other things.
	late time.Duration
}

// defaultDeadline is how long everything may take to come to rest without faults: a queue that backed off looks again
// after 30 s at the latest.
const defaultDeadline = 30 * time.Second

func main() {
	ctrllog.SetLogger(logr.Discard()) // the client library complains if nobody chose
	//nolint:forbidigo // the root of the program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// start is the parent or, where the environment says so, the child.
func start(ctx context.Context, out io.Writer) error {
	if server := os.Getenv(envServer); server != "" {
		return runChild(ctx, server, os.Getenv(envBreak))
	}
	var o options
	flag.DurationVar(&o.length, "for", 5*time.Minute, "begin new episodes for this `time`")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "`seed` of what is drawn")
	flag.DurationVar(&o.deadline, "deadline", defaultDeadline, "`time` to come to rest after the faults of an episode")
	flag.IntVar(&o.most, "pods", 60, "largest `number` of pods of one CloneSet, 10 at least")
	flag.StringVar(&o.broken, "break", "",
		"make the controller wrong: `stale` or double; then the run fails unless it finds violations")
	flag.Parse()
	if o.broken != "" && o.broken != breakStale && o.broken != breakDouble {
		return fmt.Errorf("-break %q: use %s or %s", o.broken, breakStale, breakDouble)
	}
	if o.most < fewest {
		return fmt.Errorf("-pods %d: give %d or more", o.most, fewest)
	}
	if err := fleet.Reap(); err != nil {
		fmt.Fprintf(out, "could not remove fleets that were left behind: %v\n", err)
	}
	bin, err := fleet.FindBinaries()
	if err != nil {
		return err
	}
	cfg := fleetConfig()
	cfg.Bin = bin
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	s, err := run(ctx, o, f.Members()[0], out)
	err = errors.Join(err, f.Destroy())
	s.write(out)
	return errors.Join(err, s.verdict(o.broken))
}

// fleetConfig is one cluster with room for the pods of all CloneSets.
func fleetConfig() fleet.Config {
	return fleet.Config{NoHub: true, Members: []fleet.ClusterSpec{
		{Name: cluster, Nodes: fleet.Nodes(cluster, "eu", []string{"a", "b"}, 2)},
	}}
}
