//go:build e2e

package kind

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// held does something that moves pods of an app from a member to others, and holds that meanwhile there are never fewer
// than least of them in all members together. before are those that are there, all Ready. A pod counts from when it is
// Ready until somebody deletes it: that a kubelet on a busy machine finds it slow is nobody's doing.
//
// The member that gives is read before those that take, since two clusters cannot be read at once: a pod that stands in
// may be counted beside the one that it stands in for, so that too few are never seen where there were enough.
func (s *site) held(app string, before map[string]pod, least int, do func(), gives string, take ...string) {
	s.t.Helper()
	// A pod takes longer than this to get Ready, so that a gap is seen.
	const between = 200 * time.Millisecond
	ctx, stop := context.WithCancel(s.t.Context())
	var watch sync.WaitGroup
	served := map[types.UID]bool{}
	fewest, looks := serving(before, served), 0
	watch.Go(func() {
		tick := time.NewTicker(between)
		defer tick.Stop()
		for ctx.Err() == nil {
			// A look that comes to nothing, as the last one does, is none.
			if found, err := s.pods(ctx, app, append([]string{gives}, take...)...); err == nil {
				fewest = min(fewest, serving(found, served))
				looks++
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	defer func() {
		stop()
		watch.Wait()
		s.t.Logf("%s had %d pods at the least, of %d, in %d looks", app, fewest, len(before), looks)
		if fewest < least || looks == 0 {
			s.t.Errorf("%s had %d pods at a time while %s left, in %d looks, and its limits want %d", app, fewest, gives,
				looks, least)
		}
	}()
	do()
}

// serving counts pods that are Ready, or were, and marks them as served.
func serving(found map[string]pod, served map[types.UID]bool) int {
	n := 0
	for _, p := range found {
		if p.ready {
			served[p.uid] = true
		}
		if served[p.uid] {
			n++
		}
	}
	return n
}
