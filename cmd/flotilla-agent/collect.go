package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// leastGarbage is how much garbage a small heap may have before it is collected, in bytes.
	leastGarbage = 64 << 20
	// leastPercent is that of a large heap, in percent of what is in use.
	leastPercent = 40
	// usualPercent is Go's own.
	usualPercent = 100
)

// collectionPercent returns how much garbage a heap may have before it is collected, in percent of what is in use. In a
// large heap nearly all is caches, which live long: collections are rare anyway, and their garbage is most of the
// memory that can be saved.
func collectionPercent(live uint64) int {
	if live == 0 {
		return usualPercent
	}
	return int(min(usualPercent, max(leastPercent, leastGarbage*100/live)))
}

// paceCollection adapts the garbage collector to the heap until ctx ends. The environment variable GOGC turns it off.
func paceCollection(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := usualPercent
	wait.UntilWithContext(ctx, func(context.Context) {
		metrics.Read(samples)
		if now := collectionPercent(samples[0].Value.Uint64()); now != percent {
			percent = now
			debug.SetGCPercent(percent)
		}
	}, time.Second)
}
