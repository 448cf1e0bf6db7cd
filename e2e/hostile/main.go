package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/hostile/objects"
)

// options are the flags.
type options struct {
	seed            uint64
	count, skip     int
	server          int
	workers         int
	programs        string
	mostHeapMiB     uint64
	mostResidentMiB float64
}

// mostFindings is how many findings are told; the rest is counted.
const mostFindings = 10

func main() {
	ctrllog.SetLogger(logr.Discard()) // the client library complains if nobody chose
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "`seed` of the objects")
	flag.IntVar(&o.count, "n", 1_000_000, "`number` of objects in this process")
	flag.IntVar(&o.skip, "skip", 0, "begin after this `number` of objects of each worker's seed")
	flag.IntVar(&o.server, "server", 20_000, "`number` of objects that are sent to a real API server; 0 for none")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "`number` of objects at a time")
	flag.StringVar(&o.programs, "programs", ".bin", "`folder` with flotilla-hub and flotilla-agent")
	flag.Uint64Var(&o.mostHeapMiB, "heap", 512, "most `MiB` of heap that this process may have")
	flag.Float64Var(
		&o.mostResidentMiB,
		"resident",
		1024,
		"most `MiB` that the hub and the agent may have, each; their charts' limit",
	)
	flag.Parse()
	//nolint:forbidigo // the root of the program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := inProcess(ctx, o, os.Stdout)
	if o.server > 0 && ctx.Err() == nil {
		err = errors.Join(err, atServer(ctx, o, os.Stdout))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// inProcess lets worlds in this process meet the objects. Each worker has a world and a seed of its own.
func inProcess(ctx context.Context, o options, out io.Writer) error {
	began := time.Now()
	var (
		mu       sync.Mutex
		findings []error
		found    int
		met      atomic.Int64
		taken    atomic.Int64
		most     uint64
		workers  sync.WaitGroup
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if found++; found <= mostFindings {
			findings = append(findings, err)
		}
	}
	for worker := range o.workers {
		workers.Go(func() {
			generator, err := objects.New(o.seed + uint64(worker))
			if err != nil {
				fail(err)
				return
			}
			w, err := newWorld(ctx)
			if err != nil {
				fail(err)
				return
			}
			for range o.skip {
				_ = generator.Next()
			}
			for i := worker; i < o.count && ctx.Err() == nil; i += o.workers {
				object := generator.Next()
				if err := w.meet(ctx, object); err != nil {
					fail(fmt.Errorf("seed %d: %w", o.seed+uint64(worker), &finding{object, o.skip + i/o.workers, err}))
				}
				if n := met.Add(1); n%heapEvery == 0 {
					mu.Lock()
					most = max(most, heap())
					mu.Unlock()
				}
			}
			taken.Add(int64(w.taken))
		})
	}
	workers.Wait()
	most = max(most, heap())
	fmt.Fprintf(
		out,
		"in this process: %d objects, %d of them as far as decisions, in %s; heap at most %d MiB; findings: %d\n",
		met.Load(),
		taken.Load(),
		time.Since(began).Round(time.Second),
		most,
		found,
	)
	if most > o.mostHeapMiB {
		findings = append(findings, fmt.Errorf("the heap had %d MiB, and may have %d", most, o.mostHeapMiB))
	}
	return errors.Join(append(findings, ctx.Err())...)
}

// heapEvery is after how many objects the heap is looked at.
const heapEvery = 10_000

// heap returns what lives in the heap of this process, in MiB.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const mib = 1 << 20
	return m.HeapInuse / mib
}
