package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodView is what a watcher knows of a pod.
type PodView struct {
	Cluster, Namespace, Name string
	UID                      types.UID
	Version                  string
	Node, Zone, Subset       string
	// Image is that of the first container's spec, Running the one that its status names.
	Image, Running string
	Restarts       int32
	// Ready: the pod is ready, and no update in place is going on.
	Ready bool
	// Deleting: the pod has a deletion timestamp.
	Deleting bool
}

// String names the pod for messages.
func (p PodView) String() string {
	return fmt.Sprintf("%s/%s/%s (uid %s, zone %s, image %s, restarts %d, ready %t, deleting %t)",
		p.Cluster, p.Namespace, p.Name, p.UID, p.Zone, p.Image, p.Restarts, p.Ready, p.Deleting)
}

// Serves reports whether the pod counts as available (without minReadySeconds).
func (p PodView) Serves() bool { return p.Ready && !p.Deleting }

// PodEvent is one change of a pod as it was seen: After is nil when the pod is gone, Before when it is new.
type PodEvent struct {
	At            time.Time
	Before, After *PodView
}

// Pod returns the newest version of the pod.
func (e *PodEvent) Pod() *PodView {
	if e.After != nil {
		return e.After
	}
	return e.Before
}

// History is what happened to the pods of one namespace in all members.
type History struct {
	// Start are the pods at the beginning.
	Start map[types.UID]PodView
	// Events since then, in the order of their arrival.
	Events []PodEvent
	// Stalls are the times in which events of different members may have arrived in the wrong order.
	Stalls []Stall
}

// Created returns the pods that came, also those that are gone again.
func (h *History) Created() []PodView {
	var pods []PodView
	for i := range h.Events {
		if h.Events[i].Before == nil {
			pods = append(pods, *h.Events[i].After)
		}
	}
	return pods
}

// Gone returns the pods that are gone or going.
func (h *History) Gone() []PodView {
	going := map[types.UID]PodView{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.After == nil || e.After.Deleting {
			going[e.Pod().UID] = *e.Pod()
		}
	}
	return slices.Collect(maps.Values(going))
}

// Restarted returns the pods of which a container restarted.
func (h *History) Restarted() []PodView {
	restarted := map[types.UID]PodView{}
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
func (h *History) Most(count func(pods map[types.UID]PodView) int) (most int, when string) {
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
				e.At.Format(time.StampMilli), e.Pod(), listPods(pods))
		}
	}
	return most, when
}

// unordered tells whether two events came in one time in which this process stood still.
func (h *History) unordered(one, next time.Time) bool {
	return slices.ContainsFunc(h.Stalls, func(s Stall) bool { return !one.Before(s.From) && !next.After(s.To) })
}

// Unavailable counts how many of desired pods do not serve.
func Unavailable(desired int) func(map[types.UID]PodView) int {
	return func(pods map[types.UID]PodView) int {
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
func WithImage(image string) func(map[types.UID]PodView) int {
	return func(pods map[types.UID]PodView) int {
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
func Existing(pods map[types.UID]PodView) int {
	count := 0
	for _, pod := range pods {
		if !pod.Deleting {
			count++
		}
	}
	return count
}

// SameName counts the pods, also those being deleted, that have the name that most of them have.
func SameName(pods map[types.UID]PodView) int {
	most, names := 0, map[string]int{}
	for _, pod := range pods {
		names[pod.Name]++
		most = max(most, names[pod.Name])
	}
	return most
}

func listPods(pods map[types.UID]PodView) string {
	var lines []string
	for _, pod := range pods {
		lines = append(lines, "  "+pod.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
