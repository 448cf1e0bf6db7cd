package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// sight is something that a watch of a cluster can see of a workload.
type sight struct {
	cluster, namespace, name string
	// what: "object", "gone", "image <name>", "status", "status <image>" or "ready <number>".
	what string
}

const (
	sawObject = "object"
	sawGone   = "gone"
	sawStatus = "status"
)

func sawImage(image string) string { return "image " + image }

func sawReady(pods int32) string { return fmt.Sprintf("ready %d", pods) }

func sawUpdated(image string) string { return "status " + image }

// sightings remembers when each was seen first.
type sightings struct {
	mu    sync.Mutex
	times map[sight]time.Time
	// changed is closed and replaced with each new sighting.
	changed chan struct{}
}

func newSightings() *sightings {
	return &sightings{times: map[sight]time.Time{}, changed: make(chan struct{})}
}

func (s *sightings) mark(seen ...sight) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := false
	for _, one := range seen {
		if _, known := s.times[one]; !known {
			s.times[one] = now
			fresh = true
		}
	}
	if fresh {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// await returns the times of all that is wanted, in the same order, once all of it was seen.
func (s *sightings) await(ctx context.Context, wanted []sight) ([]time.Time, error) {
	times := make([]time.Time, 0, len(wanted))
	for {
		s.mu.Lock()
		// What was seen stays seen, so looking goes on where it stopped.
		for len(times) < len(wanted) {
			at, known := s.times[wanted[len(times)]]
			if !known {
				break
			}
			times = append(times, at)
		}
		changed := s.changed
		s.mu.Unlock()
		if len(times) == len(wanted) {
			return times, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// missing describes what of wanted was not seen.
func (s *sightings) missing(wanted []sight) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	var first sight
	for _, one := range wanted {
		if _, known := s.times[one]; !known {
			if count == 0 {
				first = one
			}
			count++
		}
	}
	return fmt.Sprintf(
		"%d of %d not seen, first: %s of %s/%s in %s",
		count,
		len(wanted),
		first.what,
		first.namespace,
		first.name,
		first.cluster,
	)
}

// look returns what a watch of one cluster does with each event.
func (d *delivery) look(c *connection) func(client.Object, bool) bool {
	return func(object client.Object, gone bool) bool {
		set := object.(*appsv1beta1.CloneSet)
		see := func(what string) sight { return sight{c.cluster.Name, set.Namespace, set.Name, what} }
		if gone {
			d.seen.mark(see(sawGone))
			return false
		}
		seen := []sight{see(sawObject)}
		current := ""
		if len(set.Spec.Template.Spec.Containers) > 0 {
			current = set.Spec.Template.Spec.Containers[0].Image
			seen = append(seen, see(sawImage(current)))
		}
		n := cloneSetKind().counts(set)
		seen = append(seen, see(sawReady(n.ready)))
		if n.observed >= n.generation && n.replicas == n.all {
			seen = append(seen, see(sawStatus))
			if n.updated == n.all {
				seen = append(seen, see(sawUpdated(current)))
			}
		}
		d.seen.mark(seen...)
		return false
	}
}
