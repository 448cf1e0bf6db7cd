package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// Mark is a moment in the history of a namespace.
type Mark struct {
	namespace string
	event     int
	pods      map[types.UID]Pod
}

// Mark returns the present moment; what the members have now lies before it.
func (w *Watcher) Mark(ctx context.Context, namespace string) Mark {
	gomega.ExpectWithOffset(1, w.CatchUp(ctx, namespace)).To(gomega.Succeed())
	w.mu.Lock()
	defer w.mu.Unlock()
	m := Mark{namespace: namespace, event: len(w.events), pods: map[types.UID]Pod{}}
	for uid, pod := range w.pods {
		if pod.Namespace == namespace {
			m.pods[uid] = pod
		}
	}
	return m
}

// Since returns what happened from the mark until now.
func (w *Watcher) Since(ctx context.Context, m Mark) History {
	gomega.ExpectWithOffset(1, w.CatchUp(ctx, m.namespace)).To(gomega.Succeed())
	w.mu.Lock()
	defer w.mu.Unlock()
	h := History{Start: m.pods, stills: slices.Clone(w.stills)}
	for _, event := range w.events[m.event:] {
		if one := event.pod(); one.Namespace == m.namespace {
			h.Events = append(h.Events, event)
		}
	}
	return h
}

func (e *Event) pod() *Pod {
	if e.After != nil {
		return e.After
	}
	return e.Before
}

// History is what happened to the pods of one namespace in all members.
type History struct {
	// Start are the pods at the beginning.
	Start map[types.UID]Pod
	// Events since then, in the order of their arrival.
	Events []Event
	// stills are in the order of their beginnings.
	stills []standstill
}

// Created returns the pods that came, also those that are gone again.
func (h *History) Created() []Pod {
	var pods []Pod
	for i := range h.Events {
		if h.Events[i].Before == nil {
			pods = append(pods, *h.Events[i].After)
		}
	}
	return pods
}

// Gone returns the pods that are gone or going.
func (h *History) Gone() []Pod {
	going := map[types.UID]Pod{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.After == nil || e.After.Deleting {
			going[e.pod().UID] = *e.pod()
		}
	}
	return slices.Collect(maps.Values(going))
}

// Restarted returns the pods of which a container restarted.
func (h *History) Restarted() []Pod {
	restarted := map[types.UID]Pod{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Before != nil && e.After != nil && e.After.Restarts > e.Before.Restarts {
			restarted[e.After.UID] = *e.After
		}
	}
	return slices.Collect(maps.Values(restarted))
}

// Most returns the highest value that count had of the pods that were there (also those being deleted), at the start or
// after any event, and when that was. Events of different members that came while this process stood still came in no
// order: they count together.
func (h *History) Most(count func(pods map[types.UID]Pod) int) (most int, when string) {
	pods := maps.Clone(h.Start)
	most, when = count(pods), "at the start"
	for i := range h.Events {
		e := &h.Events[i]
		if e.After == nil {
			delete(pods, e.Before.UID)
		} else {
			pods[e.After.UID] = *e.After
		}
		if i+1 < len(h.Events) && h.unordered(e.At, h.Events[i+1].At) {
			continue
		}
		if n := count(pods); n > most {
			most, when = n, fmt.Sprintf("after event %d of %d, at %s, of %s; then:\n%s", i+1, len(h.Events),
				e.At.Format(time.StampMilli), e.pod(), list(pods))
		}
	}
	return most, when
}

// unordered tells whether two events came in one time in which this process stood still.
func (h *History) unordered(one, next time.Time) bool {
	return slices.ContainsFunc(h.stills, func(s standstill) bool { return !one.Before(s.from) && !next.After(s.to) })
}

// Unavailable counts how many of desired pods do not serve.
func Unavailable(desired int) func(map[types.UID]Pod) int {
	return func(pods map[types.UID]Pod) int {
		serving := 0
		for _, pod := range pods {
			if pod.Serves() {
				serving++
			}
		}
		return max(desired-serving, 0)
	}
}

// WithImage counts the pods that are to run the image.
func WithImage(image string) func(map[types.UID]Pod) int {
	return func(pods map[types.UID]Pod) int {
		count := 0
		for _, pod := range pods {
			if pod.Image == image && !pod.Deleting {
				count++
			}
		}
		return count
	}
}

// Existing counts the pods that are not being deleted.
func Existing(pods map[types.UID]Pod) int {
	count := 0
	for _, pod := range pods {
		if !pod.Deleting {
			count++
		}
	}
	return count
}

// ExpectUntouched expects that no pod came, went or restarted.
func (h History) ExpectUntouched() {
	gomega.ExpectWithOffset(1, h.Created()).To(gomega.BeEmpty(), "pods were created")
	gomega.ExpectWithOffset(1, h.Gone()).To(gomega.BeEmpty(), "pods were deleted")
	gomega.ExpectWithOffset(1, h.Restarted()).To(gomega.BeEmpty(), "pods were restarted")
}

func list(pods map[types.UID]Pod) string {
	var lines []string
	for _, pod := range pods {
		lines = append(lines, "  "+pod.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
